//! What differs between two revisions.

use std::time::Instant;

use similar::TextDiff;

use crate::domain::file_name::FileName;
use crate::domain::{Change, Key, Revision, changes};
use crate::engine::history::event::Action;
use crate::engine::history::{HistoryError, View};
use crate::format::FILE_BYTES_MAX;
use crate::store::{StoreError, TreeEntry};

/// How many lines around a change are shown, as in git.
const CONTEXT_LINES: usize = 3;

/// Stands for a content that can't be read: it is no text, so nothing of it is shown.
const UNREADABLE: &[u8] = b"\0";

/// What differs in one collection between two revisions.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionDifference {
    /// The collection.
    pub key: Key,
    /// Whether it is new, changed or gone.
    pub action: Action,
    /// The attributes that differ; none when only comments or order do.
    pub changes: Vec<Change>,
}

impl View {
    /// What differs between two revisions, by key, of the collections that are wanted: what was served then (see
    /// [`as_of`](Self::as_of)). Works both ways.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read, and when it has lost one of their files.
    pub fn difference(
        &self,
        from: Revision,
        to: Revision,
        wanted: &dyn Fn(&Key) -> bool,
    ) -> Result<Vec<CollectionDifference>, HistoryError> {
        let (old, new) = (self.as_of(from)?, self.as_of(to)?);
        let [lost_before, lost_after] = [&old, &new].map(|past| past.lost(wanted));
        if let Some(fault) = lost_before.or(lost_after) {
            return Err(HistoryError::Lost(fault.clone()));
        }
        let mut keys: Vec<&Key> = old.entries.keys().chain(new.entries.keys()).collect();
        keys.sort();
        keys.dedup();
        keys.retain(|key| wanted(key));
        let mut found = Vec::new();
        for key in keys {
            let (before, after) = (old.entries.get(key), new.entries.get(key));
            let action = match (before, after) {
                (None, _) => Action::Created,
                (Some(_), None) => Action::Deleted,
                (Some(before), Some(after)) if before.blob == after.blob => continue,
                (Some(_), Some(_)) => Action::Updated,
            };
            let changes = changes(before.map(|it| &*it.collection), after.map(|it| &*it.collection));
            found.push(CollectionDifference { key: key.clone(), action, changes });
        }
        Ok(found)
    }

    /// The difference between the files of two revisions as unified text, which `git apply` and
    /// `patch` take: broken files too, of the collections that are wanted. Names in it are paths
    /// inside the repository. Where the shortest differences are not found `until` then, the rest is
    /// shown as replaced.
    ///
    /// # Errors
    ///
    /// Fails when the repository can't be read.
    pub fn text_difference(
        &self,
        from: Option<Revision>,
        to: Option<Revision>,
        wanted: &dyn Fn(&Key) -> bool,
        until: Instant,
    ) -> Result<String, HistoryError> {
        let mut text = String::new();
        for change in self.shared.archive.differences(from, to)? {
            let FileName::Collection { key, .. } = FileName::parse(&change.name) else { continue };
            if wanted(&key) {
                self.check_asker()?;
                let path = self.shared.path(&change.name);
                text.push_str(&self.file_difference(&path, change.before, change.after, until)?);
            }
        }
        Ok(text)
    }

    /// The difference of one file; of what is none, a line that `git apply` passes over.
    fn file_difference(
        &self,
        path: &str,
        before: Option<TreeEntry>,
        after: Option<TreeEntry>,
        until: Instant,
    ) -> Result<String, HistoryError> {
        let content = |entry: Option<TreeEntry>| match entry {
            None => Ok(Some(None)),
            Some(TreeEntry::File(blob)) => match self.shared.content(blob) {
                Err(StoreError::Damaged { .. }) => Ok(Some(Some(UNREADABLE.to_vec()))),
                content => content.map(|bytes| Some(Some(bytes))),
            },
            Some(TreeEntry::Special(_)) => Ok(None),
        };
        if let (Some(before), Some(after)) = (content(before)?, content(after)?) {
            return Ok(header(path, before.is_none(), after.is_none())
                + &unified(path, before.as_deref(), after.as_deref(), until));
        }
        let what = |entry: Option<TreeEntry>| match entry {
            None => "nothing".to_owned(),
            Some(TreeEntry::File(_)) => "a file".to_owned(),
            Some(TreeEntry::Special(what)) => what.to_string(),
        };
        let path = quoted(path);
        Ok(format!("Special file {path}: {} before, {} after\n", what(before), what(after)))
    }
}

