//! Whose memory it is: the pod and its generation, in two words beside the epoch. Positions of rings and
//! epochs mean something only together with the files of that generation, so whoever looks for records in a
//! memory that has outlived its hosts must know.
//!
//! ```text
//! epoch's line   3 pod   4: 32..64 CRC-32C of pod and generation   0..32 generation
//! ```
//!
//! Invariants:
//! 1. The words are written once, by the first host that begins a log, before it does; every other checks
//!    them.
//! 2. A memory whose second word is 0 has never held a record.

use liger_fabric::{Cx, Fabric, LINE, SyncAddr};
use liger_pod::plan::Plan;

/// A pod in one of its generations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The pod.
    pub pod: u64,
    /// Its generation.
    pub generation: u64,
}

/// What is wrong with the words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadBinding {
    /// They contradict themselves.
    #[error("the memory's words at {at:#x} that name its pod are damaged: {pod:#x}, {checked:#x}")]
    Damaged {
        /// Where the first one is.
        at: u64,
        /// The first one.
        pod: u64,
        /// The second one.
        checked: u64,
    },
    /// The memory belongs to somebody else.
    #[error("the memory's {what} is {found:#x}, that of the files is {expected:#x}")]
    Other {
        /// Which of its properties.
        what: &'static str,
        /// What the memory says.
        found: u64,
        /// What the files say.
        expected: u64,
    },
}

impl Binding {
    /// Whose memory it is; `None` if nobody has begun a log in it.
    ///
    /// # Errors
    /// If the words are damaged.
    pub fn load<F: Fabric>(cx: &Cx<F>, plan: &Plan) -> Result<Option<Self>, BadBinding> {
        let [first, second] = words(plan);
        let (pod, checked) = (cx.load(first), cx.load(second));
        let found = Self { pod, generation: checked & u64::from(u32::MAX) };
        match checked {
            0 => Ok(None),
            _ if found.checked() == checked => Ok(Some(found)),
            _ => Err(BadBinding::Damaged { at: first.offset(), pod, checked }),
        }
    }

    /// Says so, or finds that somebody did.
    pub(super) fn publish<F: Fabric>(self, cx: &Cx<F>, plan: &Plan) -> Result<(), BadBinding> {
        assert_ne!(self.checked(), 0, "a second word of 0 says that nobody has begun a log");
        let [first, second] = words(plan);
        // Whoever is first; all say the same.
        let _ = cx.compare_exchange(first, 0, self.pod);
        let _ = cx.compare_exchange(second, 0, self.checked());
        let found = Self::load(cx, plan)?.expect("just said");
        let differs = |&(_, found, expected): &(&str, u64, u64)| found != expected;
        let pairs = [("pod", found.pod, self.pod), ("generation", found.generation, self.generation)];
        match pairs.into_iter().find(differs) {
            None => Ok(()),
            Some((what, found, expected)) => Err(BadBinding::Other { what, found, expected }),
        }
    }

    /// The second word.
    fn checked(self) -> u64 {
        let Self { pod, generation } = self;
        assert!(u32::try_from(generation).is_ok(), "generation {generation} of a pod");
        let crc = crc32c::crc32c_append(crc32c::crc32c(&pod.to_le_bytes()), &generation.to_le_bytes());
        u64::from(crc) << 32 | generation
    }
}

// They are in the line of the epoch, behind the words of epoch, removals and requests.
const _: () = assert!(4 < LINE / 8);

fn words(plan: &Plan) -> [SyncAddr; 2] {
    [3, 4].map(|word| plan.epoch_word().word(word))
}
