//! After a host's death: what the living ones do about its locks (docs/protocols/takeover.md).
//!
//! Invariants:
//! 1. The host is cut off, and nobody here listens to it any more, before the first of its locks is touched.
//! 2. Of a partition with a living owner, the owner resolves; of the dead host's own, its successor.

use liger_fabric::{Cx, Fabric};
use liger_pod::membership::Slot;
use liger_pod::plan::PartitionId;
use liger_pod::watch;

use super::Host;
use crate::method::{Dead, Logs, Method};
use crate::recovery::RecoveryError;

/// Names of the steps that a mutation test can leave out of this file.
pub(super) const SABOTAGE_STEPS: &[&str] = &["resolve.listen-no-more"];

impl<M: Method> Host<M> {
    /// This host's part after a death: it listens to the dead host no more, frees its own rows of it, also of
    /// partitions that it is taking over, and says so.
    ///
    /// # Errors
    /// If a record or an index is damaged, or the dead host's log cannot be read, and is needed.
    pub(super) fn resolve_death<F: Fabric>(
        &self,
        cx: &Cx<F>,
        slot: Slot,
        taking: &[(PartitionId, bool)],
        logs: Option<Logs<'_>>,
    ) -> Result<(), RecoveryError> {
        debug_assert_ne!(slot.host, self.me, "nobody deals with its own death");
        let deaf = !cx.sabotaged("resolve.listen-no-more");
        if deaf {
            self.owners.fence(cx, &self.plan, slot);
            self.lanes.drop_before(slot.host, slot.incarnation + 1);
        }
        debug_assert!(
            self.owners.is_fenced(slot.host, slot.incarnation) || !deaf,
            "it is known to be dead before the first of its locks is touched"
        );
        self.outbox.forget(cx, slot.host);
        let dead = Dead::read(cx, &self.instance, slot, logs, &mut || _ = self.serve(cx))?;
        let own: Vec<PartitionId> = self.own_partitions().collect();
        for partition in own {
            self.resolve_own(cx, partition, &dead)?;
        }
        for &(partition, attached) in taking {
            match attached {
                true => self.resolve_own(cx, partition, &dead)?,
                false => self.resolve_orphan(cx, partition, &dead)?,
            }
        }
        watch::mark_resolved(cx, &self.plan, slot, self.me);
        Ok(())
    }

    /// Frees a partition of this host from a dead host's locks.
    fn resolve_own<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        dead: &Dead,
    ) -> Result<(), RecoveryError> {
        debug_assert!(
            self.owns(partition) || self.owners.is_closed(partition),
            "it is this host's, or about to be"
        );
        self.method.resolve(cx, dead, partition, true, &mut || _ = self.serve(cx))
    }

    /// Frees a dead host's partition from a dead host's locks. The caller is its successor.
    pub(super) fn resolve_orphan<F: Fabric>(
        &self,
        cx: &Cx<F>,
        partition: PartitionId,
        dead: &Dead,
    ) -> Result<(), RecoveryError> {
        debug_assert!(!self.owns(partition), "whoever owns a partition resolves as its owner");
        self.method.resolve(cx, dead, partition, false, &mut || _ = self.attend(cx))
    }
}
