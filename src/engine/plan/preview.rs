//! What a dry run tells: the commits that would be made. What they change is found out by whoever shows it, and
//! not while the writer waits.

use std::collections::HashMap;

use crate::engine::handle::{Preview, PreviewedFile};
use crate::engine::plan::Input;
use crate::store::Draft;

/// Shows `drafts` as they would change the files that `earlier` drafts leave behind.
pub(crate) fn of(input: &Input<'_>, earlier: &[Draft], drafts: &[Draft]) -> Vec<Preview> {
    let mut files: HashMap<&str, Option<&[u8]>> =
        input.heads.iter().map(|(name, bytes)| (name.as_str(), Some(bytes.as_slice()))).collect();
    for (name, bytes) in earlier.iter().flat_map(|draft| &draft.files) {
        files.insert(name, bytes.as_deref());
    }
    let mut previews = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let mut shown = Vec::with_capacity(draft.files.len());
        for (name, after) in &draft.files {
            let before = files.insert(name, after.as_deref()).flatten();
            shown.push(PreviewedFile {
                path: format!("{}/{name}", input.folder),
                before: before.map(<[u8]>::to_vec),
                after: after.clone(),
            });
        }
        let Draft { message, author, .. } = draft;
        previews.push(Preview { message: message.clone(), author: author.clone(), files: shown });
    }
    previews
}
