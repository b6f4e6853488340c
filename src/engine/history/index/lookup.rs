//! Finds rows by a name that they contain, at four bytes per row.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::sync::Arc;

use imbl::OrdMap;

use crate::engine::history::index::number;

/// The minimum number of new rows that are kept with their names before they are sorted in.
const RECENT_LEN_MIN: usize = 4096;

/// Row numbers sorted by name, and the newest rows with their names.
#[derive(Debug, Clone)]
pub(crate) struct Lookup<N: Ord> {
    sorted: Arc<Vec<u32>>,
    recent: OrdMap<N, u32>,
}

impl<N: Ord> Default for Lookup<N> {
    fn default() -> Self {
        Self { sorted: Arc::default(), recent: OrdMap::new() }
    }
}

impl<N: Ord + Clone> Lookup<N> {
    /// Builds the lookup of rows with these names, numbered from 0; much faster than adding them one by one.
    pub(crate) fn of<Q: Ord>(names: &[Q]) -> Self {
        let mut sorted: Vec<u32> = (0..number(names.len())).collect();
        sorted.sort_unstable_by(|one, two| names[*one as usize].cmp(&names[*two as usize]));
        Self { sorted: Arc::new(sorted), recent: OrdMap::new() }
    }

    /// Adds a row; `order` compares the names of two added rows.
    pub(crate) fn push(&mut self, name: N, row: u32, order: impl Fn(u32, u32) -> Ordering) {
        self.recent.insert(name, row);
        // The batch grows with the number of rows, so that sorting stays cheap per row.
        if self.recent.len() > RECENT_LEN_MIN.max(self.sorted.len() / 8) {
            let sorted = Arc::make_mut(&mut self.sorted);
            sorted.extend(std::mem::take(&mut self.recent).values());
            // The stable sort merges the two runs, which are already sorted.
            sorted.sort_by(|one, two| order(*one, *two));
        }
    }

    /// Finds the row with this name; `order` compares a row's name with it.
    pub(crate) fn find<Q>(&self, name: &Q, order: impl Fn(u32) -> Ordering) -> Option<u32>
    where
        N: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let sorted = self.sorted.binary_search_by(|row| order(*row)).ok();
        sorted.map(|at| self.sorted[at]).or_else(|| self.recent.get(name).copied())
    }

    /// Removes every row but the first `len`.
    pub(crate) fn truncate(&mut self, len: u32) {
        Arc::make_mut(&mut self.sorted).retain(|row| *row < len);
        let kept = self.recent.iter().filter(|(_, row)| **row < len);
        self.recent = kept.map(|(name, row)| (name.clone(), *row)).collect();
    }
}
