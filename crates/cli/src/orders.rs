//! How orders reach a host, and answers go back: over its standard input and output, or over a socket.
//!
//! 1. Orders are carried out one after the other; every answer goes to where the order came from.
//! 2. The end of the standard input ends the process at once, whatever it is doing: whoever started it is
//!    gone.
//! 3. [`Order::Status`], [`Order::Drain`], [`Order::Move`], [`Order::AskForNone`], [`Order::Point`], and
//!    [`Order::Checkpoint`] of a host that has joined are carried out by the thread that reads them: nobody
//!    stops working for clients.

#![expect(clippy::disallowed_methods, reason = "every connection is listened to by a thread of its own")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use liger_engine::db::LogPoint;

use crate::control::{Answer, Order, Scrubbed};
use crate::failure::Failure;

/// An order, and where its answers go; `None`: the standard output.
struct Asked {
    order: Order,
    from: Option<UnixStream>,
}

/// Where a host's log is; or why nobody can say.
pub type AskLog = dyn Fn(u64) -> Result<LogPoint, String> + Send + Sync;

/// What there is to see of a host.
#[derive(Default)]
pub struct Look {
    /// The partitions it owns.
    pub partitions: Vec<u16>,
    /// What it cannot do at present, and why.
    pub troubles: Vec<String>,
    /// Bytes of images whose rows are made, of how many; none: all are.
    pub restored: Option<(u64, u64)>,
    /// What it has seen of its rows in shared memory.
    pub scrubbed: Scrubbed,
}

/// Looks at a host.
pub type LookAt = dyn Fn() -> Look + Send + Sync;

/// Asks for a partition to go to a host; none: the host asks for no partition any more, and these are its.
pub type AskMoves = dyn Fn(Option<(u16, u8)>) -> Result<Vec<u16>, String> + Send + Sync;

/// Takes a checkpoint, while the host goes on; or says why not.
pub type TakeCheckpoint = dyn Fn() -> Result<(), String> + Send + Sync;

/// What a host shows of itself while it works.
#[derive(Default)]
pub struct Shown {
    /// Transactions acknowledged to clients.
    pub transactions: AtomicU64,
    /// Looks at it, whatever its workers do; none if it is no member.
    pub look: Mutex<Option<Box<LookAt>>>,
    /// Lets clients go that are in no transaction, and takes no new ones; answers how many are left.
    pub drain: OnceLock<Box<dyn Fn() -> usize + Send + Sync>>,
    /// Says where the log is, and lets an epoch become durable; locked while somebody asks, so that the host
    /// can leave once it was taken away.
    pub log: Mutex<Option<Box<AskLog>>>,
    /// Asks for partitions on behalf of a host that has joined.
    pub moves: Mutex<Option<Box<AskMoves>>>,
    /// Takes checkpoints of a host that has joined.
    pub checkpoint: Mutex<Option<Arc<TakeCheckpoint>>>,
    /// Somebody has an order: leave what can be gone on with later.
    pub wanted: AtomicBool,
    /// Wakes a worker that sleeps until there is something to do.
    pub wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Shown {
    /// Has the workers leave what can be gone on with later.
    pub fn want(&self) {
        self.wanted.store(true, Ordering::SeqCst);
        self.wake.get().into_iter().for_each(|wake| wake());
    }
}

/// Orders as they come.
pub struct Orders {
    asked: Receiver<Asked>,
    /// What the host shows.
    pub shown: Arc<Shown>,
}

/// Where answers go at present; `None`: the standard output.
static OUT: Mutex<Option<UnixStream>> = Mutex::new(None);

impl Orders {
    /// Orders of the standard input.
    pub fn of_input() -> Self {
        let (sender, asked) = channel();
        std::thread::spawn(move || read_input(|order| sender.send(Asked { order, from: None }).is_ok()));
        Self { asked, shown: Arc::default() }
    }

    /// Orders of everybody who connects to a socket, which is made. For a `child`, the standard input only
    /// shows that somebody is there.
    pub fn of_socket(path: &Path, child: bool) -> Result<Self, Failure> {
        let (sender, asked) = channel();
        let shown = Arc::<Shown>::default();
        let listener = listen(path)?;
        let show = shown.clone();
        if child {
            std::thread::spawn(move || read_input(|_| true));
        }
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let (sender, show) = (sender.clone(), show.clone());
                std::thread::spawn(move || hear(connection, &sender, &show));
            }
        });
        Ok(Self { asked, shown })
    }

    /// The next order. Its answers are told to whoever gave it.
    pub fn next(&self) -> Result<Order, RecvError> {
        self.asked.recv().map(begin)
    }

    /// The next order, if there is one.
    pub fn next_if_any(&self) -> Result<Option<Order>, RecvError> {
        self.shown.wanted.store(false, Ordering::SeqCst);
        match self.asked.try_recv() {
            Ok(asked) => Ok(Some(begin(asked))),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(RecvError),
        }
    }
}

