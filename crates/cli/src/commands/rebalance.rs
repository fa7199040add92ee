//! `liger rebalance`: partitions go to other hosts, while all of them serve their clients.

#![expect(clippy::disallowed_methods, reason = "a hand-over by other processes is waited for")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::up::duration;
use crate::control::{Answer, Order};
use crate::failure::Failure;
use crate::pod::{Line, PodDir, ask_host};
use crate::terminal::{self, Phase};

/// A host answers what it is doing within this time.
const SOON: Duration = Duration::from_secs(5);
/// Partitions that are on their way to a host have come within this time.
const COMES: Duration = Duration::from_secs(40);
/// Time between two looks at how far it is.
const LOOK: Duration = Duration::from_millis(20);
/// What was refused, or is another move's, is asked for again after this time.
const AGAIN: Duration = Duration::from_millis(500);

/// Which partitions go where.
#[derive(Args)]
#[command(after_help = "Examples:\n  liger rebalance ./shop\n  liger rebalance ./shop --partition 3 --to 1")]
pub struct Arguments {
    /// The pod's directory
    dir: PathBuf,
    /// One partition, instead of an even share for each host
    #[arg(long, requires = "to")]
    partition: Option<u16>,
    /// The host that is to have it
    #[arg(long, requires = "partition")]
    to: Option<usize>,
    /// It has so long, like 30s
    #[arg(long, default_value = "120s", value_parser = duration)]
    within: Duration,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

/// Which host has which partitions.
type Owned = BTreeMap<usize, Vec<u16>>;

/// Moves partitions, and waits until they are where they are to be.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let dir = PodDir::open(&arguments.dir)?;
    let moves = match (arguments.partition, arguments.to) {
        (Some(partition), Some(to)) => {
            dir.check_host(to)?;
            if let Err(why) = ask_host(&dir, to, SOON) {
                let message = format!("host {to} does not serve ({why}): start it with `liger add`");
                return Err(Failure::Refused(message));
            }
            vec![(partition, to)]
        }
        _ => even(&owned(&dir)?),
    };
    let started = Instant::now();
    let phase = Phase::start(&format!("{} partitions go to other hosts", moves.len()));
    let moved = move_all(&dir, &moves, arguments.within)?;
    phase.done(&format!("{moved} moved"));
    let owned = self::owned(&dir)?;
    for (host, partitions) in &owned {
        println!("host {host}: partitions {partitions:?}");
    }
    if arguments.json {
        let seconds = started.elapsed().as_secs_f64();
        println!("{}", json!({ "moved": moved, "seconds": seconds, "owned": owned }));
    }
    Ok(ExitCode::SUCCESS)
}

/// What the hosts that serve have.
fn owned(dir: &PodDir) -> Result<Owned, Failure> {
    let said = |host| Some((host, ask_host(dir, host, SOON).ok()?.partitions));
    let owned: Owned = (0..dir.hosts()).filter_map(said).collect();
    if owned.is_empty() {
        let path = dir.path().display();
        return Err(Failure::Refused(format!(
            "no host of {path} serves: `liger recover {path}` starts them"
        )));
    }
    Ok(owned)
}

/// The moves after which no host has two partitions more than another one.
fn even(owned: &Owned) -> Vec<(u16, usize)> {
    let (mut owned, mut moves) = (owned.clone(), Vec::new());
    loop {
        let (&most, _) = owned.iter().max_by_key(|(_, has)| has.len()).expect("a host serves");
        let (&least, _) = owned.iter().min_by_key(|(_, has)| has.len()).expect("a host serves");
        if owned[&most].len() <= owned[&least].len() + 1 {
            return moves;
        }
        let partition = owned.get_mut(&most).and_then(Vec::pop).expect("it has most of them");
        owned.entry(least).or_default().push(partition);
        moves.push((partition, least));
    }
}

