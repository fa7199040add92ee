//! Keys: byte strings whose order is the order of the values they were built from.
//!
//! ```text
//! (w: smallint, d: smallint, o: int, name: text(3))         one column after the other, no gaps
//!   | w ^ 8000 | d ^ 8000 | o ^ 80000000 | 'A' 'B' 0 |      big-endian, sign bit flipped, text zero-padded
//!   |<------------- word 0 ------------->|<- word 1, rest zero ->|
//! ```
//!
//! Invariants:
//! 1. The bytes are packed into `u64` words, first byte in the top bits, so that comparing words as unsigned
//!    numbers compares the bytes. Words behind the last one are zero.
//! 2. All keys of one index have one width: the sum of its columns' widths, rounded up to whole words.
//! 3. Encodings: `bool` 1 byte; integers 2, 4 or 8 bytes, big-endian with the sign bit flipped; text its
//!    bytes padded with zeros to the column's width (text holds no zero byte; the order is the bytes',
//!    PostgreSQL's "C" collation); bytes like text and then their length in 2 bytes. A nullable column has
//!    one byte more in front: 0 for a value, 1 for NULL (NULLs last, as in PostgreSQL). Descending: every bit
//!    inverted (and so NULLs first, as in PostgreSQL).
//!
//! Nothing is ever decoded from a key except partition columns ([`crate::Partitioning`]): rows hold the
//! values.

use std::fmt;
use std::hash::{Hash, Hasher};

/// Most words in a key: 64 bytes.
pub const MAX_KEY_WORDS: usize = 8;

// Its width is told in a byte, and its bytes in as many words as hold them.
const _: () = assert!(MAX_KEY_WORDS <= u8::MAX as usize);

/// A key: up to 64 bytes that sort like the values they encode.
///
/// Keys of one index are equally wide; comparing keys of different widths has an order, but no meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    words: [u64; MAX_KEY_WORDS],
    len: u8,
}

impl Key {
    /// Starts building a key.
    #[inline]
    pub const fn build() -> KeyBuilder {
        KeyBuilder { words: [0; MAX_KEY_WORDS], bytes: 0 }
    }

    /// The key with these words.
    ///
    /// # Panics
    /// If there are more than [`MAX_KEY_WORDS`].
    #[inline]
    pub fn from_words(words: &[u64]) -> Key {
        let mut key = Key { words: [0; MAX_KEY_WORDS], len: words.len() as u8 };
        key.words[..words.len()].copy_from_slice(words);
        key
    }

    /// The smallest key of `len` words.
    #[inline]
    pub const fn zero(len: usize) -> Key {
        assert!(len <= MAX_KEY_WORDS, "a key has at most MAX_KEY_WORDS words");
        Key { words: [0; MAX_KEY_WORDS], len: len as u8 }
    }

    /// The greatest key of `len` words, which no row has.
    pub fn greatest(len: usize) -> Key {
        Key::from_words(&[u64::MAX; MAX_KEY_WORDS][..len])
    }

    /// The words, most significant first.
    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.words[..self.len as usize]
    }

    /// The words as an array of the index's width.
    ///
    /// # Panics
    /// If the key is wider than `W` words.
    #[inline]
    pub fn array<const W: usize>(&self) -> [u64; W] {
        debug_assert!(self.len as usize <= W);
        let mut words = [0; W];
        words.copy_from_slice(&self.words[..W]);
        words
    }

    /// Width in words.
    #[inline]
    pub const fn width(&self) -> usize {
        self.len as usize
    }

    /// The next key of the same width, or `None` behind the last one.
    #[inline]
    pub fn next(&self) -> Option<Key> {
        let mut key = *self;
        for word in key.words[..self.len as usize].iter_mut().rev() {
            *word = word.wrapping_add(1);
            if *word != 0 {
                debug_assert!(key > *self, "{key:?} comes behind {self:?}");
                return Some(key);
            }
        }
        None
    }

    /// The key before it of the same width, or `None` before the first one.
    #[inline]
    pub fn before(&self) -> Option<Key> {
        let mut key = *self;
        for word in key.words[..self.len as usize].iter_mut().rev() {
            let borrows = *word == 0;
            *word = word.wrapping_sub(1);
            if !borrows {
                debug_assert!(key < *self, "{key:?} comes before {self:?}");
                return Some(key);
            }
        }
        None
    }

    /// `bytes` (1 to 8) bytes from byte offset `at`, as the low bits of a number.
    #[inline]
    pub const fn extract(&self, at: usize, bytes: usize) -> u64 {
        debug_assert!(bytes >= 1 && bytes <= 8 && at + bytes <= 8 * MAX_KEY_WORDS);
        let (word, first) = (at / 8, at % 8);
        let mut wide = (self.words[word] as u128) << 64;
        if first + bytes > 8 {
            wide |= self.words[word + 1] as u128;
        }
        (wide << (8 * first) >> (128 - 8 * bytes)) as u64
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for word in self.words() {
            state.write_u64(*word);
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(")?;
        for (i, word) in self.words().iter().enumerate() {
            write!(f, "{}{word:016x}", if i == 0 { "" } else { " " })?;
        }
        f.write_str(")")
    }
}

/// A key under construction: call the encoders in column order, then [`KeyBuilder::finish`].
///
/// All widths are known where it is used, so that it compiles to a few shifts.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct KeyBuilder {
    words: [u64; MAX_KEY_WORDS],
    bytes: usize,
}

