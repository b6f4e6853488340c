//! The names of a folder's tree after each step of a group.
//!
//! Hashing the tree is what a commit into a large folder costs. Each step's tree is known before
//! any is hashed, since a tree depends on the contents of files and not on commits; so when there
//! is much to hash, the steps are shared out among the cores. Each core begins with a copy of the
//! tree as it was before its part, and repeats the steps on it.

use std::thread;

use crate::store::git::object::hash_midstates::HashMidstates;
use crate::store::git::object::id::Oid;
use crate::store::git::object::tree::{Splice, redo, same_len_of};

/// From so many bytes to hash on, several threads are worth their start.
const SHARED_BYTES_MIN: usize = 4 << 20;

/// At most so many threads hash.
const THREADS_MAX: usize = 4;

/// Names in the making.
pub(crate) struct TreeIds {
    midstates: HashMidstates,
    // How many steps each thread takes; zero when there is but one.
    part_len: usize,
    parts: Vec<Part>,
    names: Vec<Oid>,
}

/// Steps for one thread.
struct Part {
    tree: Vec<u8>,
    midstates: HashMidstates,
    steps: Vec<Vec<Splice>>,
}

impl TreeIds {
    /// Prepares to name `count` versions of a tree of about `len` bytes.
    pub(crate) fn new(midstates: HashMidstates, len: usize, count: usize) -> Self {
        let is_much = len.saturating_mul(count) >= SHARED_BYTES_MIN;
        // Counting the cores takes a look at files of the system: only where there is much to do.
        let cores = || thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let part_len = if is_much { Some(cores()).filter(|cores| *cores > 1) } else { None };
        let part_len = part_len.map_or(0, |cores| count.div_ceil(cores));
        Self { midstates, part_len, parts: Vec::new(), names: Vec::with_capacity(count) }
    }

    /// Sees the tree as it is before a step.
    pub(crate) fn begin(&mut self, tree: &[u8]) {
        if self.part_len == 0 || self.parts.last().is_some_and(|part| part.steps.len() < self.part_len) {
            return;
        }
        let midstates = std::mem::take(&mut self.midstates);
        self.parts.push(Part { tree: tree.to_vec(), midstates, steps: Vec::new() });
    }

    /// Takes a step: what the tree is now, and what was replaced for that.
    pub(crate) fn step(&mut self, tree: &[u8], splices: Vec<Splice>) {
        match self.parts.last_mut() {
            Some(part) => part.steps.push(splices),
            None => self.names.push(self.midstates.name(tree, same_len_of(&splices))),
        }
    }

    /// The names of all versions, in order, and what is known of the hash of the last.
    pub(crate) fn finish(mut self) -> (Vec<Oid>, HashMidstates) {
        let Some(last) = self.parts.pop() else { return (self.names, self.midstates) };
        thread::scope(|scope| {
            let others: Vec<_> = self.parts.into_iter().map(|part| scope.spawn(|| part.hash())).collect();
            let (last, midstates) = last.hash();
            for other in others {
                let (names, _) = other.join().expect("hashing does not panic");
                self.names.extend(names);
            }
            self.names.extend(last);
            (self.names, midstates)
        })
    }
}

impl Part {
    fn hash(mut self) -> (Vec<Oid>, HashMidstates) {
        let mut names = Vec::with_capacity(self.steps.len());
        for splices in &self.steps {
            let same_len = redo(&mut self.tree, splices);
            names.push(self.midstates.name(&self.tree, same_len));
        }
        (names, self.midstates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::git::object::id::{Kind, name};
    use crate::store::git::object::tree::{FILE, Pointer, RawTree};

    #[test]
    fn names_are_the_same_however_many_threads_hash() {
        let file = |number: usize| {
            let mut oid = [0; 20];
            oid[..8].copy_from_slice(&number.to_be_bytes());
            Some(Pointer { mode: FILE, oid })
        };
        let mut tree = RawTree::default();
        (0..2_000).for_each(|number| drop(tree.put(format!("file-{number:05}").as_bytes(), file(number))));
        let mut names = TreeIds::new(HashMidstates::default(), tree.bytes().len(), 64);
        names.part_len = 7;
        let mut expected = Vec::new();
        for number in 0..64 {
            names.begin(tree.bytes());
            // Changed, made and removed ones.
            let path = format!("file-{:05}", number * 61 % 2_100);
            let pointer = (number % 5 > 0).then(|| file(number + 5_000)).flatten();
            let splices = tree.put(path.as_bytes(), pointer);
            names.step(tree.bytes(), splices);
            expected.push(name(Kind::Tree, tree.bytes()).unwrap());
        }
        let (found, mut midstates) = names.finish();
        assert_eq!(found, expected);
        let len = tree.bytes().len();
        assert_eq!(midstates.name(tree.bytes(), len), expected[63]);
    }
}
