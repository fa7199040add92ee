//! What clients saw over time, and what that says about a host's death.
//!
//! A transfer belongs to a class of each kill, by what it needs of the host that died: nothing, an account
//! of its that hosts share, or its partition, where the transfer's own row is. A client knows that before
//! it asks. Those that were asked of the dead host and need nothing of its data are a class of their own:
//! they need another connection.

use std::fmt;

/// Length of a bucket, in nanoseconds.
pub const BUCKET_NS: u64 = 5_000_000;

/// A host's death, as whoever caused it saw it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kill {
    /// When.
    pub at_ns: u64,
    /// Who.
    pub host: usize,
    /// It was stopped and not killed.
    pub hangs: bool,
    /// The partitions it had.
    pub partitions: Vec<u16>,
    /// When it was a member again.
    pub back_ns: Option<u64>,
}

/// What a transfer needs of a host that died.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Nothing.
    Nothing,
    /// An account that hosts share.
    SharedRows,
    /// Its partition.
    Partitions,
    /// Nothing but the connection, which goes elsewhere now.
    Connection,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 4] = [Self::Nothing, Self::SharedRows, Self::Partitions, Self::Connection];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::SharedRows => "shared_rows",
            Self::Partitions => "partitions",
            Self::Connection => "connection",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing of the dead host",
            Self::SharedRows => "a row it had shared",
            Self::Partitions => "its partition",
            Self::Connection => "another connection",
        })
    }
}

/// What one client saw.
pub struct Seen {
    /// The partition of its transfers.
    home: u16,
    hosts: usize,
    /// Cells: the other partition that a transfer touches, or the number of partitions for none.
    cells: usize,
    /// Acknowledgements by bucket and host, and by bucket and cell.
    by_host: Vec<u32>,
    by_cell: Vec<u32>,
    /// By kill and cell: the longest wait after it.
    waits_ns: Vec<u64>,
    /// When it got which connection.
    connected: Vec<(u64, usize)>,
}

fn add(counts: &mut Vec<u32>, at: usize, n: u32) {
    if counts.len() <= at {
        counts.resize(at + 1, 0);
    }
    counts[at] += n;
}

impl Seen {
    /// Nothing yet.
    pub fn new(home: u16, hosts: usize, partitions: u16) -> Self {
        let cells = usize::from(partitions) + 1;
        let (by_host, by_cell, waits_ns) = Default::default();
        Self { home, hosts, cells, by_host, by_cell, waits_ns, connected: Vec::new() }
    }

    /// It has a connection to `host` from now on.
    pub fn connected(&mut self, now_ns: u64, host: usize) {
        self.connected.push((now_ns, host));
    }

    /// A transfer that touches partition `far` beside the client's own was acknowledged. `kill` is the number
    /// and the time of the last one.
    pub fn acknowledged(
        &mut self,
        now_ns: u64,
        host: usize,
        far: Option<u16>,
        waited_ns: u64,
        kill: Option<(usize, u64)>,
    ) {
        let bucket = (now_ns / BUCKET_NS) as usize;
        let cell = far.map_or(self.cells - 1, usize::from);
        add(&mut self.by_host, bucket * self.hosts + host, 1);
        add(&mut self.by_cell, bucket * self.cells + cell, 1);
        if let Some((number, at_ns)) = kill {
            let at = number * self.cells + cell;
            if self.waits_ns.len() <= at {
                self.waits_ns.resize((number + 1) * self.cells, 0);
            }
            let after_ns = waited_ns.min(now_ns.saturating_sub(at_ns));
            self.waits_ns[at] = self.waits_ns[at].max(after_ns);
        }
    }

    /// A host said that it has acknowledged `n` transactions more, of whatever kind.
    pub fn counted(&mut self, now_ns: u64, host: usize, n: u32) {
        add(&mut self.by_host, (now_ns / BUCKET_NS) as usize * self.hosts + host, n);
    }

    /// The host it was connected to.
    fn host_at(&self, at_ns: u64) -> Option<usize> {
        self.connected.iter().take_while(|(since_ns, _)| *since_ns <= at_ns).last().map(|(_, host)| *host)
    }

    fn class(&self, cell: usize, kill: &Kill) -> Class {
        let had = |partition: usize| kill.partitions.iter().any(|p| usize::from(*p) == partition);
        if had(self.home.into()) {
            Class::Partitions
        } else if had(cell) {
            Class::SharedRows
        } else if self.host_at(kill.at_ns) == Some(kill.host) {
            Class::Connection
        } else {
            Class::Nothing
        }
    }
}

/// What all clients saw.
pub struct Timeline<'s> {
    seen: Vec<&'s Seen>,
    kills: &'s [Kill],
    hosts: usize,
    buckets: usize,
}

impl<'s> Timeline<'s> {
    /// Of all clients.
    pub fn new(seen: Vec<&'s Seen>, kills: &'s [Kill], hosts: usize) -> Self {
        let buckets = seen.iter().map(|one| one.by_host.len().div_ceil(hosts)).max().unwrap_or(0);
        Self { seen, kills, hosts, buckets }
    }

    /// Its end, in nanoseconds.
    pub fn end_ns(&self) -> u64 {
        self.buckets as u64 * BUCKET_NS
    }

