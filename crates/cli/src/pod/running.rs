//! A pod that this process has started: its memory and its hosts, from the first join to the end.

use std::path::Path;
use std::time::Duration;

use liger_fabric::native::MemorySpec;
use liger_pod::heap::room::Room;
use liger_pod::membership::HostState;
use liger_pod::watch::{Accusation, Reason};

use super::{Hosts, Line, PodDir, order_all};
use crate::control::{Answer, Order};
use crate::failure::Failure;
use crate::memory::{self, Found, Outlived, PodMemory};
use crate::sizes;
use crate::terminal::Phase;

/// Hosts that work on an order answer, or say how far they are, within this time.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Hosts that are well bring their logs to storage within this time; for the others it is done for them.
const END_PATIENCE: Duration = Duration::from_millis(400);

/// What a recovery has read and put into partitions.
#[derive(Clone, Copy, Default, Debug)]
pub struct Recovered {
    /// Bytes of images and logs.
    pub bytes: u64,
    /// Rows.
    pub rows: u64,
    /// Changes of rows.
    pub changes: u64,
    /// What was there besides files.
    pub found: Option<Found>,
}

/// A pod.
pub struct Running {
    /// Hosts end before their memory is removed.
    pub hosts: Hosts,
    memory: PodMemory,
    outlives: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.outlives {
            // Whoever starts the pod again finds in it what no log holds.
            self.memory.keep();
        }
    }
}

impl Running {
    /// Lets the pod use more of its data memory; what it may use now.
    pub fn grow(&self, bytes: u64) -> Result<Room, Failure> {
        let room = self.memory.grow(bytes)?;
        match self.hosts.dir().note_room(room.bytes) {
            Ok(()) => Ok(room),
            Err(why) => Err(Failure::Broken(format!(
                "the pod uses {} of data memory now, but when it starts again what it had before, because \
                 that could not be noted: {why}: make that right, and say it again",
                sizes::show(room.bytes)
            ))),
        }
    }

    /// Starts a new pod in its directory: its tables are filled, and that is on storage.
    pub fn start(dir: PodDir) -> Result<Self, Failure> {
        let spec: MemorySpec = dir.file.memory.parse()?;
        let job = &dir.file.job;
        let memory = PodMemory::make(&spec, &job.pod_config(), &job.schemas(), (false, false))?;
        memory.limit(job.usable_bytes)?;
        if let Some(data) = &job.data {
            memory.create(&data.path)?;
        }
        memory.note_owner(dir.path());
        let mut running = Self { hosts: Hosts::new(dir), memory, outlives: false };
        running.join_all()?;
        let job = &running.hosts.dir().file.job;
        let phase = Phase::of_rows("loading", job.rows());
        let mut rows = 0;
        for answer in running.order_all(&Order::Load, |rows| phase.add(rows))? {
            let Answer::Moved { rows: moved } = answer else { return Err(answer.unasked()) };
            rows += moved;
        }
        phase.done(&format!("{rows} rows"));
        if running.hosts.dir().file.job.data.is_some() {
            let phase = Phase::start("taking a checkpoint");
            running.order_all(&Order::Checkpoint, |_| ())?;
            phase.done("on storage");
        }
        running.open()?;
        Ok(running)
    }

    /// Starts a pod again from its files, and from its memory, unless that is lost or to be discarded.
    pub fn recover(mut dir: PodDir, mut outlived: Outlived) -> Result<(Self, Recovered), Failure> {
        let spec: MemorySpec = dir.file.memory.parse()?;
        let job = &dir.file.job;
        let (was, schemas) = (job.pod_config(), job.schemas());
        let mut put_away = None;
        if let (Some(hosts), Some(data)) = (dir.widens_to(), &job.data) {
            let job = (&was, &schemas[..], job.identity());
            put_away = Some(memory::widen(&spec, job, (&data.path, hosts), outlived)?);
            // What it holds is in the files, and they are those of more hosts.
            outlived.discard = true;
        }
        dir.found_anew();
        let is = dir.file.job.pod_config();
        let Some(data) = &mut dir.file.job.data else {
            let path = dir.path().display();
            return Err(Failure::Refused(format!("{path} keeps no log: there is nothing to recover")));
        };
        let phase = Phase::of_bytes("looking for what is left", log_bytes(&data.path));
        let (memory, generation, found) =
            PodMemory::again(&spec, (&was, &is, &schemas), &data.path, outlived, &phase)?;
        let found = put_away.unwrap_or(found);
        phase.done(&found.to_string());
        (data.recover, data.generation) = (true, generation);
        memory.limit(dir.file.job.usable_bytes)?;
        dir.save()?;
        memory.note_owner(dir.path());
        let mut running = Self { hosts: Hosts::new(dir), memory, outlives: false };
        running.join_all()?;
        let phase = Phase::start("recovering");
        let mut all = Recovered { found: Some(found), ..Recovered::default() };
        for answer in running.order_all(&Order::Recover, |_| ())? {
            let Answer::Recovered { bytes, rows, changes, .. } = answer else {
                return Err(answer.unasked());
            };
            all.bytes += bytes;
            all.rows += rows;
            all.changes += changes;
        }
        phase.done(&format!("{} rows, {} changes from logs", all.rows, all.changes));
        running.open()?;
        Ok((running, all))
    }

