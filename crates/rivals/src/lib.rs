//! The engines that Liger's row engine is compared with, on the same pods, tables and workloads:
//!
//! * [`partitioned`]: Sundial+ and DS2PL+, hosts that share nothing and commit by two-phase commit, as in
//!   Tigon's evaluation (OSDI'25, 6.1);
//! * [`shm`]: Sundial with all rows in shared memory (Sundial-SHM of Pasha's, CIDR'25);
//! * [`motor`]: Motor (OSDI'24) as a model of disaggregated memory.
//!
//! Each is a [`liger_engine::protocol::HostEngine`], built on [`liger_engine::protocol`]; the pod's memory,
//! membership and mail are those of the row engine. None survives the death of a host.

#![forbid(unsafe_code)]

pub mod motor;
pub mod partitioned;
pub mod shm;
mod sundial;
