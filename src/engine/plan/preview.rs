//! The commits that a dry run would make. Their differences are computed by the caller, not by the writer thread.

use std::collections::HashMap;

use crate::domain::file_name::names_of;
use crate::engine::plan::{Halt, PlanInput};
use crate::engine::submission::Submission;
use crate::engine::submission::answer::{Preview, PreviewedFile};
use crate::engine::submission::error::SubmitError;
use crate::store::Draft;

/// Shows the `drafts` of a submission as changes to the files that the `earlier` drafts leave.
pub(super) fn of(
    input: &PlanInput<'_>,
    earlier: &[Draft],
    submission: &Submission,
    drafts: &[Draft],
) -> Result<Vec<Preview>, Halt> {
    let made = earlier.iter().flat_map(|draft| &draft.files);
    let mut files: HashMap<&str, Option<&[u8]>> =
        made.map(|(name, bytes)| (name.as_str(), bytes.as_deref())).collect();
    let mut previews = Vec::with_capacity(drafts.len());
    let mut shown_bytes = 0;
    for draft in drafts {
        let mut shown = Vec::with_capacity(draft.files.len());
        for (name, after) in &draft.files {
            let before = match files.insert(name, after.as_deref()) {
                Some(before) => before,
                None => at_head(input, name)?,
            };
            shown_bytes += before.map_or(0, <[u8]>::len);
            if shown_bytes > input.operations_bytes_max {
                let index = index_of(submission, name);
                return Err(
                    SubmitError::FilesTooLarge { index, bytes_max: input.operations_bytes_max }.into()
                );
            }
            shown.push(PreviewedFile {
                path: input.path(name),
                before: before.map(<[u8]>::to_vec),
                after: after.clone(),
            });
        }
        let Draft { message, author, .. } = draft;
        previews.push(Preview { message: message.clone(), author: author.clone(), files: shown });
    }
    Ok(previews)
}

fn at_head<'i>(input: &PlanInput<'i>, name: &str) -> Result<Option<&'i [u8]>, Halt> {
    let Some(blob) = input.files.blobs.get(name) else { return Ok(None) };
    let content = input.sources.get(*blob).ok_or(Halt::Unfinished)?;
    Ok(Some(content.as_slice()))
}

/// Returns the index of the change that concerns a file; 0 if there is none.
fn index_of(submission: &Submission, name: &str) -> usize {
    let changes = &mut submission.changes.iter();
    changes.position(|change| names_of(change.command.key()).iter().any(|it| it == name)).unwrap_or(0)
}
