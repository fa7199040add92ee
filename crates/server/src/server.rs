//! A running server: its listeners, its connections, its end.
//!
//! Invariants:
//! 1. `stop` and dropping a server end every connection. Threads that have served one end within ten seconds,
//!    except those inside a session that does not look at its interrupt: these end when it returns.

use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use liger_sql::session::{Activity, Database, InterruptReason, ServerView};

use crate::auth::scram::{Verifier, random_bytes};
use crate::auth::tls::{Tls, TlsError};
use crate::config::Config;
use crate::connection::Connection;
use crate::metrics::{Metrics, add};
use crate::parking::{Parking, Watched};
use crate::peer::Peers;
use crate::pool::Pool;
use crate::socket::{Listener, Socket};

/// After sockets were closed by force, how long their connections may take to notice.
const NOTICE: Duration = Duration::from_secs(1);
/// Where the operating system has no more sockets, how long the next client waits.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What all connections of a server share.
pub(crate) struct Shared {
    pub config: Config,
    pub database: Arc<dyn Database>,
    pub tls: Option<Tls>,
    /// Salts of roles that do not exist are made of it.
    pub mock_secret: [u8; 32],
    pub metrics: Arc<Metrics>,
    pub peers: Peers,
    pub parking: Arc<Parking>,
    pub pool: Arc<Pool>,
    pub stopping: AtomicBool,
    /// New clients are turned away, and the others are told their end when they are in no transaction.
    pub draining: AtomicBool,
    pub started_us: i64,
}

impl ServerView for Shared {
    fn activity(&self) -> Vec<Activity> {
        self.peers.activity()
    }

    fn started_us(&self) -> i64 {
        self.started_us
    }

    fn connections_max(&self) -> usize {
        self.config.connections_max
    }

    fn role_of(&self, process_id: i32, stop: Option<InterruptReason>) -> Option<String> {
        let peer = self.peers.find(process_id)?;
        let role = peer.status().user.clone();
        if let Some(reason) = stop {
            peer.raise(reason);
        }
        Some(role)
    }

    fn password_verifier(&self, password: &str) -> String {
        let verifier = Verifier::parse(password).unwrap_or_else(|| Verifier::new(password));
        verifier.to_string()
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address cannot be listened at.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// Which one.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// The encryption that was asked for.
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    /// Something else of the operating system.
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
    /// The number of the host does not fit into a process id.
    #[error("host {0} has no place in a process id: 126 is the last")]
    Host(u8),
}

/// A running server.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    local_sockets: Vec<PathBuf>,
    watcher: Option<JoinHandle<()>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens, and serves sessions of the database to whoever connects.
    pub fn start(config: Config, database: Arc<dyn Database>) -> Result<Self, StartError> {
        if config.host > 126 {
            return Err(StartError::Host(config.host));
        }
        let tls = config.certificate.as_ref().map(Tls::open).transpose()?;
        let (listeners, addresses) = listen(&config)?;
        let metrics = Arc::new(Metrics::default());
        let pool = Arc::new(Pool::new(metrics.clone(), config.stack_bytes));
        let parking = Arc::new(Parking::new(pool.clone())?);
        let local_sockets = config.local_sockets.clone();
        let shared = Arc::new(Shared {
            config,
            database,
            tls,
            mock_secret: random_bytes(),
            metrics,
            peers: Peers::default(),
            parking,
            pool,
            stopping: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            started_us: crate::clock::now_us(),
        });
        let watched = shared.clone();
        let watcher = std::thread::Builder::new().name("liger-sql-watch".to_string());
        let watcher = watcher.spawn(move || watch(&watched, &listeners))?;
        Ok(Self { shared, addresses, local_sockets, watcher: Some(watcher) })
    }

    /// The TCP addresses that it listens at, with the ports that the operating system chose for port 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Its counters.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Its connections, and what may be done to them.
    pub fn view(&self) -> Arc<dyn ServerView> {
        self.shared.clone()
    }

    /// Takes no new clients from now on (57P03), and tells each that is here its end (57P01) once it is in no
    /// transaction. Answers how many are left.
    pub fn drain(&self) -> usize {
        self.shared.draining.store(true, Ordering::SeqCst);
        for peer in self.shared.peers.all() {
            if peer.is_idle() {
                peer.raise(InterruptReason::Terminate);
            }
        }
        self.shared.peers.count()
    }

    /// Ends the server: takes no new clients, tells those that wait (57P01), interrupts what runs and gives
    /// it `grace` to end, then closes the rest. Answers whether all ended by themselves.
    pub fn stop(mut self, grace: Duration) -> bool {
        self.end(grace)
    }

    fn end(&mut self, grace: Duration) -> bool {
        let Some(watcher) = self.watcher.take() else { return true };
        self.shared.stopping.store(true, Ordering::SeqCst);
        let terminate = || {
            self.shared.peers.all().iter().for_each(|peer| peer.raise(InterruptReason::Terminate));
        };
        terminate();
        let mut ended = self.shared.peers.wait_for_none(grace);
        if !ended {
            self.shared.peers.all().iter().for_each(|peer| peer.socket.close(Shutdown::Both));
            ended = self.shared.peers.wait_for_none(NOTICE) && ended;
        }
        self.shared.parking.stop();
        // A panic of that thread has been reported by itself.
        let _ = watcher.join();
        self.shared.parking.clear();
        for path in &self.local_sockets {
            let _ = std::fs::remove_file(path);
        }
        ended
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

fn listen(config: &Config) -> Result<(Vec<Listener>, Vec<SocketAddr>), StartError> {
    let mut listeners = Vec::new();
    let mut addresses = Vec::new();
    for address in &config.addresses {
        let error = |error| StartError::Listen { address: address.to_string(), error };
        let listener = TcpListener::bind(address).map_err(error)?;
        addresses.push(listener.local_addr().map_err(error)?);
        listeners.push(Listener::Tcp(listener));
    }
    for path in &config.local_sockets {
        let error = |error| StartError::Listen { address: path.display().to_string(), error };
        // A socket that nobody answers at is left over from a process that was killed.
        if path.exists() && std::os::unix::net::UnixStream::connect(path).is_err() {
            std::fs::remove_file(path).map_err(error)?;
        }
        listeners.push(Listener::Local(UnixListener::bind(path).map_err(error)?));
    }
    Ok((listeners, addresses))
}

/// The thread that waits for clients and deadlines.
fn watch(shared: &Arc<Shared>, listeners: &[Listener]) {
    let result = shared.parking.watch(listeners, |seen| match seen {
        Watched::Look => {
            if shared.peers.end_gone() {
                shared.parking.look_soon();
            }
        }
        Watched::Client(socket) => welcome(shared, socket),
        Watched::AcceptFailed => std::thread::park_timeout(ACCEPT_PAUSE),
    });
    result.expect("waiting for events fails only where its arguments are wrong");
}

fn welcome(shared: &Arc<Shared>, socket: Socket) {
    add(&shared.metrics.connections, 1);
    // One more than may come in is told so; a flood is not even that.
    let over = shared.peers.count() > 2 * shared.config.connections_max;
    if over || shared.stopping.load(Ordering::SeqCst) {
        add(&shared.metrics.connections_refused, 1);
        add(&shared.metrics.connections_closed, 1);
        return;
    }
    let peer = shared.peers.enter(shared.config.host, Arc::new(socket), &shared.parking);
    // Whoever stops the server has seen this connection, or is seen here.
    if shared.stopping.load(Ordering::SeqCst) {
        peer.raise(InterruptReason::Terminate);
    }
    shared.pool.run(Box::new(Connection::new(shared.clone(), peer)));
}
