//! Reports which paths of the work tree are behind the branch and changes nothing: those that [`Checkout::catch_up`]
//! and a start would bring forward, by the same rule.

use std::collections::BTreeSet;

use crate::store::StoreError;
use crate::store::git::disk::lock;
use crate::store::git::object::id::Oid;
use crate::store::git::object::tree::PathChange;
use crate::store::git::read::reader::Reader;
use crate::store::git::worktree::apply::checkout::Checkout;
use crate::store::git::worktree::apply::update::{is_outdated, is_up_to_date};
use crate::store::git::worktree::replace::swap::holds_any;
use crate::store::git::worktree::scan::folder::Folder;
use crate::store::git::worktree::scan::status;

impl Checkout {
    /// Returns the paths whose file or index entry has what an older revision had. `kept` has the objects of the packs
    /// with keep files, which show the write that was under way.
    pub(crate) fn outdated_paths(
        &mut self,
        reader: &mut Reader,
        kept: &[Vec<Oid>],
    ) -> Result<BTreeSet<String>, StoreError> {
        if status::unavailable_reason(&self.branch)?.is_some() {
            return Ok(BTreeSet::new());
        }
        let found = Folder::collections(&self.layout, false)?.folder();
        let folder = found.as_ref();
        let is_old = |name: &str, change: &PathChange| {
            let Some(folder) = folder else { return Ok::<_, StoreError>(false) };
            let is_new = holds_any(folder, name, [change.after.map(|pointer| pointer.blob())])?;
            Ok(!is_new && holds_any(folder, name, change.olds())?)
        };
        let mut outdated: BTreeSet<String> = folder
            .map_or(Ok(Vec::new()), |folder| self.lagging.names_in(folder))?
            .iter()
            .map(|name| self.layout.path_in_repository(name))
            .collect();
        let is_locked = lock::is_own_lock(&self.layout.work_tree_state(), &self.index.path)?;
        self.find_under_way(reader, kept, is_locked)?;
        let head = self.branch.tip()?;
        let known = self.known(head)?;
        let Some(index) = self.index.read()? else { return Ok(outdated) };
        let [changes, others] = self.changes_due(reader, known, head)?;
        for (name, change) in changes {
            let path = self.layout.path_in_repository(&name);
            let staged = index.get(&path);
            let is_the_file_s = self.is_index_ahead || known.after_reboot && is_up_to_date(&staged, &change);
            if is_outdated(&staged, &change) || is_the_file_s && is_old(&name, &change)? {
                outdated.insert(path);
            }
        }
        outdated.extend(
            others.into_iter().filter(|(path, it)| is_outdated(&index.get(path), it)).map(|(path, _)| path),
        );
        Ok(outdated)
    }
}