    /// Acknowledgements of a host by bucket.
    pub fn of_host(&self, host: usize) -> Vec<u64> {
        let mut sums = vec![0; self.buckets];
        for one in &self.seen {
            for (sum, counts) in sums.iter_mut().zip(one.by_host.chunks(self.hosts)) {
                *sum += u64::from(counts.get(host).copied().unwrap_or(0));
            }
        }
        sums
    }

    /// Acknowledgements of a class by bucket. A bucket counts by the kill that is nearest to it.
    pub fn of_class(&self, class: Class) -> Vec<u64> {
        let mut sums = vec![0; self.buckets];
        if self.kills.is_empty() {
            return sums;
        }
        let nearest: Vec<usize> =
            (0..self.buckets as u64).map(|b| self.nearest_kill(b * BUCKET_NS)).collect();
        for one in &self.seen {
            let belongs: Vec<Vec<bool>> = self
                .kills
                .iter()
                .map(|kill| (0..one.cells).map(|cell| one.class(cell, kill) == class).collect())
                .collect();
            for ((sum, counts), kill) in sums.iter_mut().zip(one.by_cell.chunks(one.cells)).zip(&nearest) {
                let mine = counts.iter().zip(&belongs[*kill]).filter(|(_, belongs)| **belongs);
                *sum += mine.map(|(n, _)| u64::from(*n)).sum::<u64>();
            }
        }
        sums
    }

    fn nearest_kill(&self, at_ns: u64) -> usize {
        let near = self.kills.iter().enumerate().min_by_key(|(_, kill)| kill.at_ns.abs_diff(at_ns));
        near.map_or(0, |(number, _)| number)
    }

    /// The longest wait of a class after each kill after which it was seen, in nanoseconds.
    pub fn waits_ns(&self, class: Class) -> Vec<u64> {
        let after = |(number, kill): (usize, &Kill)| {
            let of = |one: &&Seen| {
                let cells = (0..one.cells).filter(|cell| one.class(*cell, kill) == class);
                cells.filter_map(|cell| one.waits_ns.get(number * one.cells + cell).copied()).max()
            };
            self.seen.iter().filter_map(of).max().filter(|wait| *wait > 0)
        };
        self.kills.iter().enumerate().filter_map(after).collect()
    }

    /// The longest times after each kill in which a surviving host has acknowledged nothing, in nanoseconds;
    /// all kills and survivors, to the resolution of a bucket.
    pub fn stalls_ns(&self) -> Vec<u64> {
        let mut stalls = Vec::new();
        for host in 0..self.hosts {
            let counts = self.of_host(host);
            for (number, kill) in self.kills.iter().enumerate().filter(|(_, kill)| kill.host != host) {
                let from = (kill.at_ns / BUCKET_NS) as usize;
                let next = self.kills.get(number + 1).map_or(self.end_ns(), |kill| kill.at_ns);
                let to = ((next / BUCKET_NS) as usize).min(counts.len());
                let of = counts.get(from..to).unwrap_or(&[]);
                let longest = of.split(|n| *n > 0).map(<[u64]>::len).max().unwrap_or(0);
                stalls.push(longest as u64 * BUCKET_NS);
            }
        }
        stalls
    }
}

/// The middle one and the greatest of some values; none if there are none.
pub fn median_max(values: &[u64]) -> Option<(u64, u64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    Some((*sorted.get(sorted.len() / 2)?, *sorted.last()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A client of partition `home`, connected to host `home`, that is told of a transfer every 5 ms but
    /// for a gap.
    fn seen(home: u16, gap: std::ops::Range<u64>) -> Seen {
        let mut seen = Seen::new(home, 2, 2);
        seen.connected(0, home.into());
        for step in (0..200).filter(|step| !gap.contains(step)) {
            let waited = if step == gap.end { gap.end - gap.start } else { 1 };
            let kill = (step > 100).then_some((0, 500 * MS));
            let far = (step % 2 == 0).then_some(1 - home);
            seen.acknowledged(step * 5 * MS, home.into(), far, waited * 5 * MS, kill);
        }
        seen
    }

    #[test]
    fn classes_and_stalls_of_a_kill() {
        let (of_dead, of_survivor) = (seen(0, 101..150), seen(1, 101..110));
        let kills = [Kill { at_ns: 500 * MS, host: 0, hangs: false, partitions: vec![0], back_ns: None }];
        let timeline = Timeline::new(vec![&of_dead, &of_survivor], &kills, 2);
        assert_eq!(timeline.waits_ns(Class::Partitions), [245 * MS]);
        assert_eq!(timeline.waits_ns(Class::SharedRows), [45 * MS]);
        assert_eq!(timeline.waits_ns(Class::Nothing), [5 * MS]);
        assert!(timeline.waits_ns(Class::Connection).is_empty());
        assert_eq!(timeline.stalls_ns(), [45 * MS]);
        assert_eq!(timeline.of_host(0)[99..102], [1, 1, 0]);
        let total: u64 = Class::ALL.iter().flat_map(|class| timeline.of_class(*class)).sum();
        assert_eq!(total, 400 - 49 - 9);
        assert_eq!(median_max(&[3, 1, 2]), Some((2, 3)));
        assert_eq!(median_max(&[]), None);
    }
}
