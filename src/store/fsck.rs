//! Reports what `git fsck --full --strict` finds in a repository, and in which commits.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::process::Output;

use crate::domain::Revision;
use crate::store::git_command::git_read_only;

/// How many runs must find a fault before it is believed: git reports what changes while it reads as damage.
const RUNS_MAX: usize = 3;

/// A fault in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Git's message.
    pub(crate) text: String,
    /// The object that the message names, if any.
    object: Option<String>,
}

/// Faults, grouped by the commits that introduce them.
#[derive(Debug, Default)]
pub(crate) struct FaultsByCommit {
    /// The faults in what each commit introduces.
    pub(crate) by_commit: HashMap<Revision, Vec<String>>,
    /// The faults that can't be attributed to a commit.
    pub(crate) unattributed: Vec<String>,
}

/// Has git check every object; the result is empty when the repository is sound. What git finds only once or twice is what
/// a service wrote meanwhile.
///
/// # Errors
///
/// Fails when git can't be run.
pub(crate) fn fsck(git_dir: &Path) -> io::Result<Vec<Fault>> {
    let mut found: Option<Vec<Fault>> = None;
    for _ in 0..RUNS_MAX {
        let mut command = git_read_only(git_dir);
        let output =
            command.args(["fsck", "--full", "--strict", "--no-dangling", "--no-progress"]).output()?;
        let mut now = if output.status.success() { Vec::new() } else { faults(&output) };
        now.retain(|fault| found.as_ref().is_none_or(|before| before.contains(fault)));
        if now.is_empty() {
            return Ok(now);
        }
        found = Some(now);
    }
    Ok(found.unwrap_or_default())
}

/// Attributes each fault to the first commit of `line` that has the object or merges the commit that has it. `line` is
/// oldest first along first parents, all after `after`. Drops faults in objects that it does not reach.
///
/// # Errors
///
/// Fails when git can't be run.
pub(crate) fn attribute_to_commits(
    git_dir: &Path,
    faults: Vec<Fault>,
    after: Option<Revision>,
    line: &[Revision],
) -> io::Result<FaultsByCommit> {
    let mut placed = FaultsByCommit::default();
    let Some(last) = line.last() else { return Ok(placed) };
    let mut command = git_read_only(git_dir);
    // Fsck checks the objects themselves, not their replacements.
    command.env("GIT_NO_REPLACE_OBJECTS", "1").args(["rev-list", "--topo-order", "--reverse", "--objects"]);
    command.args(["--in-commit-order", "--missing=print"]);
    command.arg(last.to_string()).args(after.map(|after| format!("^{after}")));
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let brought = brought(&said, line);
    for Fault { text, object } in faults {
        match object.as_deref().and_then(|object| brought.get(object)) {
            Some(Some(commit)) => placed.by_commit.entry(*commit).or_default().push(text),
            None if object.is_some() && output.status.success() => {}
            Some(None) | None => placed.unattributed.push(text),
        }
    }
    Ok(placed)
}

/// Maps each object that `rev-list` lists to the commit of the line that introduces it, where that is known.
fn brought<'a>(said: &'a str, line: &[Revision]) -> HashMap<&'a str, Option<Revision>> {
    let line: HashSet<Revision> = line.iter().copied().collect();
    let mut brought = HashMap::new();
    let (mut merged, mut present) = (Vec::new(), None);
    for listed in said.lines() {
        if let Some(missing) = listed.strip_prefix('?') {
            brought.insert(missing, None);
            continue;
        }
        // The id of a tree or a blob is followed by a space and its path, which may be empty.
        let (id, is_commit) = listed.split_once(' ').map_or((listed, true), |(id, _)| (id, false));
        if is_commit {
            present = id.parse().ok().filter(|commit| line.contains(commit));
        }
        brought.insert(id, present);
        match present {
            None => merged.push(id),
            Some(_) => brought.extend(merged.drain(..).map(|id| (id, present))),
        }
    }
    brought
}

/// Parses git's output into one fault per line.
fn faults(output: &Output) -> Vec<Fault> {
    let said = [String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout)];
    let mut found: Vec<Fault> = Vec::new();
    let mut known = HashSet::new();
    for line in said.iter().flat_map(|said| said.lines()) {
        let text = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = text.as_str();
        let is_other = text.is_empty() || ["warning", "notice"].iter().any(|word| text.starts_with(word));
        // A missing object is described better by the line about the object that refers to it.
        let object = object_of(line);
        let is_known = text.starts_with("missing ") && object.is_some_and(|object| known.contains(object));
        known.extend(object);
        if text.starts_with("to ")
            && let Some(link) = found.last_mut()
        {
            link.text = format!("{} {text}", link.text);
        } else if !is_other && !is_known && !found.iter().any(|fault| fault.text == text) {
            let object = object.map(|object| object.replace('/', ""));
            found.push(Fault { text: text.to_owned(), object });
        }
    }
    match found.is_empty() {
        true => vec![Fault { text: format!("git fsck fails with {}", output.status), object: None }],
        false => found,
    }
}

/// Finds the object that a line names by its id or by its file.
fn object_of(line: &str) -> Option<&str> {
    let is_id = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = line.split(|it: char| it.is_whitespace() || matches!(it, ':' | '\'' | ',' | '(' | ')'));
    words.filter(|word| word.is_ascii()).find_map(|word| match word.len().checked_sub(41) {
        None => (word.len() == 40 && is_id(word)).then_some(word),
        Some(start) => {
            let (folder, file) = word[start..].split_at(3);
            let is_file = is_id(&folder[..2]) && folder.ends_with('/') && is_id(file);
            (is_file && word[..start].ends_with('/')).then_some(&word[start..])
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_of_a_line_is_found() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let file = "01/23456789abcdef0123456789abcdef01234567";
        for (line, object) in [
            (format!("error in tree {id}: hasDotgit: contains '.git'"), Some(id)),
            (format!("error: {id}: object corrupt or missing: .git/objects/{file}"), Some(id)),
            (format!("error: corrupt loose object '{id}'"), Some(id)),
            (format!("error: unable to unpack contents of .git/objects/{file}"), Some(file)),
            (format!("error: .git/objects/pack/pack-{id}.pack SHA1 checksum mismatch"), None),
            ("error: bad index file sha1 signature".to_owned(), None),
        ] {
            assert_eq!(object_of(&line), object, "{line}");
        }
    }

    #[test]
    fn an_object_belongs_to_the_first_commit_of_the_line_that_has_it() {
        let id = |digit: &str| digit.repeat(40);
        let [one, tree, side, blob, merge, lost] = ["1", "a", "2", "b", "3", "c"].map(id);
        let said = format!("{one}\n{tree} \n{side}\n{blob} posts.yaml\n{merge}\n?{lost}\n");
        let [first, second] = [&one, &merge].map(|id| id.parse().unwrap());
        let found = brought(&said, &[first, second]);
        let of = |id: &String| found[id.as_str()];
        assert_eq!([of(&one), of(&tree)], [Some(first); 2]);
        assert_eq!([of(&side), of(&blob), of(&merge)], [Some(second); 3]);
        assert_eq!(of(&lost), None);
    }
}
