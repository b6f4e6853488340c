//! What was used last, up to so many bytes.

use std::collections::HashMap;
use std::hash::Hash;

/// Values that are found by what names them for good, so that none is ever out of date.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    /// So many bytes are kept at least, and at most twice as many.
    bytes_min: usize,
    /// The younger and the older half; what is asked for becomes young again.
    young: HashMap<K, (V, usize)>,
    old: HashMap<K, (V, usize)>,
    young_bytes: usize,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    pub(crate) fn new(bytes_min: usize) -> Self {
        Self { bytes_min, young: HashMap::new(), old: HashMap::new(), young_bytes: 0 }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        if let Some((value, bytes)) = self.old.remove(key) {
            self.put(key.clone(), value, bytes);
        }
        self.young.get(key).map(|(value, _)| value.clone())
    }

    pub(crate) fn put(&mut self, key: K, value: V, bytes: usize) {
        if self.young_bytes >= self.bytes_min {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        if let Some((_, replaced)) = self.young.insert(key, (value, bytes)) {
            self.young_bytes -= replaced;
        }
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
