//! A host that starts again from its pod's files: it opens them, and its rows are made when they are wanted.
//! And what is waited for before somebody looks at all of them.

use liger_engine::TableId;
use liger_engine::recovery::Loaded;
use liger_fabric::native::HostMemory;

use super::Serving;
use crate::control::Answer;

/// What has not moved by then is not waited for: it has no room for the checkpoint before.
const MOVES_NS: u64 = 60_000_000_000;

impl<M: HostMemory> Serving<M> {
    /// Opens what the pod's files hold.
    pub(super) fn recover(&mut self) -> Result<Answer, String> {
        let (data, plan) = self.recovery.take().expect("this host was to recover");
        let recovered = self.host.recover(&data, &plan, self.job.workers);
        let Loaded { bytes, log_bytes, rows, changes } = recovered.map_err(|error| error.to_string())?;
        Ok(Answer::Recovered { bytes, log_bytes, rows, changes })
    }

    /// Asks for no partitions until [`Order::GoOn`](crate::control::Order::GoOn), and waits until none of the
    /// pod is on its way: whoever looks at the whole database finds each row once.
    pub(super) fn await_moves(&mut self) {
        self.host.partition_moves().ask_for_share(false);
        self.host.alone(|session| {
            let (cx, host) = (session.cx(), session.host());
            let until_ns = cx.now_ns() + MOVES_NS;
            while !host.partitions_stay(cx) && cx.now_ns() < until_ns {
                host.attend(cx);
                cx.pause();
            }
        });
    }

    /// Hands over all rows of a table. A user may move partitions meanwhile: says whose rows they are.
    pub(super) fn dump(&mut self, table: TableId) -> Result<Answer, String> {
        let before = self.own_partitions();
        self.benched().dump(table)?;
        Ok(Answer::Dumped { of: (self.own_partitions() == before).then_some(before) })
    }

    fn own_partitions(&mut self) -> Vec<u16> {
        self.host.alone(|session| session.host().own_partitions().map(|partition| partition.0).collect())
    }

    /// Waits until a restart has made all rows.
    pub(super) fn await_rows(&mut self) -> Result<Answer, String> {
        self.host.alone(|session| {
            let (cx, host) = (session.cx(), session.host());
            while let Some(restored) = host.rows().restored(cx) {
                if restored.failed > 0 {
                    return Err(host.faults(cx).join("; "));
                }
                host.attend(cx);
                cx.pause();
            }
            Ok(Answer::Done)
        })
    }
}
