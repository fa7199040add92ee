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
/// A list of so many things is looked through.
const FEW: usize = 8;

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

/// What a thing is found by.
pub trait Named {
    /// Its name.
    type Name: Copy + Hash + Eq;

    /// Its name, which stays what it is.
    fn name(&self) -> Self::Name;
}

/// Things in the order in which they came, each found by its name.
///
/// Whoever goes through many things, one after the other, finds the last one or the one behind it, others
/// being added meanwhile; a list is indexed when somebody looks for another one, up to there. A list of a few
/// things is looked through.
pub struct Listed<T: Named> {
    list: Vec<T>,
    places: IndexMap<T::Name>,
    /// So many things are in `places`.
    indexed: usize,
    /// The last one that was found.
    found: usize,
}

impl<T: Named> Default for Listed<T> {
    fn default() -> Self {
        Self { list: Vec::new(), places: IndexMap::default(), indexed: 0, found: 0 }
    }
}

impl<T: Named> Listed<T> {
    /// Adds a thing that is not there; its number.
    pub fn add(&mut self, thing: T) -> usize {
        debug_assert!(self.number(&thing.name()).is_none(), "a thing is added that is there");
        self.list.push(thing);
        self.list.len() - 1
    }

    /// The number of a thing, if it is there.
    pub fn number(&mut self, name: &T::Name) -> Option<usize> {
        let is_it = |at: &usize| self.list.get(*at).is_some_and(|thing| thing.name() == *name);
        let near = [self.found, self.found + 1, self.list.len().wrapping_sub(1)];
        let found = match near.into_iter().find(is_it) {
            None if self.list.len() <= FEW => (0..self.list.len()).find(is_it),
            None => self.indexed_number(name),
            near => near,
        };
        debug_assert!(found.is_none_or(|number| number < self.list.len()), "thing {found:?} is forgotten");
        self.found = found.unwrap_or(self.found);
        found
    }

    fn indexed_number(&mut self, name: &T::Name) -> Option<usize> {
        for (behind, thing) in self.list[self.indexed..].iter().enumerate() {
            self.places.put(thing.name(), self.indexed + behind);
        }
        self.indexed = self.list.len();
        self.places.get(name)
    }

    /// Bytes that they and their index take, about.
    pub fn bytes(&self) -> usize {
        self.list.len() * size_of::<T>() + 2 * self.indexed * size_of::<(T::Name, u32)>()
    }

    /// How many there is room for.
    pub fn capacity(&self) -> usize {
        self.list.capacity()
    }

    /// Takes out the thing that was added last.
    pub fn pop(&mut self) -> Option<T> {
        let last = self.list.pop()?;
        if self.indexed > self.list.len() {
            debug_assert_eq!(self.places.get(&last.name()), Some(self.list.len()), "the last, by its name");
            self.places.remove(&last.name());
            self.indexed = self.list.len();
        }
        Some(last)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.list.clear();
        self.places.clear();
        (self.indexed, self.found) = (0, 0);
    }
}

impl<T: Named> Deref for Listed<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.list
    }
}

impl<T: Named> DerefMut for Listed<T> {
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

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Thing(u64);

    impl Named for Thing {
        type Name = u64;

        fn name(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn a_list_is_indexed_when_somebody_looks_for_what_is_not_near() {
        let mut list = Listed::default();
        for n in 0..1000u64 {
            assert_eq!(list.add(Thing(7 * n)) as u64, n);
        }
        if cfg!(not(debug_assertions)) {
            assert_eq!(list.indexed, 0, "nobody has looked for any");
        }
        assert!((0..1000).all(|n| list.number(&(7 * n)) == Some(n as usize)), "one after the other");
        assert_eq!((list.number(&3), list.indexed), (None, 1000));
        assert!((0..1000).rev().all(|n| list.number(&(7 * n)) == Some(n as usize)));
        assert_eq!((list.pop(), list.pop()), (Some(Thing(6993)), Some(Thing(6986))));
        assert_eq!((list.number(&6993), list.number(&6986), list.number(&6979)), (None, None, Some(997)));
        assert_eq!((list.add(Thing(1)), list.number(&0), list.number(&1)), (998, Some(0), Some(998)));
        list.clear();
        assert_eq!((list.number(&0), list.add(Thing(0)), list.number(&0)), (None, 0, Some(0)));
    }
}
