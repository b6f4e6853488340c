//! A cache of recently used values, limited in size.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A cache of values whose keys identify them for good, so that no entry ever becomes stale.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    /// The weight (bytes, or any unit that the caller chooses) kept at least; up to twice as much is kept.
    weight_min: usize,
    /// The younger and the older half; a value that is looked up becomes young again.
    young: HashMap<K, (V, usize)>,
    old: HashMap<K, (V, usize)>,
    young_weight: usize,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    pub(crate) fn new(weight_min: usize) -> Self {
        Self { weight_min, young: HashMap::new(), old: HashMap::new(), young_weight: 0 }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (value, weight) = self.old.remove(key)?;
        self.put(key.clone(), value.clone(), weight);
        Some(value)
    }

    pub(crate) fn put(&mut self, key: K, value: V, weight: usize) {
        if self.young_weight >= self.weight_min {
            self.old = std::mem::take(&mut self.young);
            self.young_weight = 0;
        }
        self.young_weight += weight;
        if let Some((_, replaced)) = self.young.insert(key, (value, weight)) {
            self.young_weight -= replaced;
        }
    }
}

/// A [`Cache`] shared by several threads.
#[derive(Debug)]
pub(crate) struct SharedCache<K, V>(Mutex<Cache<K, V>>);

impl<K: Eq + Hash + Clone, V: Clone> SharedCache<K, V> {
    pub(crate) fn new(weight_min: usize) -> Self {
        Self(Mutex::new(Cache::new(weight_min)))
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.cache().get(key)
    }

    pub(crate) fn put(&self, key: K, value: V, weight: usize) {
        self.cache().put(key, value, weight);
    }

    fn cache(&self) -> MutexGuard<'_, Cache<K, V>> {
        // A panic while the lock is held costs at most cached values.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_or_asked_for_last_is_here_and_memory_is_bounded() {
        let mut cache = Cache::new(1600);
        for n in 0..200 {
            cache.put(n, n, 100);
            assert!(cache.get(&0).is_some(), "what is asked for stays");
        }
        assert!(cache.get(&199).is_some() && cache.get(&100).is_none());
        assert!(cache.young.len() + cache.old.len() <= 2 * 17);
    }

    #[test]
    fn what_is_put_again_takes_no_more_room() {
        let mut cache = Cache::new(1600);
        cache.put(0, 0, 100);
        for _ in 0..100 {
            cache.put(1, 1, 100);
        }
        assert!(cache.get(&0).is_some());
    }
}