    /// Starts all hosts that have not left, and lets them join.
    fn join_all(&mut self) -> Result<(), Failure> {
        let members = self.hosts.dir().members();
        let phase = Phase::start(&format!("{} hosts join", members.len()));
        for &host in &members {
            self.hosts.start(host)?;
        }
        for &host in &members {
            drop(self.hosts.line(host, PATIENCE)?);
        }
        let orders = &self.hosts;
        order_all(orders.dir(), members.into_iter(), |host| orders.join(host, false), PATIENCE, |_| ())?;
        if self.hosts.dir().file.job.data.as_ref().is_some_and(|data| data.recover) {
            // All have read the files: now they may write.
            self.order_all(&Order::Enter, |_| ())?;
        }
        phase.done("joined, the memory passed its test");
        Ok(())
    }

    /// Lets clients in, if there can be any.
    fn open(&mut self) -> Result<(), Failure> {
        if !self.hosts.dir().file.job.has_clients() {
            return Ok(());
        }
        // The first one makes what all of them share, with nobody in its way.
        let mut members = self.hosts.dir().members().into_iter();
        order_all(self.hosts.dir(), members.by_ref().take(1), |_| Order::Open, PATIENCE, |_| ())?;
        order_all(self.hosts.dir(), members, |_| Order::Open, PATIENCE, |_| ()).map(drop)
    }

    /// Gives all hosts that run an order and waits for their final answers.
    pub fn order_all(&mut self, order: &Order, progress: impl FnMut(u64)) -> Result<Vec<Answer>, Failure> {
        let running: Vec<usize> =
            (0..self.hosts.dir().hosts()).filter(|host| self.hosts.has(*host)).collect();
        order_all(self.hosts.dir(), running.into_iter(), |_| order.clone(), PATIENCE, progress)
    }

    /// Starts a host whose earlier incarnation has ended. It is not a member yet: see [`join_again`].
    pub fn start_again(&mut self, host: usize) -> Result<Order, Failure> {
        self.hosts.start(host)?;
        drop(self.hosts.line(host, PATIENCE)?);
        Ok(self.hosts.join(host, true))
    }

    /// Takes in a host that somebody has started by hand: what it is to be told so that it joins.
    pub fn take_in(&mut self, host: usize) -> Result<Order, Failure> {
        self.hosts.take_in(host)?;
        drop(self.hosts.line(host, PATIENCE)?);
        Ok(self.hosts.join(host, true))
    }

    /// Why the others have ended a host's last incarnation, if they have because it was silent.
    pub fn silence(&self, host: usize) -> Option<Accusation> {
        let cut_off = self.memory.incarnation(host)?.1;
        cut_off.filter(|why| matches!(why.reason, Reason::Silent { .. }))
    }

    /// Whether the pod counts a host as dead.
    pub fn is_cut_off(&self, host: usize) -> bool {
        let slot = self.memory.incarnation(host);
        slot.is_some_and(|(slot, _)| matches!(slot.state, HostState::Suspect | HostState::Fenced))
    }

    /// From now on the memory outlives this process and the hosts, until [`Running::end`]: what was
    /// acknowledged at `pod` may be nowhere else.
    pub fn let_memory_outlive(&mut self) {
        self.outlives = true;
        self.memory.outlive();
    }

    /// Ends the pod once all logs are on storage.
    ///
    /// Hosts do not leave one by one: partitions have no owner then, and clients of those left would be told.
    /// One that hangs, or is dead with nobody to take over from it, holds nobody up: what the rings of all
    /// hosts hold is put into their logs here, once no process of theirs is left.
    pub fn end(mut self) -> Result<(), Failure> {
        let phase = Phase::start("ending");
        while self.hosts.ended().is_some() {}
        let running = (0..self.hosts.dir().hosts()).filter(|host| self.hosts.has(*host));
        let synced = order_all(self.hosts.dir(), running, |_| Order::Sync, END_PATIENCE, |_| ());
        if self.hosts.dir().file.job.data.is_none() {
            synced?;
        }
        // Clients may have gone on asking meanwhile.
        (0..self.hosts.dir().hosts()).for_each(|host| self.hosts.kill(host));
        if let Some(data) = &self.hosts.dir().file.job.data {
            self.memory.put_away(&data.path)?;
        }
        self.outlives = false;
        drop(self);
        phase.done("everything is on storage");
        Ok(())
    }
}

/// Bytes of the logs of all hosts.
pub fn log_bytes(data: &Path) -> u64 {
    bytes_of(data, |name| name.starts_with("log-"))
}

/// Bytes of the files in the folders of all hosts that are `wanted` by their names.
pub fn bytes_of(data: &Path, wanted: impl Fn(&str) -> bool) -> u64 {
    let folders = std::fs::read_dir(data).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
    let files = files.filter(|file| file.file_name().to_str().is_some_and(&wanted));
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

/// Lets a host join that [`Running::start_again`] has started, and take requests; returns once it does.
pub fn join_again(dir: &PodDir, host: usize, join: &Order) -> Result<(), Failure> {
    let mut line = Line::connect(dir, host, PATIENCE)?;
    line.order(join)?;
    line.last(|_, _| ())?;
    if dir.file.job.has_clients() {
        line.order(&Order::Open)?;
        line.last(|_, _| ())?;
    }
    Ok(())
}
