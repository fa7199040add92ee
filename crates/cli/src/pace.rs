//! The hardware at whose pace a pod runs: chosen by name, agreed on by all its hosts.
//!
//! The reservation clocks are memory without a name. The process that made them hands them to the hosts that
//! it starts, and they are gone with it; so a pod that outlives it, or takes in hosts of others, has none.

use std::path::Path;
use std::sync::Arc;

use liger_fabric::SyncMode;
use liger_fabric::native::MemorySpec;
use liger_fabric::paced::Clocks;
use liger_fabric::profile::Profile;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::job::Backend;

/// A profile, and the clocks that were made for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pace {
    /// A built-in profile, or a file.
    profile: String,
    /// The profile's own name.
    name: String,
    /// By which name hosts open the clocks, once they are made.
    clocks: Option<String>,
}

impl Pace {
    /// What was asked for: nothing but for one backend, which needs a profile. Its sync words are the
    /// profile's, which `sync` may say again.
    pub fn asked(
        backend: Backend,
        profile: Option<&str>,
        sync: Option<SyncMode>,
    ) -> Result<(Option<Self>, SyncMode), Failure> {
        let known = || Profile::built_in_names().collect::<Vec<_>>().join(", ");
        let asked = match (backend, profile) {
            (Backend::Paced, Some(asked)) => asked,
            (Backend::Paced, None) => {
                return Err(Failure::Refused(format!(
                    "--backend paced needs the hardware to keep pace with: add --profile with a built-in one \
                     ({}) or a file of `liger probe --out`",
                    known()
                )));
            }
            (_, Some(_)) => {
                let message = "--profile needs --backend paced: others run at this machine's own pace";
                return Err(Failure::Refused(message.to_owned()));
            }
            (_, None) => return Ok((None, sync.unwrap_or_default())),
        };
        let found = Profile::named(asked).map_err(refused)?;
        if let Some(other) = sync.filter(|sync| *sync != found.sync_words) {
            return Err(Failure::Refused(format!(
                "--sync {other}: profile {} has {} sync words: leave --sync out, or name another profile",
                found.name, found.sync_words
            )));
        }
        let profile = match std::path::absolute(asked) {
            Ok(path) if Path::new(asked).exists() => path.display().to_string(),
            _ => asked.to_owned(),
        };
        Ok((Some(Self { profile, name: found.name, clocks: None }), found.sync_words))
    }

    /// Makes the clocks of a pod of so many bytes; they live as long as what is returned.
    pub fn make_clocks(&mut self, memory_bytes: u64) -> Result<Arc<Clocks>, Failure> {
        let profile = Profile::named(&self.profile).map_err(refused)?;
        let clocks = Clocks::create(&profile, memory_bytes).map_err(refused)?;
        self.clocks = Some(clocks.inherited().to_string());
        Ok(clocks)
    }

    /// The profile and the clocks, in a host.
    pub fn open(&self) -> Result<(Profile, Arc<Clocks>), Failure> {
        let profile = Profile::named(&self.profile).map_err(refused)?;
        let name: MemorySpec = self.clocks.as_deref().unwrap_or("memfd").parse()?;
        let clocks = Clocks::open(&name, &profile).map_err(refused)?;
        Ok((profile, clocks))
    }

    /// What reports call the backend: never without saying that its latencies are injected.
    pub fn label(&self) -> String {
        format!("paced: injected latencies of profile {}", self.name)
    }
}

fn refused(error: impl std::fmt::Display) -> Failure {
    Failure::Refused(error.to_string())
}