/// Makes a socket in place of one that an earlier process may have left.
pub fn listen(path: &Path) -> Result<UnixListener, Failure> {
    // If it is still somebody's, its owner is told nothing any more: only one process has a host's folder.
    let _ = std::fs::remove_file(path);
    UnixListener::bind(path)
        .map_err(|e| Failure::Refused(format!("{}: the socket cannot be made: {e}", path.display())))
}

fn begin(asked: Asked) -> Order {
    *OUT.lock().unwrap_or_else(PoisonError::into_inner) = asked.from;
    asked.order
}

fn read_input(mut take: impl FnMut(Order) -> bool) {
    for line in std::io::stdin().lock().lines() {
        let order = line.ok().and_then(|line| serde_json::from_str(&line).ok());
        let Some(order) = order else { break };
        let last = order == Order::Leave;
        if !take(order) || last {
            return;
        }
    }
    std::process::exit(1);
}

/// Reads one connection's orders until there are none.
fn hear(connection: UnixStream, sender: &Sender<Asked>, shown: &Shown) {
    let Ok(reader) = connection.try_clone() else { return };
    for line in BufReader::new(reader).lines().map_while(Result::ok) {
        let Ok(order) = serde_json::from_str(&line) else { return };
        if order == Order::Status {
            let look = shown.look.lock().unwrap_or_else(PoisonError::into_inner);
            let seen = look.as_ref().map(|look| look()).unwrap_or_default();
            drop(look);
            let Look { partitions, troubles, restored, scrubbed } = seen;
            let transactions = shown.transactions.load(Ordering::Relaxed);
            let status = Answer::Status { transactions, partitions, troubles, restored, scrubbed };
            write(&mut &connection, &status, &[]);
            continue;
        }
        if order == Order::Drain {
            let left = shown.drain.get().map_or(0, |drain| drain());
            write(&mut &connection, &Answer::Drained { left }, &[]);
            continue;
        }
        if let Order::Point { wanted } = order {
            let log = shown.log.lock().unwrap_or_else(PoisonError::into_inner);
            let point = log.as_ref().map_or_else(|| Err("it is no member".to_owned()), |ask| ask(wanted));
            drop(log);
            let point = match point {
                Ok(LogPoint { epoch, durable }) => Answer::Point { epoch, durable },
                Err(why) => Answer::NoPoint { why },
            };
            write(&mut &connection, &point, &[]);
            continue;
        }
        let moved = match order {
            Order::Move { partition, to } => Some(Some((partition, to))),
            Order::AskForNone => Some(None),
            _ => None,
        };
        if let Some(moved) = moved {
            let moves = shown.moves.lock().unwrap_or_else(PoisonError::into_inner);
            let asked = moves.as_ref().map_or_else(|| Err("it is no member".to_owned()), |ask| ask(moved));
            drop(moves);
            let answer = match (asked, moved) {
                (Ok(partitions), None) => Answer::Owns { partitions },
                (Ok(_), Some(_)) => Answer::Done,
                (Err(message), _) => Answer::Failed { message, refused: true },
            };
            write(&mut &connection, &answer, &[]);
            continue;
        }
        let take = shown.checkpoint.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let (Order::Checkpoint, Some(take)) = (&order, take) {
            let answer = match take() {
                Ok(()) => Answer::Done,
                Err(message) => Answer::Failed { message, refused: false },
            };
            write(&mut &connection, &answer, &[]);
            continue;
        }
        let Ok(from) = connection.try_clone() else { return };
        if sender.send(Asked { order, from: Some(from) }).is_err() {
            return;
        }
        shown.want();
    }
}

/// Answers the order at hand.
pub fn tell(answer: &Answer) {
    tell_with(answer, &[]);
}

/// Answers the order at hand, and adds bytes that the answer announces.
pub fn tell_with(answer: &Answer, bytes: &[u8]) {
    let out = OUT.lock().unwrap_or_else(PoisonError::into_inner);
    match &*out {
        Some(connection) => write(&mut &*connection, answer, bytes),
        None => write(&mut std::io::stdout().lock(), answer, bytes),
    }
}

fn write(out: &mut impl Write, answer: &Answer, bytes: &[u8]) {
    let mut line = serde_json::to_vec(answer).expect("every key is a string");
    line.push(b'\n');
    // Nobody listens any more: the end of the input ends this process, or the next order comes from
    // elsewhere.
    let _ = out.write_all(&line).and_then(|()| out.write_all(bytes)).and_then(|()| out.flush());
}
