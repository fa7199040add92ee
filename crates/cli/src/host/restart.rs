//! A host that starts again from its pod's files: it opens them, and its rows are made when they are wanted.
//! And what is waited for before somebody looks at all of them.

use liger_engine::TableId;
use liger_engine::recovery::Loaded;
use liger_engine::row::RowHost;
use liger_fabric::native::HostMemory;
use liger_pod::owner::Ownership;

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
            while host.settled_owners(cx).is_none() && cx.now_ns() < until_ns {
                host.attend(cx);
                cx.pause();
            }
        });
    }

    /// Hands over all rows of a table: of which partitions.
    pub(super) fn dump(&mut self, table: TableId) -> Result<Answer, String> {
        self.while_settled(|serving| {
            serving.benched().dump(table)?;
            let own = |host: &RowHost| host.own_partitions().map(|partition| partition.0).collect();
            Ok(Answer::Dumped { of: serving.host.alone(|session| own(session.host())) })
        })
    }

    /// Looks at a host at rest. A user may have moved partitions since it came to rest: then nothing is
    /// known.
    pub(super) fn while_settled(
        &mut self,
        look: impl FnOnce(&mut Self) -> Result<Answer, String>,
    ) -> Result<Answer, String> {
        let answer = look(self)?;
        let stays = self.at_rest.is_some() && self.settled_owners() == self.at_rest;
        Ok(if stays { answer } else { Answer::Unsettled })
    }

    /// Whose each partition is, unless one is on its way.
    pub(super) fn settled_owners(&mut self) -> Option<Vec<Option<Ownership>>> {
        self.host.alone(|session| session.host().settled_owners(session.cx()))
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
