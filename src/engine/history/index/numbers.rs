//! The numbers of a key's events.

use std::sync::Arc;

use imbl::Vector;

/// The number of event numbers that are stored inline.
const FEW_LEN: usize = 3;

/// The numbers of a key's events, oldest first. Most keys of a large folder have few, so those are stored inline, at
/// 16 bytes per key; more are kept in a persistent vector.
#[derive(Debug, Clone)]
pub(crate) enum Numbers {
    /// The first `len` of these.
    Few { len: u8, numbers: [u32; FEW_LEN] },
    /// All of these.
    Many(Arc<Vector<u32>>),
}

impl Default for Numbers {
    fn default() -> Self {
        Self::Few { len: 0, numbers: [0; FEW_LEN] }
    }
}

impl Numbers {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few { len, .. } => usize::from(*len),
            Self::Many(numbers) => numbers.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number at an index, which must be in bounds.
    pub(crate) fn at(&self, place: usize) -> u32 {
        match self {
            Self::Few { len, numbers } => numbers[..usize::from(*len)][place],
            Self::Many(numbers) => numbers[place],
        }
    }

    pub(crate) fn last(&self) -> Option<u32> {
        self.len().checked_sub(1).map(|last| self.at(last))
    }

    /// Returns the numbers from an index on, oldest first.
    pub(crate) fn from(&self, place: usize) -> impl Iterator<Item = u32> + '_ {
        (place..self.len()).map(|place| self.at(place))
    }

    pub(crate) fn push(&mut self, number: u32) {
        match self {
            Self::Few { len, numbers } => match numbers.get_mut(usize::from(*len)) {
                Some(free) => (*free, *len) = (number, *len + 1),
                None => *self = Self::Many(Arc::new(self.from(0).chain([number]).collect())),
            },
            Self::Many(numbers) => Arc::make_mut(numbers).push_back(number),
        }
    }

    pub(crate) fn pop(&mut self) {
        match self {
            Self::Few { len, .. } => *len = len.saturating_sub(1),
            Self::Many(numbers) => drop(Arc::make_mut(numbers).pop_back()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_there_in_order_until_it_is_forgotten() {
        let mut numbers = Numbers::default();
        for len in 0..10 {
            let all: Vec<u32> = (0..len).map(|n| n * 7).collect();
            assert_eq!(numbers.from(0).collect::<Vec<_>>(), all);
            assert_eq!((numbers.len(), numbers.last()), (all.len(), all.last().copied()));
            numbers.push(len * 7);
        }
        let before = numbers.clone();
        for len in (0..10).rev() {
            numbers.pop();
            assert_eq!((numbers.len(), numbers.is_empty()), (len, len == 0));
        }
        assert_eq!(before.from(8).collect::<Vec<_>>(), [56, 63], "a reader keeps what it has");
    }

    #[test]
    fn few_numbers_cost_what_is_said() {
        assert_eq!(size_of::<Numbers>(), 16);
    }
}
