//! What a host shows, and does about its log, its checkpoints and its partitions, for whoever asks while it
//! works, until it leaves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use liger_engine::row::RowHost;
use liger_fabric::native::HostMemory;
use liger_fabric::{Cx, Fabric, HostId};
use liger_pod::plan::PartitionId;

use super::Serving;
use crate::control::Scrubbed;
use crate::failure::Failure;
use crate::orders::{Look, Shown};

/// What a host shows of itself, whatever its workers do.
fn look<F: Fabric>(cx: &Cx<F>, host: &RowHost) -> Look {
    let moves = host.rows().moves();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Look {
        partitions: host.own_partitions().map(|partition| partition.0).collect(),
        troubles: host.faults(cx),
        restored: host.rows().restored(cx).map(|restored| (restored.bytes, restored.of_bytes)),
        scrubbed: Scrubbed {
            looks: count(&moves.rows_scrubbed),
            damaged: count(&moves.rows_damaged),
            healed: count(&moves.rows_healed),
        },
    }
}

impl<M: HostMemory> Serving<M> {
    /// Lets everybody look at the host, ask where the log is, order checkpoints, and have partitions go
    /// elsewhere.
    pub(super) fn show_log(&self, shown: &Shown) {
        let watch = self.host.log_watch();
        let ask = move |wanted| match watch.look(wanted) {
            Ok(point) => point.ok_or_else(|| "it keeps no log, or the pod has declared it dead".to_owned()),
            Err(failure) => Err(failure.to_string()),
        };
        *shown.log.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(ask));
        let onlooker = self.host.onlooker();
        let look = move || onlooker.look(look);
        *shown.look.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(look));
        let moves = self.host.partition_moves();
        let ask = move |moved: Option<(u16, u8)>| match moved {
            // What cannot be asked for now is asked for again by whoever waits for it.
            Some((partition, to)) => moves.ask(PartitionId(partition), HostId(to)).map(|_| Vec::new()),
            None => Ok(moves.ask_for_none().into_iter().map(|partition| partition.0).collect()),
        };
        *shown.moves.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(ask));
        let handle = self.host.checkpoint_handle().map_err(|error| error.to_string());
        let take = move || match &handle {
            Ok(handle) => handle.take().map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        *shown.checkpoint.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(take));
    }

    /// Leaves the pod; nobody may ask any more.
    pub(super) fn leave(self, shown: &Shown) -> Result<(), Failure> {
        *shown.log.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *shown.moves.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *shown.look.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *shown.checkpoint.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.host.leave().map_err(|error| Failure::Broken(error.to_string()))
    }
}