impl KeyBuilder {
    /// Appends the low `width` (1 to 8) bytes of `value`, whose other bits are zero.
    ///
    /// # Panics
    /// If the key grows beyond 64 bytes.
    #[inline(always)]
    pub const fn raw(mut self, value: u64, width: usize) -> KeyBuilder {
        debug_assert!(width >= 1 && width <= 8 && (width == 8 || value >> (8 * width) == 0));
        let (word, first) = (self.bytes / 8, self.bytes % 8);
        if first + width <= 8 {
            self.words[word] |= value << (8 * (8 - first - width));
        } else {
            let behind = 8 * (first + width - 8);
            self.words[word] |= value >> behind;
            self.words[word + 1] |= value << (64 - behind);
        }
        self.bytes += width;
        self
    }

    /// Appends a boolean: false sorts first.
    #[inline(always)]
    pub const fn bool(self, value: bool) -> KeyBuilder {
        self.raw(value as u64, 1)
    }

    /// Appends a smallint.
    #[inline(always)]
    pub const fn i16(self, value: i16) -> KeyBuilder {
        self.raw((value as u16 ^ 0x8000) as u64, 2)
    }

    /// Appends an int.
    #[inline(always)]
    pub const fn i32(self, value: i32) -> KeyBuilder {
        self.raw((value as u32 ^ 0x8000_0000) as u64, 4)
    }

    /// Appends a bigint, a decimal's scaled value or a timestamp's microseconds.
    #[inline(always)]
    pub const fn i64(self, value: i64) -> KeyBuilder {
        self.raw(value as u64 ^ 0x8000_0000_0000_0000, 8)
    }

    /// Appends a text padded to `width` bytes.
    ///
    /// # Panics
    /// If the text is longer than `width`: whoever takes texts from outside checks them against the column
    /// first.
    #[inline]
    pub fn text(self, value: &str, width: usize) -> KeyBuilder {
        debug_assert!(!value.as_bytes().contains(&0), "text holds no zero byte");
        self.padded(value.as_bytes(), width)
    }

    /// Appends bytes padded to `max` bytes, and their length in 2 bytes.
    ///
    /// # Panics
    /// If there are more than `max`.
    #[inline]
    pub fn bytes(self, value: &[u8], max: usize) -> KeyBuilder {
        self.padded(value, max).raw(value.len() as u64, 2)
    }

    #[inline]
    fn padded(mut self, value: &[u8], width: usize) -> KeyBuilder {
        assert!(value.len() <= width, "{} bytes for a key column of {width}", value.len());
        let end = self.bytes + width;
        let mut chunks = value.chunks_exact(8);
        for chunk in &mut chunks {
            self = self.raw(u64::from_be_bytes(chunk.try_into().expect("chunks of 8")), 8);
        }
        for &byte in chunks.remainder() {
            self = self.raw(byte as u64, 1);
        }
        self.skip(end)
    }

    /// Appends a nullable value of `width` bytes: `encode` appends it if there is one.
    #[inline(always)]
    pub fn nullable<T>(
        self,
        value: Option<T>,
        width: usize,
        encode: impl FnOnce(KeyBuilder, T) -> KeyBuilder,
    ) -> KeyBuilder {
        let end = self.bytes + 1 + width;
        let done = match value {
            Some(value) => encode(self.raw(0, 1), value),
            None => self.raw(1, 1).skip(end),
        };
        debug_assert_eq!(done.bytes, end, "the value's width is not the one that was said");
        done
    }

