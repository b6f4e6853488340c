//! Keeps what was made last.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// What was made or asked for last, by name: at least `len` things, at most twice as many.
#[derive(Debug)]
pub(crate) struct RecentlyUsed<K, V> {
    len: usize,
    /// The younger and the older half; what is asked for becomes young again.
    halves: Mutex<(HashMap<K, V>, HashMap<K, V>)>,
}

impl<K: Eq + Hash + Clone, V: Clone> RecentlyUsed<K, V> {
    pub(crate) fn new(len: usize) -> Self {
        Self { len, halves: Mutex::default() }
    }

    pub(crate) fn get(&self, name: &K) -> Option<V> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = halves.0.get(name) {
            return Some(value.clone());
        }
        let value = halves.1.remove(name)?;
        drop(halves);
        self.put(name.clone(), value.clone());
        Some(value)
    }

    pub(crate) fn put(&self, name: K, value: V) {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if halves.0.len() >= self.len {
            halves.1 = std::mem::take(&mut halves.0);
        }
        halves.0.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays() {
        let recent = RecentlyUsed::new(4);
        for n in 0..100 {
            recent.put(n, n);
            assert_eq!(recent.get(&0), Some(0));
        }
        assert_eq!(recent.get(&50), None);
        assert_eq!(recent.get(&99), Some(99));
    }
}
