//! A server that answers every statement with the same row and does nothing for it: what the protocol, the
//! system's calls and the client cost by themselves, and so the most that any server can reach with that
//! client on that machine. `crates/server/tests/clients/versus.sh` runs it beside Liger and PostgreSQL.
//!
//! `cargo run --release -p liger-server --example no_work -- 127.0.0.1:25700` runs until its standard input
//! ends. It believes whatever clients send, which is why it is not for anything else: no log-in, no limits.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "a thread for each connection, and no pod")]

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpListener, TcpStream};

/// The column of the row: its name, no table, text, of any length, in text format.
const COLUMN: &[u8] = b"\0\x01c\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0";

/// As long as the column that sysbench asks for.
const VALUE: [u8; 120] = [b'7'; 120];

fn message(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.push(kind);
    out.extend((body.len() as u32 + 4).to_be_bytes());
    out.extend(body);
}

fn row(out: &mut Vec<u8>) {
    let mut body = vec![0, 1, 0, 0, 0, VALUE.len() as u8];
    body.extend(VALUE);
    message(out, b'D', &body);
    message(out, b'C', b"SELECT 1\0");
}

/// Appends the answer to a message: enough for prepared and simple statements.
fn answer(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    match kind {
        b'P' => message(out, b'1', b""),
        b'B' => message(out, b'2', b""),
        b'C' => message(out, b'3', b""),
        b'D' => {
            if body.first() == Some(&b'S') {
                message(out, b't', b"\0\0");
            }
            message(out, b'T', COLUMN);
        }
        b'E' => row(out),
        b'Q' => {
            message(out, b'T', COLUMN);
            row(out);
            message(out, b'Z', b"I");
        }
        b'S' => message(out, b'Z', b"I"),
        _ => (),
    }
}

fn length(bytes: &[u8]) -> usize {
    u32::from_be_bytes(bytes[..4].try_into().expect("four bytes")) as usize
}

/// Reads on until `buffer` has at least so many bytes.
fn fill(stream: &mut TcpStream, buffer: &mut Vec<u8>, least: usize) -> Result<()> {
    let mut piece = [0; 8192];
    while buffer.len() < least {
        match stream.read(&mut piece)? {
            0 => return Err(Error::from(ErrorKind::UnexpectedEof)),
            read => buffer.extend(&piece[..read]),
        }
    }
    Ok(())
}

fn serve(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let (mut buffer, mut out) = (Vec::new(), Vec::new());
    loop {
        fill(&mut stream, &mut buffer, 8)?;
        let (first, code) = (length(&buffer), length(&buffer[4..]));
        fill(&mut stream, &mut buffer, first)?;
        buffer.drain(..first);
        if code == 3 << 16 {
            break;
        }
        // It would like TLS or something else that is not there.
        stream.write_all(b"N")?;
    }
    message(&mut out, b'R', &[0; 4]);
    message(&mut out, b'S', b"server_version\x0015.0\0");
    message(&mut out, b'Z', b"I");
    loop {
        stream.write_all(&out)?;
        out.clear();
        while out.is_empty() {
            fill(&mut stream, &mut buffer, 5)?;
            let mut at = 0;
            while buffer.len() >= at + 5 && buffer.len() > at + length(&buffer[at + 1..]) {
                let end = at + 1 + length(&buffer[at + 1..]);
                answer(&mut out, buffer[at], &buffer[at + 5..end]);
                at = end;
            }
            buffer.drain(..at);
            if at == 0 {
                let more = buffer.len() + 1;
                fill(&mut stream, &mut buffer, more)?;
            }
        }
    }
}

fn main() -> Result<()> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:25700".to_owned());
    let listener = TcpListener::bind(address)?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes ends its thread.
            std::thread::spawn(|| serve(stream).map_err(|error| error.kind()));
        }
    });
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}
