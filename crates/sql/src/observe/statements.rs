//! How often statements ran and how long they took, by their texts without literals: `pg_stat_statements`.
//!
//! 1. A text is read and looked up when a statement is prepared; each time that it runs it only adds to the
//!    counters that it found then.
//! 2. There are at most [`MOST`]; the ones that ran least make room.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Texts at most.
const MOST: usize = 5000;
/// Bytes of a text that are kept.
const TEXT_BYTES: usize = 4096;

/// Counters of one text.
#[derive(Debug, Default)]
pub struct Counted {
    calls: AtomicU64,
    rows: AtomicU64,
    total_us: AtomicU64,
    max_us: AtomicU64,
    min_us: AtomicU64,
}

impl Counted {
    /// Adds a run.
    pub fn add(&self, us: u64, rows: u64) {
        if self.calls.fetch_add(1, Ordering::Relaxed) == 0 {
            self.min_us.store(us, Ordering::Relaxed);
        }
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.total_us.fetch_add(us, Ordering::Relaxed);
        if us > self.max_us.load(Ordering::Relaxed) {
            self.max_us.fetch_max(us, Ordering::Relaxed);
        }
        if us < self.min_us.load(Ordering::Relaxed) {
            self.min_us.fetch_min(us, Ordering::Relaxed);
        }
    }
}

/// What is known of one text.
#[derive(Clone, Debug, PartialEq)]
pub struct StatementFigures {
    /// The role that ran it.
    pub user: u32,
    /// A number for the text.
    pub id: u64,
    /// The text, with `$n` for literals.
    pub query: Arc<str>,
    /// How often it ran.
    pub calls: u64,
    /// Rows that it returned or changed.
    pub rows: u64,
    /// Time of all runs, microseconds.
    pub total_us: u64,
    /// The shortest run.
    pub min_us: u64,
    /// The longest run.
    pub max_us: u64,
}

type Key = (u32, Arc<str>);

/// All texts.
#[derive(Debug, Default)]
pub struct Statements(Mutex<BTreeMap<Key, Arc<Counted>>>);

/// FNV-1a: the same for a text on all hosts.
fn number_of(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Statements {
    /// The counters of a statement.
    pub fn of(&self, user: u32, sql: &str) -> Arc<Counted> {
        let text = crate::parse::without_literals(sql);
        let text: Arc<str> = text[..text.floor_char_boundary(TEXT_BYTES)].into();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all.get(&(user, text.clone())) {
            return found.clone();
        }
        if all.len() >= MOST {
            let mut calls: Vec<u64> = all.values().map(|one| one.calls.load(Ordering::Relaxed)).collect();
            let limit = *calls.select_nth_unstable(MOST / 20).1;
            // Enough at once that this is rare.
            let mut over = MOST / 20;
            all.retain(|_, one| {
                let goes = over > 0 && one.calls.load(Ordering::Relaxed) <= limit;
                over -= usize::from(goes);
                !goes
            });
        }
        let made = Arc::<Counted>::default();
        all.insert((user, text), made.clone());
        made
    }

    /// What is known of all texts that ran.
    pub fn figures(&self) -> Vec<StatementFigures> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = |((user, query), one): (&Key, &Arc<Counted>)| {
            let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            StatementFigures {
                user: *user,
                id: number_of(query),
                query: query.clone(),
                calls: count(&one.calls),
                rows: count(&one.rows),
                total_us: count(&one.total_us),
                min_us: count(&one.min_us),
                max_us: count(&one.max_us),
            }
        };
        all.iter().map(figures).filter(|one| one.calls > 0).collect()
    }

    /// Forgets all.
    pub fn reset(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_without_literals_are_one() {
        let all = Statements::default();
        all.of(10, "select * from t where a = 1 and b = 'x' -- why").add(10, 1);
        all.of(10, "SELECT  *\nfrom t where a = 27 and b = E'y'").add(30, 2);
        all.of(11, "select * from t where a = $1 and b = $2").add(5, 0);
        let figures = all.figures();
        assert_eq!(figures.len(), 2);
        let one = &figures[0];
        assert_eq!(&*one.query, "select * from t where a = $1 and b = $2");
        assert_eq!((one.calls, one.rows, one.total_us, one.min_us, one.max_us), (2, 3, 40, 10, 30));
        all.reset();
        assert_eq!(all.figures(), []);
    }

    #[test]
    fn there_are_not_too_many() {
        let all = Statements::default();
        let often = all.of(1, "select a");
        (0..9).for_each(|_| often.add(1, 1));
        for at in 0..2 * MOST {
            all.of(1, &format!("select a{at}")).add(1, 1);
        }
        let figures = all.figures();
        assert!(figures.len() <= MOST, "{}", figures.len());
        assert!(figures.iter().any(|one| one.calls == 9));
    }
}
