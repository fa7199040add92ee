//! Bytes that no client should send.

use std::time::{Duration, Instant};

use liger_server::wire::frontend::{FirstPacket, Frontend};

use crate::client::{Client, connect, field, kinds, message, query, startup, sync};
use crate::start;

/// An error of a message leaves the connection usable.
#[test]
fn a_malformed_body_is_an_error_of_the_message() {
    let (_server, address) = start(|_| {});
    for (bytes, code) in [
        (message(b'Q', b"select 1"), "08P01"),
        (message(b'Q', b"select 1\0\0"), "08P01"),
        (message(b'Q', b"\xff\0"), "22021"),
        (message(b'P', b"s\0select 1\0"), "08P01"),
        (message(b'P', b"s\0select 1\0\0\x02\0\0\0\x17"), "08P01"),
        (message(b'B', b"\0s\0\0\x01\0\x02\0\0\0\0"), "22023"),
        (message(b'B', b"\0s\0\0\0\0\x01\0\0\0\x09short\0\0"), "08P01"),
        (message(b'B', b"\0s\0\0\0\0\x01\xff\xff\xff\xfe\0\0"), "08P01"),
        (message(b'B', b"\0s\0\0\x02\0\0\0\0\0\x01\xff\xff\xff\xff\0\0"), "08P01"),
        (message(b'B', b"\0s\0\0\0\xff\xff\0\0"), "08P01"),
        (message(b'D', b"Xs\0"), "08P01"),
        (message(b'D', b""), "08P01"),
        (message(b'E', b"\0\0\0"), "08P01"),
        (message(b'C', b"S"), "08P01"),
        (message(b'S', b"x"), "08P01"),
    ] {
        let mut client = Client::new(address);
        let series = bytes[0] != b'Q';
        let messages = client.ask(&[&bytes[..], &if series { sync() } else { Vec::new() }].concat());
        assert_eq!(kinds(&messages), "EZ", "{bytes:?}");
        assert_eq!(field(&messages[0], 'C').as_deref(), Some(code), "{bytes:?}");
        assert_eq!(client.run("select 1"), "TDCZI", "{bytes:?}");
    }
}

/// An error of the framing ends the connection: nobody knows where the next message begins.
#[test]
fn a_malformed_head_ends_the_connection() {
    let (_server, address) = start(|config| config.message_bytes_max = 1 << 20);
    for bytes in [
        &b"Q\0\0\0\x03"[..],
        b"Q\xff\xff\xff\xff",
        b"Q\x00\x10\x00\x05",
        b"S\0\0\x40\0",
        b"?\0\0\0\x04",
        b"\0\0\0\0\0",
        b"p\0\0\0\x04",
    ] {
        let mut client = Client::new(address);
        let messages = client.ask(bytes);
        assert_eq!(kinds(&messages), "E", "{bytes:?}");
        assert_eq!(field(&messages[0], 'C').as_deref(), Some("08P01"), "{bytes:?}");
        assert_eq!(field(&messages[0], 'S').as_deref(), Some("FATAL"), "{bytes:?}");
    }
    let mut client = Client::new(address);
    let large = format!("rows 1{}", " ".repeat((1 << 20) - 7));
    assert_eq!(client.run(&large), "TDCZI", "exactly the largest message");
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let count = self.next() % most;
        // Small numbers and letters come up more often than chance: they are what fields are made of.
        let byte = |random: &mut Self| match random.next() % 4 {
            0 => 0,
            1 => random.next() as u8 % 5,
            2 => b"SPQBDEC13$;"[random.next() as usize % 11],
            _ => random.next() as u8,
        };
        (0..count).map(|_| byte(self)).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "for a bounded time")]
fn until(time: Duration, mut what: impl FnMut(u64)) {
    let end = Instant::now() + time;
    let mut seed = 0;
    while Instant::now() < end {
        what(seed);
        seed += 1;
    }
}

#[test]
fn random_bodies_are_read_or_refused() {
    until(Duration::from_secs(2), |seed| {
        let mut random = Random(seed);
        for kind in 0..=255 {
            let body = random.bytes(60);
            if let Ok(Frontend::Bind { parameters, result_formats, .. }) = Frontend::read(kind, &body) {
                assert_eq!(parameters.iter().count(), parameters.count, "seed {seed}");
                let _ = result_formats.of(7);
            }
            let _ = FirstPacket::read(&body);
        }
    });
}

#[test]
fn random_bytes_harm_nobody_else() {
    let (server, address) = start(|config| config.linger = Duration::from_millis(1));
    let mut other = Client::new(address);
    until(Duration::from_secs(3), |seed| {
        let mut random = Random(seed);
        let mut client = Client::over(connect(address));
        if !random.next().is_multiple_of(4) {
            client.send(&startup(0, &[("user", "trusty"), ("database", "open")]));
        }
        for _ in 0..random.next() % 8 {
            let body = random.bytes(40);
            match random.next() % 4 {
                0 => client.send(&body),
                1 => client.send(&query("select 1")),
                _ => client.send(&message(b"QPBDECSHXdcfpF"[random.next() as usize % 14], &body)),
            }
        }
        drop(client);
        if seed % 16 == 0 {
            assert_eq!(other.run("select 1"), "TDCZI", "seed {seed}");
        }
    });
    drop(other);
    crate::endings::wait_for(|| server.view().activity().is_empty());
    assert_eq!(server.metrics().panics.load(std::sync::atomic::Ordering::Relaxed), 0);
}
