//! How much a self-test does, and how it waits.

use liger_fabric::{Cx, Fabric};

/// How much a self-test does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Times each order is given, if that takes no longer than `time_ns`.
    pub rounds: u32,
    /// Times each order is given however long that takes, up to `rounds`; at least 2, for the second round of
    /// lines needs a first.
    pub least_rounds: u32,
    /// Time for one order, in nanoseconds: hosts that share processors take turns, and each may cost a slice
    /// of a scheduler.
    pub time_ns: u64,
    /// For how long the joiner rests between two looks while it waits for its turn, or for the pod's first
    /// member, in nanoseconds: others may need the processor. 0: it only pauses.
    pub rest_ns: u64,
    /// Times both hosts do the ordered thing in one round, below 2^24.
    pub repeats: u32,
    /// Longest wait for an answer, in nanoseconds.
    pub answer_ns: u64,
    /// Time between two looks of a joiner that waits at whether the other still lives, in nanoseconds; as
    /// often it shows that it lives itself.
    pub look_ns: u64,
}

impl Effort {
    /// For real pods: 40 rounds of 500 in 80 ms, or 4 rounds; an answer within 2 s.
    pub const USUAL: Effort = Effort {
        rounds: 40,
        least_rounds: 4,
        time_ns: 80_000_000,
        rest_ns: 200_000,
        repeats: 500,
        answer_ns: 2_000_000_000,
        look_ns: 2_000_000,
    };
    /// For simulated pods.
    pub const SMALL: Effort = Effort {
        rounds: 3,
        least_rounds: u32::MAX,
        time_ns: 0,
        rest_ns: 0,
        repeats: 4,
        answer_ns: 2_000_000_000,
        look_ns: 2_000,
    };

    /// Lets others go on between two looks.
    pub(crate) fn wait<F: Fabric>(&self, cx: &Cx<F>) {
        if self.rest_ns == 0 {
            cx.pause();
        } else {
            cx.rest(self.rest_ns);
        }
    }
}