/// What git writes above the difference of a file: it alone tells of a file that is made or
/// deleted empty.
fn header(path: &str, is_new: bool, is_deleted: bool) -> String {
    let mode = match (is_new, is_deleted) {
        (true, _) => "new file mode 100644\n",
        (false, true) => "deleted file mode 100644\n",
        (false, false) => "",
    };
    format!("diff --git {} {}\n{mode}", quoted(&format!("a/{path}")), quoted(&format!("b/{path}")))
}

/// The difference between two contents of a file as unified text.
///
/// Where finding the shortest difference takes longer than `until`, the rest is shown as replaced.
pub(crate) fn unified(path: &str, before: Option<&[u8]>, after: Option<&[u8]>, until: Instant) -> String {
    let name = |side: &str, content: Option<&[u8]>| match content {
        Some(_) => quoted(&format!("{side}/{path}")),
        None => "/dev/null".to_owned(),
    };
    let (old_name, new_name) = (name("a", before), name("b", after));
    let text = |content: Option<&[u8]>| match content {
        Some(bytes) if bytes.contains(&0) || bytes.len() > FILE_BYTES_MAX => None,
        Some(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        None => Some(String::new()),
    };
    match (text(before), text(after)) {
        (Some(old), Some(new)) if old != new => TextDiff::configure()
            .deadline(until)
            .diff_lines(&old, &new)
            .unified_diff()
            .context_radius(CONTEXT_LINES)
            .header(&old_name, &new_name)
            .to_string(),
        // Created or deleted empty: there is no line to show.
        (Some(_), Some(_)) => String::new(),
        (None, _) | (_, None) => format!("Binary files {old_name} and {new_name} differ\n"),
    }
}

/// A name as git writes it where it holds what would break a line (`quote_c_style`).
fn quoted(name: &str) -> String {
    let special = |c: char| c.is_control() || matches!(c, '"' | '\\');
    if !name.contains(special) {
        return name.to_owned();
    }
    let mut quoted = String::from("\"");
    for byte in name.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', byte as char]),
            0x20..=0x7e => quoted.push(byte as char),
            _ => quoted.push_str(&format!("\\{byte:03o}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn unified(path: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> String {
        super::unified(path, before, after, Instant::now() + Duration::from_secs(3_600))
    }

    /// The lines `len - 1, …, 0`, or in an order that has nothing in common with it.
    fn lines(len: usize, is_mixed: bool) -> Vec<u8> {
        let number = |at: usize| if is_mixed { at * 7_919 % len } else { len - 1 - at };
        (0..len).map(|at| format!("{}\n", number(at))).collect::<String>().into_bytes()
    }

    /// The shortest difference of such takes seconds; in this build, minutes.
    #[test]
    fn a_difference_that_is_hard_to_find_is_told_in_time_and_whole() {
        let (before, after) = (lines(10_501, false), lines(10_501, true));
        let began = Instant::now();
        let told = super::unified("a", Some(&before), Some(&after), began);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        let side = |sign: &str| {
            let other = if sign == "-" { "+" } else { "-" };
            let lines = told.lines().skip(3).filter(|line| !line.starts_with(other));
            lines.map(|line| format!("{}\n", &line[1..])).collect::<String>().into_bytes()
        };
        assert!(side("-") == before && side("+") == after, "what it tells leads from one to the other");
    }

    #[test]
    fn a_unified_difference_names_both_sides() {
        assert_eq!(
            unified("c/a.yaml", Some(b"one\ntwo\n"), Some(b"one\nthree")),
            "--- a/c/a.yaml\n+++ b/c/a.yaml\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n\\ No newline at end of file\n"
        );
        assert_eq!(unified("a.yaml", None, Some(b"x\n")), "--- /dev/null\n+++ b/a.yaml\n@@ -0,0 +1 @@\n+x\n");
        assert_eq!(header("a", true, false), "diff --git a/a b/a\nnew file mode 100644\n");
        assert_eq!(unified("a", Some(b"\0"), None), "Binary files a/a and /dev/null differ\n");
        assert_eq!(quoted("a/\"x\"\n"), "\"a/\\\"x\\\"\\012\"");
    }
}
