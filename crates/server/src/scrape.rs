//! Figures for programs that collect them: `GET /metrics` over plain HTTP, in Prometheus' text format.
//!
//! Invariants:
//! 1. One request at a time, each with a time limit: whoever asks slowly makes the next one wait, and no
//!    session.
//! 2. Nothing is read from a request but its first line, of at most [`LINE_BYTES_MAX`] bytes.
//!
//! There is no encryption and nothing is asked of clients: the figures name no user and no statement.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::server::StartError;

const LINE_BYTES_MAX: u64 = 4096;
/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Makes the text of all figures.
pub type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// A server of figures; it ends when it is dropped.
pub struct Scrape {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Scrape {
    /// Listens, and answers whoever asks.
    pub fn start(address: SocketAddr, render: Render) -> Result<Self, StartError> {
        let error = |error| StartError::Listen { address: address.to_string(), error };
        let listener = TcpListener::bind(address).map_err(error)?;
        let address = listener.local_addr().map_err(error)?;
        let ends = Arc::new(AtomicBool::new(false));
        let told = ends.clone();
        let thread = std::thread::Builder::new().name("liger-metrics".to_string());
        let thread = thread.spawn(move || {
            for stream in listener.incoming() {
                if told.load(Ordering::SeqCst) {
                    return;
                }
                // Whoever is gone is not answered.
                let _ = stream.and_then(|stream| answer(&stream, &render));
            }
        })?;
        Ok(Self { address, ends, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Scrape {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        let mut own = self.address;
        if own.ip().is_unspecified() {
            own.set_ip(if own.is_ipv4() {
                [127, 0, 0, 1].into()
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            });
        }
        // It waits for somebody to ask.
        let _ = TcpStream::connect_timeout(&own, PATIENCE);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(stream: &TcpStream, render: &Render) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.take(LINE_BYTES_MAX));
    let mut first = String::new();
    reader.read_line(&mut first)?;
    // The rest of the request, so that closing does not look like a failure to the client.
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let mut words = first.split_ascii_whitespace();
    let (status, body) = match (words.next(), words.next().map(|path| path.split('?').next().unwrap_or(path)))
    {
        (Some("GET" | "HEAD"), Some("/metrics")) => ("200 OK", render()),
        (Some("GET" | "HEAD"), Some(_)) => ("404 Not Found", "the figures are at /metrics\n".to_string()),
        _ => ("405 Method Not Allowed", "ask with GET\n".to_string()),
    };
    let shown = if first.starts_with("HEAD") { "" } else { body.as_str() };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    (&mut &*stream).write_all(head.as_bytes())?;
    (&mut &*stream).write_all(shown.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(of: &Scrape, request: &str) -> String {
        let mut stream = TcpStream::connect(of.address()).expect("it listens");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    #[test]
    fn figures_are_where_they_are_looked_for() {
        let scrape = Scrape::start(([127, 0, 0, 1], 0).into(), Arc::new(|| "a 1\n".to_string()));
        let scrape = scrape.expect("a free port");
        let good = ask(&scrape, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(good.starts_with("HTTP/1.1 200 OK\r\n") && good.ends_with("\r\n\r\na 1\n"), "{good}");
        assert!(ask(&scrape, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(&scrape, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        let head = ask(&scrape, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }
}
