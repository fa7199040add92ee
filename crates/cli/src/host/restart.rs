//! A host that starts again from its pod's files: it opens them, and its rows are made when they are wanted.

use liger_engine::recovery::Loaded;
use liger_fabric::native::HostMemory;

use super::Serving;
use crate::control::Answer;

impl<M: HostMemory> Serving<M> {
    /// Opens what the pod's files hold.
    pub(super) fn recover(&mut self) -> Result<Answer, String> {
        let (data, plan) = self.recovery.take().expect("this host was to recover");
        let recovered = self.host.recover(&data, &plan, self.job.workers);
        let Loaded { bytes, log_bytes, rows, changes } = recovered.map_err(|error| error.to_string())?;
        Ok(Answer::Recovered { bytes, log_bytes, rows, changes })
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
