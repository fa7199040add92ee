//! What a command says while it works: a bar or a spinner where somebody watches, plain lines otherwise,
//! always on the standard error output.

use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub use crate::interrupt::{check_interrupted, forget_interrupt, note_interrupts};
use crate::sizes;

/// Time between two looks at how far a phase is, and between two lines that say so where nobody watches.
const LOOK: Duration = Duration::from_millis(100);
const SAY: Duration = Duration::from_secs(2);

/// Says a line on the standard error output; nobody may be reading it any more.
pub fn say(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
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
        if !self.bar.is_finished() {
            self.bar.finish_and_clear();
        }
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
            Telling::Plain => say(format_args!("{name} ...")),
            Telling::Silent => bar.set_draw_target(ProgressDrawTarget::hidden()),
        }
        Self { bar, name: name.to_owned(), telling, is_whole: false }
    }

    /// So many rows or bytes more.
    pub fn add(&self, more: u64) {
        self.bar.inc(more);
    }

    /// Shows how far it is by a count of bytes that others keep.
    #[expect(clippy::disallowed_methods, reason = "whoever works is not asked how far it is")]
    pub fn follow(&self, count: &Arc<AtomicU64>) {
        let (bar, count, telling) = (self.bar.clone(), count.clone(), self.telling);
        std::thread::spawn(move || {
            let mut said = bar.elapsed();
            while !bar.is_finished() {
                std::thread::sleep(LOOK);
                let done = count.load(Ordering::Relaxed);
                bar.set_position(done);
                if telling == Telling::Plain && bar.elapsed() >= said + SAY && !bar.is_finished() {
                    said = bar.elapsed();
                    let of =
                        bar.length().filter(|of| *of >= done).map(|of| format!(" of {}", sizes::show(of)));
                    say(format_args!("  {}{} read", sizes::show(done), of.unwrap_or_default()));
                }
            }
        });
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
        say(format_args!("{name}{what} in {took_s:.1} s"));
    }
}
