//! What a host tells of its log to whoever asks while it works, until it leaves.

use std::sync::PoisonError;

use liger_fabric::native::HostMemory;

use super::Serving;
use crate::failure::Failure;
use crate::orders::Shown;

impl<M: HostMemory> Serving<M> {
    /// Lets everybody ask where the log is.
    pub(super) fn show_log(&self, shown: &Shown) {
        let watch = self.host.log_watch();
        let ask = move |wanted| match watch.look(wanted) {
            Ok(point) => point.ok_or_else(|| "it keeps no log, or the pod has declared it dead".to_owned()),
            Err(failure) => Err(failure.to_string()),
        };
        *shown.log.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(ask));
    }

    /// Leaves the pod; nobody may ask any more.
    pub(super) fn leave(self, shown: &Shown) -> Result<(), Failure> {
        *shown.log.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.host.leave().map_err(|error| Failure::Broken(error.to_string()))
    }
}
