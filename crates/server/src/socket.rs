//! A client's socket: TCP or local, blocking, shared by the connection that uses it and by whoever may
//! close it.
//!
//! Invariants:
//! 1. `read` waits for at most the linger time that was set; then it answers [`Read::Quiet`] and nothing is
//!    lost.
//! 2. `close` may be called from any thread, and makes a blocked read or write of another thread return.

use std::io::{self, ErrorKind, Read as _};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// A connected socket.
#[derive(Debug)]
pub enum Socket {
    /// Over TCP.
    Tcp(TcpStream),
    /// On this machine.
    Local(UnixStream),
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// This many bytes, at least one.
    Bytes(usize),
    /// The client said nothing for the linger time.
    Quiet,
    /// The client is gone.
    Closed,
}

impl Socket {
    /// Reads what is there, or waits for it.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Read> {
        loop {
            let result = match self {
                Self::Tcp(stream) => (&mut &*stream).read(buffer),
                Self::Local(stream) => (&mut &*stream).read(buffer),
            };
            return match result {
                Ok(0) => Ok(Read::Closed),
                Ok(bytes) => Ok(Read::Bytes(bytes)),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => continue,
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => Ok(Read::Quiet),
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Ok(Read::Closed),
                    _ => Err(error),
                },
            };
        }
    }

    /// Writes everything, waiting for the client where it must; `waits` is told each time that it has taken
    /// nothing for the linger time.
    pub fn write_all(&self, mut bytes: &[u8], waits: &mut dyn FnMut()) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(waits, |writer| writer.write(bytes))? {
                0 => return Err(ErrorKind::WriteZero.into()),
                taken => bytes = &bytes[taken..],
            }
        }
        Ok(())
    }

    /// Lends the writing end for one write, again for as long as the client takes nothing.
    pub fn write(
        &self,
        waits: &mut dyn FnMut(),
        mut write: impl FnMut(&mut dyn io::Write) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            let result = match self {
                Self::Tcp(stream) => write(&mut &*stream),
                Self::Local(stream) => write(&mut &*stream),
            };
            match result {
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => waits(),
                    _ => return Err(error),
                },
                taken => return taken,
            }
        }
    }

    /// How long `read` waits before it answers `Quiet`, and a write before it tells that it waits.
    pub fn set_linger(&self, linger: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(linger))?;
                stream.set_write_timeout(Some(linger))
            }
            Self::Local(stream) => {
                stream.set_read_timeout(Some(linger))?;
                stream.set_write_timeout(Some(linger))
            }
        }
    }

    /// Ends reading, or both directions. A socket that the client has closed is not an error.
    pub fn close(&self, how: Shutdown) {
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Local(stream) => stream.shutdown(how),
        };
    }

    /// The client's address and port; `None` for a local socket.
    pub fn address(&self) -> Option<(IpAddr, u16)> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok().map(|address| (address.ip(), address.port())),
            Self::Local(_) => None,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Local(stream) => stream.as_fd(),
        }
    }
}

/// A socket that clients connect to.
#[derive(Debug)]
pub enum Listener {
    /// Over TCP.
    Tcp(TcpListener),
    /// On this machine.
    Local(UnixListener),
}

impl Listener {
    /// Makes `accept` return instead of waiting.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => listener.set_nonblocking(true),
            Self::Local(listener) => listener.set_nonblocking(true),
        }
    }

    /// The next client that waits, `None` if there is none.
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        let accepted = match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Socket::Tcp(stream)),
            Self::Local(listener) => listener.accept().map(|(stream, _)| Socket::Local(stream)),
        };
        match accepted {
            Ok(socket) => {
                if let Socket::Tcp(stream) = &socket {
                    stream.set_nodelay(true)?;
                    rustix::net::sockopt::set_socket_keepalive(stream, true)?;
                }
                Ok(Some(socket))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            // The client has given up while it waited.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Local(listener) => listener.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the client is a thread")]
    fn who_writes_is_told_that_the_client_takes_nothing_and_loses_nothing() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair of sockets");
        let socket = Socket::Local(ours);
        socket.set_linger(Duration::from_millis(5)).expect("a socket has time-outs");
        let bytes: Vec<u8> = (0..8 << 20).map(|at: u32| (at % 251) as u8).collect();
        let mut waits = 0;
        std::thread::scope(|scope| {
            let (begin, begun) = std::sync::mpsc::channel::<()>();
            let reads = scope.spawn(move || {
                begun.recv().expect("the writer waits");
                let mut read = Vec::new();
                theirs.read_to_end(&mut read).expect("it is read");
                read
            });
            let mut told = || {
                waits += 1;
                if waits == 3 {
                    begin.send(()).expect("the reader waits");
                }
            };
            socket.write_all(&bytes, &mut told).expect("it is taken in the end");
            socket.close(Shutdown::Both);
            assert!(reads.join().expect("no panic") == bytes);
        });
        assert!(waits >= 3, "{waits}");
    }
}