/// Has a host ask for no partitions any more; those that it has when none is on its way to it.
pub(super) fn ask_for_none(dir: &PodDir, host: usize) -> Result<Vec<u16>, Failure> {
    let mut line = Line::connect(dir, host, COMES)?;
    line.order(&Order::AskForNone)?;
    match line.last(|_, _| ()) {
        Ok(Answer::Owns { partitions }) => Ok(partitions),
        // It is no member, or does not move any.
        _ => Ok(ask_host(dir, host, SOON)?.partitions),
    }
}

/// Gives the partitions of a host to the others; what does not go in time stays.
pub(super) fn empty(dir: &PodDir, host: usize, within: Duration) -> Result<(), Failure> {
    let partitions = ask_for_none(dir, host)?;
    let mut owned = owned(dir)?;
    owned.remove(&host);
    if partitions.is_empty() || owned.is_empty() {
        return Ok(());
    }
    let phase = Phase::start(&format!("partitions {partitions:?} of host {host} go to others"));
    let mut moves = Vec::new();
    for partition in partitions {
        let (&least, _) = owned.iter().min_by_key(|(_, has)| has.len()).expect("another host serves");
        owned.entry(least).or_default().push(partition);
        moves.push((partition, least));
    }
    match move_all(dir, &moves, within) {
        Ok(moved) => phase.done(&format!("{moved} moved")),
        // The others take them over then, as if it had died.
        Err(Failure::Broken(why)) => terminal::say(format_args!("{why}")),
        Err(failure) => return Err(failure),
    }
    Ok(())
}

/// Asks for each move until it is made; how many were.
fn move_all(dir: &PodDir, moves: &[(u16, usize)], within: Duration) -> Result<usize, Failure> {
    let started = Instant::now();
    let mut left: Vec<(u16, usize)> = moves.to_vec();
    let mut asked = None::<Instant>;
    while !left.is_empty() {
        terminal::check_interrupted()?;
        if asked.is_none_or(|asked| asked.elapsed() >= AGAIN) {
            for &(partition, to) in &left {
                ask(dir, partition, to)?;
            }
            asked = Some(Instant::now());
        }
        std::thread::sleep(LOOK);
        let owned = owned(dir)?;
        // Whoever had it says so until it has looked again.
        let has = |host: &usize, partition: &u16| owned.get(host).is_some_and(|has| has.contains(partition));
        let is_there =
            |(partition, to): &(u16, usize)| owned.keys().all(|host| has(host, partition) == (host == to));
        left.retain(|it| !is_there(it));
        if !left.is_empty() && started.elapsed() > within {
            let partitions: Vec<u16> = left.iter().map(|(partition, _)| *partition).collect();
            let path = dir.path().display();
            return Err(Failure::Broken(format!(
                "the partitions {partitions:?} have not moved within {} s: their hosts have to take a \
                 checkpoint, and transactions that use them have to end; see {path}/host-*/said",
                within.as_secs()
            )));
        }
    }
    Ok(moves.len())
}

/// Asks for one move, through the host that is to have the partition.
fn ask(dir: &PodDir, partition: u16, to: usize) -> Result<(), Failure> {
    let mut line = Line::connect(dir, to, SOON)?;
    line.order(&Order::Move { partition, to: to as u8 })?;
    match line.last(|_, _| ())? {
        Answer::Done => Ok(()),
        Answer::Failed { message, .. } => Err(Failure::Refused(message)),
        other => Err(Failure::Broken(format!("host {to} answered what it was not asked: {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_share_moves_as_little_as_it_can() {
        let owned = |lists: &[&[u16]]| lists.iter().map(|list| list.to_vec()).enumerate().collect::<Owned>();
        assert_eq!(even(&owned(&[&[0, 1], &[2, 3]])), []);
        assert_eq!(even(&owned(&[&[0, 1, 2], &[]])), [(2, 1)]);
        assert_eq!(even(&owned(&[&[0, 1, 2, 3], &[], &[]])), [(3, 1), (2, 2)]);
        assert_eq!(even(&owned(&[&[0], &[]])), [], "there are fewer than hosts");
    }
}
