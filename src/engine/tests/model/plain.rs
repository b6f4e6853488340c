//! A plain reading of a repository: what should be served, computed without the engine.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::memory::MemoryJournal;

/// File names and their contents.
pub(crate) type Folder = BTreeMap<String, String>;

/// The collection that is served for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) file: String,
    pub(crate) name: String,
    pub(crate) uncommitted: bool,
    pub(crate) stale: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) served: BTreeMap<String, Served>,
    /// The broken and superfluous files, and whether the fault is committed.
    pub(crate) problems: BTreeMap<String, bool>,
    pub(crate) uncommitted: usize,
}

/// Reads the folder that counts over the head, given what was served before.
pub(crate) fn read(journal: &MemoryJournal, is_here: bool, before: &Reading) -> Reading {
    let head = head(journal);
    let folder = if is_here { work_tree(journal) } else { head.clone() };
    let mut reading = Reading::default();
    let keys: BTreeSet<&str> = folder.keys().map(|name| key_of(name)).collect();
    for key in keys {
        if key.contains(' ') {
            for name in names(key).into_iter().filter(|name| folder.contains_key(name)) {
                let is_committed = folder.get(&name) == head.get(&name);
                reading.problems.insert(name, is_committed);
            }
            continue;
        }
        // The file with precedence counts too: if it is gone, the head serves something else.
        let is_committed = |name: &String| {
            let counting = names(key).into_iter().take_while(|it| it <= name);
            counting.into_iter().all(|name| folder.get(&name) == head.get(&name))
        };
        let present = names(key).into_iter().filter(|name| folder.contains_key(name)).collect::<Vec<_>>();
        if let [first, second] = present.as_slice() {
            reading.problems.insert(second.clone(), is_committed(first) && is_committed(second));
        }
        let file = &present[0];
        if let Some(name) = name_in(&folder[file]) {
            let served = Served { file: file.clone(), name, uncommitted: !is_committed(file), stale: false };
            reading.served.insert(key.to_owned(), served);
            continue;
        }
        reading.problems.insert(file.clone(), is_committed(file));
        let are_committed =
            present.len() == 2 && present.iter().all(|name| folder.get(name) == head.get(name));
        let is_kept = |served: &&Served| served.uncommitted && !are_committed;
        let shown = before.served.get(key).filter(is_kept).cloned();
        let last = shown.or_else(|| last_good(journal, key));
        let second = present.get(1).and_then(|file| {
            let uncommitted = folder.get(file) != head.get(file);
            Some(Served { file: file.clone(), name: name_in(&folder[file])?, uncommitted, stale: false })
        });
        let good = match (last, second) {
            (Some(last), Some(second)) if last.file == second.file => {
                Some(Served { uncommitted: last.uncommitted || second.uncommitted, ..second })
            }
            (last, second) => last.or(second),
        };
        reading.served.extend(good.map(|it| (key.to_owned(), Served { stale: true, ..it })));
    }
    reading.uncommitted = count(&head, &folder, &reading.served);
    reading
}

/// Returns how many uncommitted hand edits are served, including deleted files.
fn count(head: &Folder, folder: &Folder, served: &BTreeMap<String, Served>) -> usize {
    let is_shown = |key: &str| {
        let served = served.get(key).filter(|served| served.uncommitted);
        served.is_some_and(|served| head.get(&served.file) == folder.get(&served.file))
    };
    let gone = head.keys().filter(|name| !folder.contains_key(*name) && !name.contains(' '));
    gone.filter(|name| !is_shown(key_of(name))).count()
        + served.values().filter(|served| served.uncommitted).count()
}

/// Takes what is `shown` for each key, if one of the two readings agrees.
pub(crate) fn choose(
    journal: &MemoryJournal,
    is_here: bool,
    shown: &Reading,
    either: [&Reading; 2],
) -> Reading {
    let [one, two] = either;
    let keys = one.served.keys().chain(two.served.keys()).chain(shown.served.keys());
    let served: BTreeMap<_, _> = keys
        .filter_map(|key| {
            let is_two = two.served.get(key) == shown.served.get(key);
            let served = if is_two { two.served.get(key) } else { one.served.get(key) };
            Some((key.clone(), served?.clone()))
        })
        .collect();
    let head = head(journal);
    let folder = if is_here { work_tree(journal) } else { head.clone() };
    Reading { uncommitted: count(&head, &folder, &served), served, problems: one.problems.clone() }
}

/// Returns the newest valid version of a collection in the history of the branch, back to its last creation.
pub(crate) fn last_good(journal: &MemoryJournal, key: &str) -> Option<Served> {
    for commit in journal.log() {
        let folder = texts(journal.files_at(Some(commit.revision)));
        let file = names(key).into_iter().find(|name| folder.contains_key(name))?;
        if let Some(name) = name_in(&folder[&file]) {
            return Some(Served { file, name, uncommitted: false, stale: false });
        }
    }
    None
}

/// Returns the `name` in a valid file of the few kinds that the stories use.
pub(crate) fn name_in(text: &str) -> Option<String> {
    let mut name = None;
    let mut is_typed = false;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.split_once(": ")? {
            ("type", "document" | "media") => is_typed = true,
            ("name", value) if !value.starts_with('[') => name = Some(value.trim_matches('"').to_owned()),
            _ => return None,
        }
    }
    name.filter(|_| is_typed)
}

/// Returns the two possible file names of a key; the one that counts comes first.
pub(crate) fn names(key: &str) -> [String; 2] {
    [format!("{key}.yaml"), format!("{key}.yml")]
}

pub(crate) fn key_of(name: &str) -> &str {
    name.rsplit_once('.').expect("every file here has an ending").0
}

/// Returns the names whose contents differ between two folders.
pub(crate) fn differing(one: &Folder, two: &Folder) -> Vec<String> {
    let names: BTreeSet<_> = one.keys().chain(two.keys()).collect();
    names.into_iter().filter(|name| one.get(*name) != two.get(*name)).cloned().collect()
}

pub(crate) fn head(journal: &MemoryJournal) -> Folder {
    texts(journal.files_at(journal.log().first().map(|commit| commit.revision)))
}

pub(crate) fn work_tree(journal: &MemoryJournal) -> Folder {
    texts(journal.saved_files())
}

pub(crate) fn texts(files: BTreeMap<String, Vec<u8>>) -> Folder {
    let text = |bytes| String::from_utf8(bytes).expect("files are UTF-8 here");
    files.into_iter().map(|(name, bytes)| (name, text(bytes))).collect()
}
