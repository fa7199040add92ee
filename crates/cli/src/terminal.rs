//! What a command says while it works: a bar or a spinner where somebody watches, plain lines otherwise,
//! always on the standard error output.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;

/// The signal that asked this process to end; 0: none.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Notes interrupts from now on instead of ending at once: who works looks with [`check_interrupted`].
pub fn note_interrupts() -> Result<(), Failure> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_usize(signal, SIGNAL.clone(), signal as usize)
            .map_err(|e| Failure::Broken(format!("cannot catch signals: {e}")))?;
    }
    Ok(())
}

/// Ends the work if somebody asked for that.
pub fn check_interrupted() -> Result<(), Failure> {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => Ok(()),
        signal => Err(Failure::Interrupted(signal as i32)),
    }
}

/// Forgets an interrupt, to end in order.
pub fn forget_interrupt() {
    SIGNAL.store(0, Ordering::Relaxed);
}

/// Phases of this process that say everything there is to say: those within them are not told.
static WHOLE: AtomicUsize = AtomicUsize::new(0);

/// How a phase is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Telling {
    /// To somebody who watches.
    Watched,
    /// In plain lines.
    Plain,
    /// Not at all: it is within a phase that is.
    Silent,
}

/// One phase of a command.
pub struct Phase {
    bar: ProgressBar,
    name: String,
    telling: Telling,
    /// Phases within it are silent.
    is_whole: bool,
}

impl Drop for Phase {
    fn drop(&mut self) {
        if self.is_whole {
            WHOLE.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Phase {
    /// A phase whose end cannot be seen coming.
    pub fn start(name: &str) -> Self {
        let bar = ProgressBar::new_spinner();
        Self::begin(bar, "{spinner} {msg} {elapsed}", name)
    }

    /// A phase that stands for all phases within it.
    pub fn over(name: &str) -> Self {
        let mut phase = Self::start(name);
        phase.is_whole = true;
        WHOLE.fetch_add(1, Ordering::Relaxed);
        phase
    }

    /// A phase of about `rows` rows.
    pub fn of_rows(name: &str, rows: u64) -> Self {
        let bar = ProgressBar::new(rows);
        Self::begin(bar, "{msg} {bar:32} {percent:>3} % {human_pos} rows {elapsed}, {eta} left", name)
    }

    /// A phase of so many bytes.
    pub fn of_bytes(name: &str, bytes: u64) -> Self {
        let bar = ProgressBar::new(bytes);
        Self::begin(bar, "{msg} {bar:32} {percent:>3} % {bytes} {elapsed}, {eta} left", name)
    }

    fn begin(bar: ProgressBar, template: &str, name: &str) -> Self {
        let telling = match (WHOLE.load(Ordering::Relaxed), bar.is_hidden()) {
            (0, false) => Telling::Watched,
            (0, true) => Telling::Plain,
            _ => Telling::Silent,
        };
        match telling {
            Telling::Watched => {
                bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
                bar.set_message(name.to_owned());
                bar.enable_steady_tick(Duration::from_millis(100));
            }
            Telling::Plain => eprintln!("{name} ..."),
            Telling::Silent => bar.set_draw_target(ProgressDrawTarget::hidden()),
        }
        Self { bar, name: name.to_owned(), telling, is_whole: false }
    }

    /// So many rows or bytes more.
    pub fn add(&self, more: u64) {
        self.bar.inc(more);
    }

    /// The phase is over.
    pub fn done(self, what: &str) {
        let took_s = self.bar.elapsed().as_secs_f64();
        self.bar.finish_and_clear();
        let name = match self.telling {
            Telling::Watched => format!("{}: ", self.name),
            Telling::Plain => "  ".to_owned(),
            Telling::Silent => return,
        };
        eprintln!("{name}{what} in {took_s:.1} s");
    }
}
