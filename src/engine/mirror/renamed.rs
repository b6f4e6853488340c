//! Files that change their ending: `posts.yaml` becomes `posts.yml`, or the other way round.
//!
//! A missing file is normally believed to be gone only after a while, because editors delete and recreate files. If
//! the collection's other file appears at the same time, there is nothing to wait for: the file was renamed, and both
//! halves are one change.

use std::sync::Arc;

use crate::domain::file_name::with_other_extension;
use crate::engine::mirror::{AcceptedEdit, Mirror};
use crate::store::WorkTreeEntry;

impl Mirror {
    /// Believes at once that a file is gone if its collection has a good new file.
    pub(crate) fn believe_renamed(&mut self) {
        let gone: Vec<String> = self.unbuilt.iter().filter_map(|name| self.renamed_from(name)).collect();
        for name in gone {
            self.work_tree.suspects.remove(&name);
            let gone = AcceptedEdit { content: None, bytes: Arc::default(), saved: WorkTreeEntry::Deleted };
            self.work_tree.edits.insert(name.clone(), gone);
            self.unbuilt.insert(name);
        }
    }

    /// Returns the former name of a file that appears to be renamed.
    fn renamed_from(&self, name: &str) -> Option<String> {
        let good = |edit: &&AcceptedEdit| matches!(edit.content, Some(Ok(_)));
        self.work_tree.edits.get(name).filter(good)?;
        let other = with_other_extension(name)?;
        self.work_tree
            .suspects
            .get(&other)
            .filter(|suspect| suspect.saved == Some(WorkTreeEntry::Deleted))
            .map(|_| other)
    }
}
