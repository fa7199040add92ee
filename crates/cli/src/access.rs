//! Who may connect to a pod with SQL, from where, and what they must prove: as `liger up` is told, and as its
//! hosts carry it out.
//!
//! 1. Clients of other machines are let in only where they prove something: an address beyond the loopback
//!    together with rules that trust it is refused before anything is made.
//! 2. Passwords are in no file of the pod. The first one, of the role `postgres`, is read by the host that
//!    makes the catalog, and what it is checked against is kept there as for every role.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use liger_server::auth::hba::Rules;
use liger_server::auth::scram::Verifier;
use liger_server::auth::tls::{Certificate, Tls};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Connections of a host, at most, where nothing is told.
const MAX_CONNECTIONS: u32 = 4_000;

/// What clients of SQL prove where no rules are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// Nothing
    Trust,
    /// That they know the password of their role
    #[value(name = "scram-sha-256")]
    Scram,
}

/// Who may connect.
#[derive(Args, Clone)]
pub struct AccessArguments {
    /// The address at which SQL is served
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    listen: IpAddr,
    /// Connections that each host takes at most, idle ones and open transactions included
    #[arg(long, value_name = "CONNECTIONS", default_value_t = MAX_CONNECTIONS,
        value_parser = clap::value_parser!(u32).range(10..=65_000))]
    max_connections: u32,
    /// What clients prove [default: nothing, on the loopback only]
    #[arg(long, value_enum, conflicts_with = "hba")]
    auth: Option<Auth>,
    /// Rules of who may connect from where, like PostgreSQL's pg_hba.conf; hosts read them when they start
    #[arg(long, value_name = "FILE")]
    hba: Option<PathBuf>,
    /// A file whose first line is the first password of the role postgres
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Offer encryption with a certificate that the pod makes for itself
    #[arg(long, conflicts_with = "tls_cert")]
    tls: bool,
    /// Offer encryption with this certificate: PEM, the chain with the server's own first
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's key: PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

/// The same, as hosts are told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Access {
    /// Where SQL is served.
    pub listen: IpAddr,
    /// Connections of each host, at most.
    #[serde(default = "usual")]
    pub max_connections: u32,
    /// What clients prove where there are no rules.
    auth: Auth,
    /// The file of rules.
    hba: Option<PathBuf>,
    /// The file with the first password of the role `postgres`.
    password_file: Option<PathBuf>,
    /// The folder with the certificate and key `server.crt` and `server.key` that the pod made.
    tls_folder: Option<PathBuf>,
    /// The certificate and key that were given.
    tls_files: Option<(PathBuf, PathBuf)>,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            max_connections: MAX_CONNECTIONS,
            auth: Auth::Trust,
            hba: None,
            password_file: None,
            tls_folder: None,
            tls_files: None,
        }
    }
}

fn usual() -> u32 {
    MAX_CONNECTIONS
}

fn refused<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Refused(message.into()))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

impl AccessArguments {
    /// What hosts of the pod in `dir` are told; refuses what would leave the pod open.
    pub fn access(&self, dir: &Path) -> Result<Access, Failure> {
        let listen = self.listen;
        let auth = self.auth.unwrap_or(Auth::Trust);
        let access = Access {
            listen,
            max_connections: self.max_connections,
            auth,
            hba: self.hba.as_deref().map(absolute),
            password_file: self.password_file.as_deref().map(absolute),
            tls_folder: self.tls.then(|| absolute(dir).join("tls")),
            tls_files: self.tls_cert.as_deref().map(absolute).zip(self.tls_key.as_deref().map(absolute)),
        };
        let rules = access.rules()?;
        if !listen.is_loopback() {
            if access.hba.is_none() && auth == Auth::Trust {
                return refused(format!(
                    "--listen {listen} lets clients of other machines in, and nothing is asked of them: add \
                     --auth scram-sha-256, or --hba with rules of who may come"
                ));
            }
            if let Some(line) = rules.trusts_others() {
                return refused(format!(
                    "--listen {listen} lets clients of other machines in, and line {line} of the rules \
                     trusts them: name a method like scram-sha-256 there, or addresses of this machine only"
                ));
            }
        }
        if access.hba.is_none() && auth == Auth::Scram && access.password_file.is_none() {
            return refused(
                "--auth scram-sha-256 keeps everybody out of a new pod, where no role has a password: add \
                 --password-file with that of the role postgres",
            );
        }
        access.first_verifier(true)?;
        Ok(access)
    }
}

impl Access {
    /// The same for a pod in another directory: a certificate of the pod's own is in that.
    pub fn of_dir(self, dir: &Path) -> Self {
        Self { tls_folder: self.tls_folder.map(|_| absolute(dir).join("tls")), ..self }
    }

    /// The rules.
    pub fn rules(&self) -> Result<Rules, Failure> {
        let Some(path) = &self.hba else {
            return Ok(match self.auth {
                Auth::Trust => Rules::standard(true),
                Auth::Scram => Rules::standard(false),
            });
        };
        let of = |error: String| Failure::Refused(format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| of(error.to_string()))?;
        Rules::parse(&text).map_err(|error| of(error.to_string()))
    }

    /// The certificate, if connections may be encrypted.
    pub fn certificate(&self) -> Option<Certificate> {
        let files = self.tls_files.as_ref();
        let files = files.map(|(chain, key)| Certificate::Files { chain: chain.clone(), key: key.clone() });
        files.or_else(|| self.tls_folder.clone().map(Certificate::Folder))
    }

    /// Makes the certificate if it is the pod's own, and sees that it can be used: before hosts are started,
    /// which would make one each.
    pub fn prepare(&self) -> Result<(), Failure> {
        if let Some(folder) = &self.tls_folder {
            std::fs::create_dir_all(folder)
                .map_err(|error| Failure::Refused(format!("{}: {error}", folder.display())))?;
        }
        match self.certificate() {
            Some(certificate) => match Tls::open(&certificate) {
                Ok(_) => Ok(()),
                Err(error) => refused(format!("--tls: {error}")),
            },
            None => Ok(()),
        }
    }

    /// What the first password of `postgres` is checked against. Only a new pod `must` be able to read it.
    pub fn first_verifier(&self, must: bool) -> Result<Option<String>, Failure> {
        let Some(path) = &self.password_file else { return Ok(None) };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(_) if !must => return Ok(None),
            Err(error) => return refused(format!("{}: {error}", path.display())),
        };
        match text.lines().next().filter(|line| !line.is_empty()) {
            Some(password) => Ok(Some(Verifier::new(password).to_string())),
            None => refused(format!("{}: its first line is to be a password, and is empty", path.display())),
        }
    }

    /// Where a host of the pod listens.
    pub fn address(&self, port: u16, host: u8) -> SocketAddr {
        SocketAddr::from((self.listen, port + u16::from(host)))
    }

    /// Where hosts of this machine reach one another.
    pub fn route(&self, port: u16, host: u8) -> SocketAddr {
        let mut address = self.address(port, host);
        if self.listen.is_unspecified() {
            address.set_ip(match self.listen {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        address
    }
}
