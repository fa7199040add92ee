//! Workers as stackful coroutines: starting, resuming and ending them.
//!
//! Invariants:
//! 1. A suspended coroutine is never dropped: it ends by returning, or by unwinding a private payload out of
//!    the verb in which it is suspended, caught at its root. So its destructors run on its own stack, and no
//!    forced unwinding meets a `catch_unwind` above.
//! 2. A panic of a worker is a finding, not noise: its message is kept and nothing is printed.
//! 3. Stacks are reused by later simulations of the thread (a fresh stack costs more than a small run).

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Once;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Stack of a worker in bytes (address space; pages are used as they are touched).
const STACK_BYTES: usize = 1 << 20;
/// Stacks kept for reuse by one thread.
const POOLED_STACKS: usize = 256;

const _: () = assert!(STACK_BYTES.is_multiple_of(4096), "a stack is whole pages");

thread_local! {
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
    static IN_WORKER: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Payload of the unwinding that ends a killed worker.
struct Killed;

/// How a worker ended.
pub(crate) enum End {
    /// Its closure returned.
    Returned,
    /// It was unwound because its host died or the run stopped.
    Killed,
    /// It panicked, with this message and place.
    Panicked(String),
}

/// A worker's coroutine.
pub(crate) struct Thread {
    coroutine: Option<Coroutine<(), (), End>>,
}

/// The way back to the scheduler from inside a coroutine.
pub(crate) struct Door(*const Yielder<(), ()>);

impl Door {
    /// Gives control back; returns when the scheduler resumes this worker.
    pub fn suspend(&self) {
        debug_assert!(IN_WORKER.get(), "only a worker that runs can be suspended");
        // SAFETY: a `Door` lives in the `Cx` that the root function of the coroutine lends to the worker's
        // closure for the duration of one call, so whoever reaches it runs on that coroutine's stack, below
        // the yielder.
        let yielder = unsafe { &*self.0 };
        yielder.suspend(());
    }
}

/// Ends the running worker; its root catches this.
pub(crate) fn unwind_killed() -> ! {
    resume_unwind(Box::new(Killed))
}

impl Thread {
    /// A worker that will run `body` when first resumed.
    pub fn new(body: impl FnOnce(Door) + 'static) -> Self {
        silence_workers();
        let stack = STACKS
            .with_borrow_mut(Vec::pop)
            .unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("address space for a worker's stack"));
        // A coroutine starts with at most 1 KiB of captures on its stack.
        let body: Box<dyn FnOnce(Door)> = Box::new(body);
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            let door = Door(yielder);
            match catch_unwind(AssertUnwindSafe(|| body(door))) {
                Ok(()) => End::Returned,
                Err(payload) if payload.is::<Killed>() => End::Killed,
                Err(payload) => End::Panicked(message(payload.as_ref())),
            }
        });
        Self { coroutine: Some(coroutine) }
    }

    /// True once it has run at all.
    pub fn started(&self) -> bool {
        self.coroutine.as_ref().is_some_and(Coroutine::started)
    }

    /// True when it can still be resumed.
    pub fn alive(&self) -> bool {
        self.coroutine.is_some()
    }

    /// Runs the worker until it suspends (`None`) or ends.
    pub fn resume(&mut self) -> Option<End> {
        let coroutine = self.coroutine.as_mut().expect("a finished worker is not resumed");
        assert!(!IN_WORKER.get(), "a worker resumes no other one: its panics would be taken for the other's");
        IN_WORKER.set(true);
        let result = coroutine.resume(());
        IN_WORKER.set(false);
        match result {
            CoroutineResult::Yield(()) => None,
            CoroutineResult::Return(end) => {
                self.recycle();
                Some(end)
            }
        }
    }

    /// Drops a worker that never ran.
    pub fn discard(&mut self) {
        if let Some(coroutine) = &mut self.coroutine {
            assert!(!coroutine.started(), "a suspended worker is unwound, not dropped");
            coroutine.force_unwind();
            self.recycle();
        }
    }

    fn recycle(&mut self) {
        if let Some(coroutine) = self.coroutine.take() {
            let stack = coroutine.into_stack();
            STACKS.with_borrow_mut(|pool| {
                debug_assert!(pool.len() <= POOLED_STACKS, "{} stacks are kept", pool.len());
                if pool.len() < POOLED_STACKS {
                    pool.push(stack);
                }
            });
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // Only a panic of the scheduler itself leaves a worker suspended: leak it then, the panic is what
        // matters.
        if self.started() {
            std::mem::forget(self.coroutine.take());
        }
        self.discard();
    }
}

/// Keeps panics of workers out of the process's output; other panics go to the hook that was there before.
fn silence_workers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if IN_WORKER.get() {
                let place = info.location().map_or_else(String::new, |l| format!(" at {l}"));
                PANIC.set(Some(format!("{}{place}", text(info.payload()))));
            } else {
                before(info);
            }
        }));
    });
}

fn message(payload: &(dyn Any + Send)) -> String {
    PANIC.take().unwrap_or_else(|| text(payload))
}

fn text(payload: &(dyn Any + Send)) -> String {
    let literal = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    literal.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}
