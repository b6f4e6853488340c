//! All collections at one moment.

use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use crate::domain::{Collection, Key};

/// An item of a catalog: cheap to clone, with a collection inside.
pub trait HasCollection: Clone {
    /// The collection.
    fn collection(&self) -> &Arc<Collection>;
}

impl HasCollection for Arc<Collection> {
    fn collection(&self) -> &Arc<Collection> {
        self
    }
}

/// All collections at one moment, in the order of their keys.
///
/// The catalog is a persistent tree: a clone shares its nodes and costs the same for ten
/// collections as for a million. So a snapshot can keep one clone while the writer tries a batch
/// on another. In the engine, `T` is an entry with its ready-made response.
#[derive(Debug, Clone)]
pub struct Catalog<T = Arc<Collection>> {
    by_key: OrdMap<Key, T>,
    /// Keys with upper-case letters, by their folded form. Other keys are their own folded form.
    mixed_case: OrdMap<Key, Key>,
}

impl<T> Default for Catalog<T> {
    fn default() -> Self {
        Self { by_key: OrdMap::new(), mixed_case: OrdMap::new() }
    }
}

impl<T: HasCollection> Catalog<T> {
    /// The collection with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&T> {
        self.by_key.get(key)
    }

    /// The existing key that differs from this one in letter case only.
    #[must_use]
    pub fn case_variant(&self, key: &Key) -> Option<&Key> {
        let folded = key.folded();
        let lower = self.by_key.get_key_value(&folded).map(|(existing, _)| existing);
        [lower, self.mixed_case.get(&folded)].into_iter().flatten().find(|existing| *existing != key)
    }

    /// Inserts a collection and returns the one that had the same key, if any.
    pub fn insert(&mut self, item: T) -> Option<T> {
        let key = item.collection().key().clone();
        let folded = key.folded();
        if folded != key {
            self.mixed_case.insert(folded, key.clone());
        }
        self.by_key.insert(key, item)
    }

    /// Removes a collection and returns it.
    pub fn remove(&mut self, key: &str) -> Option<T> {
        let (key, item) = self.by_key.remove_with_key(key)?;
        let folded = key.folded();
        if self.mixed_case.get(&folded) == Some(&key) {
            self.mixed_case.remove(&folded);
        }
        Some(item)
    }

    /// Every collection in the order of the keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.by_key.values()
    }

    /// The collections whose keys come after this one, in order.
    pub fn after(&self, key: &Key) -> impl DoubleEndedIterator<Item = &T> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.by_key.range((Excluded(key.clone()), Unbounded)).map(|(_, item)| item)
    }

    /// The collections whose keys come before this one, in order.
    pub fn before(&self, key: &Key) -> impl DoubleEndedIterator<Item = &T> {
        self.by_key.range(..key.clone()).map(|(_, item)| item)
    }

    /// Returns what differs in `other`, in the order of the keys: pairs of the item here and the item
    /// there. Shared nodes are skipped, so the cost depends on the number of differences.
    pub fn differences<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (Option<&'a T>, Option<&'a T>)>
    where
        T: PartialEq,
    {
        self.by_key.diff(&other.by_key).map(|item| match item {
            DiffItem::Add(_, now) => (None, Some(now)),
            DiffItem::Update { old: (_, was), new: (_, now) } => (Some(was), Some(now)),
            DiffItem::Remove(_, was) => (Some(was), None),
        })
    }

    /// The number of collections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether the catalog has no collections.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

impl<T: HasCollection> FromIterator<T> for Catalog<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut catalog = Self::default();
        for item in items {
            catalog.insert(item);
        }
        catalog
    }
}