    /// Appends what `encode` appends, inverted: larger values sort first.
    #[inline(always)]
    pub fn descending(self, encode: impl FnOnce(KeyBuilder) -> KeyBuilder) -> KeyBuilder {
        let mut done = encode(self);
        debug_assert!(done.bytes >= self.bytes, "what is encoded comes behind what was");
        let mut at = self.bytes;
        while at < done.bytes {
            let upto = ((at / 8 + 1) * 8).min(done.bytes);
            let width = upto - at;
            done.words[at / 8] ^= (u64::MAX >> (64 - 8 * width)) << (8 * (8 - at % 8 - width));
            at = upto;
        }
        done
    }

    /// Leaves zeros up to byte `end`.
    #[inline(always)]
    const fn skip(mut self, end: usize) -> KeyBuilder {
        assert!(end <= 8 * MAX_KEY_WORDS, "a key has at most 64 bytes");
        debug_assert!(end >= self.bytes, "a value is no longer than its column");
        self.bytes = end;
        self
    }

    /// Bytes appended so far.
    #[inline]
    pub const fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// The finished key, zero-padded to whole words.
    #[inline(always)]
    pub const fn finish(self) -> Key {
        debug_assert!(self.bytes <= 8 * MAX_KEY_WORDS, "a key has at most 64 bytes");
        Key { words: self.words, len: self.bytes.div_ceil(8) as u8 }
    }

    /// The smallest key of `width` words that starts with the bytes so far.
    ///
    /// # Panics
    /// If there are more bytes than that.
    #[inline(always)]
    pub const fn first(self, width: usize) -> Key {
        assert!(self.bytes <= 8 * width && width <= MAX_KEY_WORDS, "a prefix is not longer than the key");
        Key { words: self.words, len: width as u8 }
    }

    /// The smallest key of `width` words behind all that start with the bytes so far, if there is one.
    ///
    /// # Panics
    /// If there are more bytes than that.
    #[inline]
    pub fn behind(self, width: usize) -> Option<Key> {
        let mut key = self.first(width);
        if self.bytes == 0 {
            return None;
        }
        let last = (self.bytes - 1) / 8;
        let unit = 1u64 << (8 * (7 - (self.bytes - 1) % 8));
        let (sum, mut carry) = key.words[last].overflowing_add(unit);
        key.words[last] = sum;
        for word in key.words[..last].iter_mut().rev() {
            if !carry {
                break;
            }
            (*word, carry) = word.overflowing_add(1);
        }
        debug_assert!(carry || key > self.first(width), "{key:?} is behind those that start like it");
        (!carry).then_some(key)
    }
}

/// The keys from `low` up to, but not including, `high`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyRange {
    /// First key of the range.
    pub low: Key,
    /// First key behind the range; `None`: the range has no end.
    pub high: Option<Key>,
}

impl KeyRange {
    /// The keys from `low` up to, but not including, `high`.
    #[inline]
    pub const fn between(low: Key, high: Key) -> KeyRange {
        KeyRange { low, high: Some(high) }
    }

    /// The keys of `width` words that start with what was built.
    #[inline]
    pub fn prefix(prefix: KeyBuilder, width: usize) -> KeyRange {
        let range = KeyRange { low: prefix.first(width), high: prefix.behind(width) };
        debug_assert!(!range.is_empty(), "a prefix is that of a key: {range:?}");
        range
    }

    /// The keys of `width` words from the first that starts with `from` to the last that starts with `to`.
    #[inline]
    pub fn from_through(from: KeyBuilder, to: KeyBuilder, width: usize) -> KeyRange {
        KeyRange { low: from.first(width), high: to.behind(width) }
    }

    /// The keys of `width` words from the first that starts with `from` to the last that does not reach `to`.
    #[inline]
    pub const fn from_to(from: KeyBuilder, to: KeyBuilder, width: usize) -> KeyRange {
        KeyRange { low: from.first(width), high: Some(to.first(width)) }
    }

    /// Only `key`.
    #[inline]
    pub fn point(key: Key) -> KeyRange {
        let range = KeyRange { low: key, high: key.next() };
        debug_assert!(range.contains(&key), "{key:?} is in {range:?}");
        range
    }

    /// All keys of `width` words.
    #[inline]
    pub const fn all(width: usize) -> KeyRange {
        KeyRange { low: Key::zero(width), high: None }
    }

    /// Whether `key` is in the range.
    #[inline]
    pub fn contains(&self, key: &Key) -> bool {
        self.low <= *key && !self.ends_before(key)
    }

    /// Whether the range ends before `key`: a scan that has arrived at `key` is done.
    #[inline]
    pub fn ends_before(&self, key: &Key) -> bool {
        self.high.is_some_and(|high| *key >= high)
    }

    /// Whether no key is in the range.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ends_before(&self.low)
    }
}
