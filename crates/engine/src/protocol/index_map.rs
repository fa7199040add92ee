//! Where things are in the lists of a transaction, by their names: rows by key or address, changes by row.
//!
//! A transaction looks for a thing whenever it touches one, and a list that is looked through takes a large
//! transaction quadratic time. What is found does not depend on any order, and the hash is fixed, so runs
//! replay.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::ops::{Deref, DerefMut};

/// Beyond this capacity the memory of a large transaction is given back.
const LARGE: usize = 1 << 12;

/// Numbers of things, by name.
pub struct IndexMap<K>(HashMap<K, u32, BuildHasherDefault<Mixer>>);

impl<K> Default for IndexMap<K> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Hash + Eq> IndexMap<K> {
    /// The number of a thing, if it is known.
    pub fn get(&self, name: &K) -> Option<usize> {
        self.0.get(name).map(|number| *number as usize)
    }

    /// Says what number a thing has.
    pub fn put(&mut self, name: K, number: usize) {
        debug_assert!(u32::try_from(number).is_ok(), "number {number} of a thing");
        self.0.insert(name, number as u32);
    }

    /// Forgets a thing.
    pub fn remove(&mut self, name: &K) {
        self.0.remove(name);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        if self.0.capacity() > LARGE { *self = Self::default() } else { self.0.clear() }
    }
}

/// Things in the order in which they came, each found by its name.
pub struct Listed<K, T> {
    list: Vec<T>,
    places: IndexMap<K>,
}

impl<K, T> Default for Listed<K, T> {
    fn default() -> Self {
        Self { list: Vec::new(), places: IndexMap::default() }
    }
}

impl<K: Hash + Eq, T> Listed<K, T> {
    /// Adds a thing that is not there; its number.
    pub fn add(&mut self, name: K, thing: T) -> usize {
        let number = self.list.len();
        debug_assert!(self.places.get(&name).is_none(), "a thing is added that is there");
        self.places.put(name, number);
        self.list.push(thing);
        number
    }

    /// The number of a thing, if it is there.
    pub fn number(&self, name: &K) -> Option<usize> {
        let number = if self.list.is_empty() { None } else { self.places.get(name) };
        debug_assert!(number.is_none_or(|number| number < self.list.len()), "thing {number:?} is forgotten");
        number
    }

    /// How many there is room for.
    pub fn capacity(&self) -> usize {
        self.list.capacity()
    }

    /// Takes out the thing that was added last, whose name is `name_of` it.
    pub fn pop(&mut self, name_of: impl FnOnce(&T) -> K) -> Option<T> {
        let last = self.list.pop()?;
        let name = name_of(&last);
        debug_assert_eq!(self.places.get(&name), Some(self.list.len()), "the last thing by another's name");
        self.places.remove(&name);
        Some(last)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.list.clear();
        self.places.clear();
    }
}

impl<K, T> Deref for Listed<K, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.list
    }
}

impl<K, T> DerefMut for Listed<K, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.list
    }
}

/// Mixes numbers: the halves of a product of 128 bits laid over one another.
#[derive(Default)]
pub struct Mixer(u64);

impl Mixer {
    fn mix(&mut self, number: u64) {
        let wide =
            u128::from(self.0 ^ number ^ 0x9e37_79b9_7f4a_7c15) * u128::from(0xa076_1d64_78bd_642f_u64);
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.mix(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_found_until_they_are_forgotten() {
        let mut places = IndexMap::default();
        for n in 0..20_000u64 {
            assert_eq!(places.get(&(n % 3, n)), None);
            places.put((n % 3, n), n as usize);
        }
        assert!((0..20_000u64).all(|n| places.get(&(n % 3, n)) == Some(n as usize)));
        places.remove(&(1, 4));
        assert_eq!((places.get(&(1, 4)), places.get(&(2, 5))), (None, Some(5)));
        places.clear();
        assert!((0..20_000u64).all(|n| places.get(&(n % 3, n)).is_none()) && places.0.capacity() <= LARGE);
    }
}
