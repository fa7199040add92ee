//! The encoding of a client, shared by its session and the server.

use std::sync::atomic::{AtomicU8, Ordering};

use super::{Encoding, numbered, utf8};

/// The encoding of a client's texts (`client_encoding`): the session sets it, at any moment of a statement;
/// the server looks at it where texts come or go.
#[derive(Debug)]
pub struct ClientEncoding(AtomicU8);

impl Default for ClientEncoding {
    fn default() -> Self {
        Self(AtomicU8::new(utf8().number))
    }
}

impl ClientEncoding {
    /// From now on it is this one.
    pub fn set(&self, encoding: &'static Encoding) {
        self.0.store(encoding.number, Ordering::Relaxed);
    }

    /// The one that counts now.
    pub fn get(&self) -> &'static Encoding {
        numbered(i32::from(self.0.load(Ordering::Relaxed))).unwrap_or_else(utf8)
    }
}
