//! Three-way merges of collections that both sides have changed, by key and attribute. Pure.
//!
//! The remote's side is `theirs`, and it takes precedence because others have seen it: an attribute that both sides
//! changed in different ways keeps the remote's value, and is reported as a [`Conflict`]. A file that can't be read
//! on one side counts as a single value. What one side deleted and the other changed stays.

use std::collections::BTreeMap;

use crate::domain::file_name::{self, FileExtension, FileName};
use crate::domain::{Change, Collection, Key, Value, Violation, changes};
use crate::format::message::{Conflict, MergedSide, compose_merge};
use crate::format::{self, FILE_BYTES_MAX};
use crate::store::remote::{FileSides, MergeDecision, Merger, Resolution, SideFile, Sides};

/// Merges collection files by their meaning.
#[derive(Debug, Clone)]
pub struct CollectionMerger {
    /// The collections folder, as a path inside the repository.
    folder: String,
}

impl CollectionMerger {
    /// Creates a merger for the collections of a folder.
    #[must_use]
    pub fn new(folder: &str) -> Self {
        Self { folder: folder.to_owned() }
    }

    fn path(&self, name: &str) -> String {
        file_name::path_in(&self.folder, name)
    }

    /// Decides what becomes of one file.
    fn merge_file(&self, sides: &FileSides, conflicts: &mut Vec<Conflict>) -> Resolution {
        let as_one_value = || vec![Conflict::File(self.path(&sides.name))];
        let (take, found) = match FileName::parse(&sides.name) {
            FileName::Collection(key) => {
                let versions =
                    [&sides.base, &sides.ours, &sides.theirs].map(|side| Version::read(&key, side));
                let (take, attributes) = of_collection(sides, &versions);
                let of_key = |attribute| Conflict::Attribute { key: key.clone(), attribute };
                let mut found =
                    attributes.map_or_else(as_one_value, |names| names.into_iter().map(of_key).collect());
                if loses_comments(&versions) {
                    found.extend(as_one_value());
                }
                (take, found)
            }
            FileName::BadKey(_) | FileName::Other => (Resolution::Theirs, as_one_value()),
        };
        conflicts.extend(found);
        take
    }

    /// Decides what becomes of the two files of a collection if a side has moved it from one name to the other, or if
    /// the sides created it under different names: one file stays. `None` if a side has both files or a special
    /// entry: each file is then judged by itself, and nothing is lost.
    fn merge_renamed(
        &self,
        files: [&FileSides; 2],
        conflicts: &mut Vec<Conflict>,
    ) -> Option<[Resolution; 2]> {
        let base = only_file(files.map(|it| &it.base))?;
        let ours = only_file(files.map(|it| &it.ours))?;
        let theirs = only_file(files.map(|it| &it.theirs))?;
        let stays = match (ours, theirs) {
            (None, None) => return Some([Resolution::Theirs, Resolution::Theirs]),
            (Some(ours), None) => ours,
            (Some(ours), Some(theirs)) if base.is_some_and(|base| base.0 == theirs.0) => ours,
            (_, Some(theirs)) => theirs,
        };
        let content = |it: Option<(usize, &SideFile)>| it.map(|(_, side)| side.clone());
        let name = files[stays.0].name.clone();
        let sides = FileSides { name, base: content(base), ours: content(ours), theirs: content(theirs) };
        let take = match &sides {
            sides if sides.theirs == sides.base => Resolution::Ours,
            sides if sides.ours == sides.base => Resolution::Theirs,
            sides => self.merge_file(sides, conflicts),
        };
        let merged = match take {
            Resolution::Ours => sides.ours,
            Resolution::Theirs => sides.theirs,
            Resolution::Bytes(bytes) => Some(SideFile::File(bytes)),
        };
        let take = |at: usize| match merged.as_ref().filter(|_| at == stays.0) {
            wanted if wanted == files[at].theirs.as_ref() => Resolution::Theirs,
            Some(SideFile::File(bytes)) => Resolution::Bytes(bytes.clone()),
            Some(SideFile::Special) | None => Resolution::Ours,
        };
        Some([take(0), take(1)])
    }
}

/// Returns the positions of the two files of each collection of which both names are present.
fn twins(files: &[FileSides]) -> Vec<[usize; 2]> {
    let at: BTreeMap<&str, usize> = files.iter().enumerate().map(|(at, file)| (&*file.name, at)).collect();
    let yml = at.iter().filter(|(name, _)| FileExtension::of(name) == FileExtension::Yml);
    yml.filter_map(|(name, yml)| Some([*at.get(&*file_name::with_other_extension(name)?)?, *yml])).collect()
}

/// Returns which of its two files a side of a collection has, if any; `None` if it has both or a special entry.
#[expect(clippy::option_option, reason = "a side may have no file")]
fn only_file(files: [&Option<SideFile>; 2]) -> Option<Option<(usize, &SideFile)>> {
    match files {
        [None, None] => Some(None),
        [Some(file @ SideFile::File(_)), None] => Some(Some((0, file))),
        [None, Some(file @ SideFile::File(_))] => Some(Some((1, file))),
        [Some(_), Some(_)] | [Some(SideFile::Special), None] | [None, Some(SideFile::Special)] => None,
    }
}

impl Merger for CollectionMerger {
    fn merge(&self, sides: &Sides) -> MergeDecision {
        let mut conflicts = Vec::new();
        let mut takes: BTreeMap<usize, Resolution> = BTreeMap::new();
        // What the other side has created or changed is in the merge.
        let changed = sides.files.iter().filter(|it| it.theirs.is_some() && it.theirs != it.base);
        let theirs = by_folded_key(sides.created.iter().chain(changed.map(|it| &it.name)));
        for [at, twin] in twins(&sides.files) {
            let both = [&sides.files[at], &sides.files[twin]];
            if both.iter().any(|file| is_rival(file, &theirs)) {
                continue;
            }
            if let Some([take, of_twin]) = self.merge_renamed(both, &mut conflicts) {
                takes.extend([(at, take), (twin, of_twin)]);
            }
        }
        for (at, file) in sides.files.iter().enumerate() {
            takes.entry(at).or_insert_with(|| match is_rival(file, &theirs) {
                // It would hide the other collection, or be hidden by it.
                true => {
                    conflicts.push(Conflict::File(self.path(&file.name)));
                    Resolution::Theirs
                }
                false if file.theirs == file.base => Resolution::Ours,
                false if file.ours == file.base => Resolution::Theirs,
                false => self.merge_file(file, &mut conflicts),
            });
        }
        let takes = takes.into_values().collect();
        conflicts.extend(sides.conflicts.iter().cloned().map(Conflict::File));
        conflicts.sort();
        conflicts.dedup();
        let joined =
            MergedSide { revision: sides.ours, commits: sides.commits, is_restored: sides.is_restored };
        let message = compose_merge(joined, &conflicts);
        MergeDecision { resolutions: takes, message, conflicts: conflicts.len() }
    }
}

/// Groups the keys of files by their case-folded keys.
fn by_folded_key<'a>(names: impl Iterator<Item = &'a String>) -> BTreeMap<Key, Vec<Key>> {
    let mut keys: BTreeMap<Key, Vec<Key>> = BTreeMap::new();
    for key in names.filter_map(|name| file_name::key_of(name)) {
        keys.entry(key.folded()).or_default().push(key);
    }
    keys
}

/// Returns whether a file that our side has created or changed is not on the other side, which has one of the same key
/// in other letter case.
fn is_rival(file: &FileSides, theirs: &BTreeMap<Key, Vec<Key>>) -> bool {
    let Some(key) = file_name::key_of(&file.name) else { return false };
    let differs = |others: &Vec<Key>| others.iter().any(|other| *other != key);
    let is_ours_alone = file.theirs.is_none() && file.ours.is_some() && file.ours != file.base;
    is_ours_alone && theirs.get(&key.folded()).is_some_and(differs)
}

/// Decides what becomes of a collection, and which attributes conflict; `None` if the file counts as a single value.
fn of_collection(
    sides: &FileSides,
    [base, ours, theirs]: &[Option<Version<'_>>; 3],
) -> (Resolution, Option<Vec<String>>) {
    let what_changed = |stays: &Option<Version<'_>>| {
        let changes = changes(Some(&base.as_ref()?.collection), Some(&stays.as_ref()?.collection));
        let names: Vec<String> = changes.into_iter().map(|change| change.attribute).collect();
        (!names.is_empty()).then_some(names)
    };
    match (&sides.ours, &sides.theirs) {
        (at_ours, at_theirs) if at_ours == at_theirs => (Resolution::Theirs, Some(Vec::new())),
        (None, _) => (Resolution::Theirs, what_changed(theirs)),
        (_, None) => (Resolution::Ours, what_changed(ours)),
        (Some(_), Some(_)) => match (ours, theirs) {
            (Some(ours), Some(theirs)) => of_values(base.as_ref(), ours, theirs),
            (_, _) => (Resolution::Theirs, None),
        },
    }
}

/// A file that can be read as a collection.
struct Version<'s> {
    bytes: &'s [u8],
    collection: Collection,
}

impl<'s> Version<'s> {
    fn read(key: &Key, side: &'s Option<SideFile>) -> Option<Self> {
        let Some(SideFile::File(bytes)) = side else { return None };
        Some(Self { bytes, collection: format::read(key, bytes).ok()? })
    }
}

fn of_values(
    base: Option<&Version<'_>>,
    ours: &Version<'_>,
    theirs: &Version<'_>,
) -> (Resolution, Option<Vec<String>>) {
    let was = base.map(|base| &base.collection);
    let (mine, other) = (&ours.collection, &theirs.collection);
    if mine.kind() != other.kind() {
        return (Resolution::Theirs, Some(vec!["type".to_owned()]));
    }
    let (mut taken, mut conflicts) = (Vec::new(), Vec::new());
    for Change { attribute, from, to } in changes(was, Some(mine)) {
        match other.by_name(&attribute) {
            // The kinds are equal here.
            _ if attribute == "type" => {}
            there if there == to.as_ref() => {}
            there if there == from.as_ref() => taken.push((attribute, to)),
            _ => conflicts.push(attribute),
        }
    }
    let names: Vec<String> = taken.iter().map(|(name, _)| name.clone()).collect();
    let Ok(merged) = with_values(other, taken) else {
        // Each is valid alone, but both together are not.
        return (Resolution::Theirs, Some([names, conflicts].concat()));
    };
    match written(base, ours, theirs, &merged) {
        Some(bytes) if bytes == theirs.bytes => (Resolution::Theirs, Some(conflicts)),
        Some(bytes) => (Resolution::Bytes(bytes), Some(conflicts)),
        None => (Resolution::Theirs, Some([names, conflicts].concat())),
    }
}

/// Returns a collection with other values of some attributes; `None` removes one. A patch would remove what is `null`
/// too.
fn with_values(
    collection: &Collection,
    values: Vec<(String, Option<Value>)>,
) -> Result<Collection, Vec<Violation>> {
    let all = collection.attributes().iter().map(|(name, value)| (name.to_string(), Some(value.clone())));
    let all: BTreeMap<String, Option<Value>> = all.chain(values).collect();
    let present = all.into_iter().filter_map(|(name, value)| Some((name, value?)));
    Collection::from_file(collection.key().clone(), collection.kind(), present)
}

/// Returns whether both sides have changed more of a file than its values, and differently: only one can stay.
fn loses_comments(versions: &[Option<Version<'_>>; 3]) -> bool {
    let [Some(base), Some(ours), Some(theirs)] = versions else { return false };
    ours.collection.kind() == theirs.collection.kind()
        && !is_edit_of(ours, base)
        && !is_edit_of(theirs, base)
        && !is_edit_of(theirs, ours)
}

/// Returns whether nothing but values has changed since `old`, so that comments and order are unchanged.
fn is_edit_of(new: &Version<'_>, old: &Version<'_>) -> bool {
    let (now, was) = (&new.collection, &old.collection);
    was.kind() == now.kind() && format::edit(old.bytes, was, now).bytes == new.bytes
}

/// Writes the merged collection into the file of the only side that has changed more than values, so that comments
/// stay; `None` if the result is too large.
fn written(
    base: Option<&Version<'_>>,
    ours: &Version<'_>,
    theirs: &Version<'_>,
    merged: &Collection,
) -> Option<Vec<u8>> {
    let only_values = |side: &Version<'_>| base.is_some_and(|base| is_edit_of(side, base));
    let Version { bytes, collection } = if only_values(theirs) && !only_values(ours) { ours } else { theirs };
    let bytes = match collection == merged {
        true => bytes.to_vec(),
        false => format::edit(bytes, collection, merged).bytes,
    };
    (bytes.len() <= FILE_BYTES_MAX).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Revision;

    fn file(name: &str, sides: [Option<&str>; 3]) -> FileSides {
        let [base, ours, theirs] =
            sides.map(|text| text.map(|text| SideFile::File(text.as_bytes().to_vec())));
        FileSides { name: name.to_owned(), base, ours, theirs }
    }

    fn judged(files: Vec<FileSides>, created: &[&str]) -> (Vec<Resolution>, Vec<Conflict>) {
        let sides = Sides {
            files,
            created: created.iter().map(|it| (*it).to_owned()).collect(),
            conflicts: Vec::new(),
            ours: Revision::new([7; 20]),
            commits: 1,
            is_restored: false,
        };
        let MergeDecision { resolutions: takes, message, .. } =
            CollectionMerger::new("collections").merge(&sides);
        (takes, crate::format::message::conflicts(&message))
    }

    #[track_caller]
    fn check(sides: [Option<&str>; 3], takes: &str, conflicts: &[&str]) {
        let (mut taken, found) = judged(vec![file("posts.yaml", sides)], &[]);
        let text = match taken.remove(0) {
            Resolution::Ours => "ours".to_owned(),
            Resolution::Theirs => "theirs".to_owned(),
            Resolution::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
        };
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            (text.as_str(), found.iter().map(String::as_str).collect::<Vec<_>>()),
            (takes, conflicts.to_vec())
        );
    }

    const BASE: &str = "# Ask Mara.\ntype: document\nname: Posts # shown\nrecursive: true\n";

    fn with(name: &str, recursive: &str) -> String {
        format!("# Ask Mara.\ntype: document\nname: {name} # shown\nrecursive: {recursive}\n")
    }

    #[test]
    fn what_the_two_sides_changed_elsewhere_is_both_there_and_comments_stay() {
        let (ours, theirs) = (with("Ours", "true"), with("Posts", "false"));
        check([Some(BASE), Some(&ours), Some(&theirs)], &with("Ours", "false"), &[]);
        check([Some(BASE), Some(&ours), Some(BASE)], "ours", &[]);
        check([Some(BASE), Some(&ours), Some(&ours)], "theirs", &[]);
    }

    #[test]
    fn what_one_side_set_to_null_is_null_in_the_merge() {
        let (ours, theirs) = (format!("{BASE}x-a: null\n"), with("Theirs", "true"));
        check([Some(BASE), Some(&ours), Some(&theirs)], &format!("{theirs}x-a: null\n"), &[]);
        let base = format!("{BASE}x-a: 1\n");
        let theirs = format!("{theirs}x-a: 1\n");
        let merged = theirs.replace("x-a: 1", "x-a: null");
        check([Some(&base), Some(&ours), Some(&theirs)], &merged, &[]);
    }

    #[test]
    fn of_what_both_changed_the_remotes_stays_and_it_is_told() {
        check(
            [Some(BASE), Some(&with("Ours", "false")), Some(&with("Theirs", "true"))],
            &with("Theirs", "false"),
            &["posts name"],
        );
        check(
            [Some(BASE), Some(&with("Ours", "true")), Some(&with("Theirs", "false"))],
            "theirs",
            &["posts name"],
        );
    }

    #[test]
    fn comments_of_the_side_that_changed_them_stay() {
        let ours = BASE.replace("# Ask Mara.", "# Ask Ivo.");
        let theirs = with("Theirs", "true");
        check([Some(BASE), Some(&ours), Some(&theirs)], &theirs.replace("# Ask Mara.", "# Ask Ivo."), &[]);
    }

    #[test]
    fn of_comments_that_both_changed_the_remotes_stay_and_it_is_told() {
        let (ours, theirs) = (BASE.replace("Mara", "Ivo"), with("Theirs", "true").replace("Mara", "Eva"));
        check([Some(BASE), Some(&ours), Some(&theirs)], "theirs", &["collections/posts.yaml"]);
        let both = with("Theirs", "true").replace("Mara", "Ivo");
        check([Some(BASE), Some(&ours), Some(&both)], "theirs", &[]);
    }

    #[test]
    fn what_one_side_deleted_and_the_other_changed_stays_and_is_told() {
        check([Some(BASE), None, Some(&with("Theirs", "true"))], "theirs", &["posts name"]);
        check([Some(BASE), Some(&with("Ours", "true")), None], "ours", &["posts name"]);
        check([Some(BASE), None, None], "theirs", &[]);
        check([Some(BASE), Some(&BASE.replace("Mara", "Ivo")), None], "ours", &["collections/posts.yaml"]);
    }

    #[test]
    fn what_both_created_is_merged_by_attribute_and_of_two_kinds_the_remotes_stays() {
        let theirs = "type: document\nname: Theirs\nrecursive: true\n";
        check(
            [None, Some("type: document\nname: Ours\nx-a: 1\n"), Some(theirs)],
            &format!("{theirs}x-a: 1\n"),
            &["posts name"],
        );
        check([None, Some("type: media\n"), Some(theirs)], "theirs", &["posts type"]);
    }

    #[test]
    fn a_file_that_is_invalid_on_one_side_counts_as_one_value() {
        for (ours, theirs) in
            [("type: [", with("Theirs", "true")), (&*with("Ours", "true"), "type: [".to_owned())]
        {
            check([Some(BASE), Some(ours), Some(&theirs)], "theirs", &["collections/posts.yaml"]);
        }
        check([Some(BASE), Some("type: ["), Some(BASE)], "ours", &[]);
    }

    #[test]
    fn of_two_keys_that_differ_in_letter_case_only_the_remotes_stays() {
        let (taken, conflicts) = judged(vec![file("Posts.yaml", [None, Some(BASE), None])], &["posts.yaml"]);
        assert_eq!(
            (taken, conflicts),
            (vec![Resolution::Theirs], vec![Conflict::File("collections/Posts.yaml".to_owned())])
        );
        let (taken, _) = judged(vec![file("pages.yaml", [None, Some(BASE), None])], &["posts.yaml"]);
        assert_eq!(taken, [Resolution::Ours]);
    }

    #[test]
    fn of_a_key_that_one_side_has_renamed_in_letter_case_the_remotes_file_stays() {
        let (one, two) = (with("One", "true"), with("Two", "true"));
        let changed_here = file("Posts.yaml", [Some(BASE), Some(&one), None]);
        let (taken, conflicts) = judged(vec![changed_here], &["posts.yaml"]);
        assert_eq!(taken, [Resolution::Theirs], "it is deleted");
        assert_eq!(conflicts, [Conflict::File("collections/Posts.yaml".to_owned())]);
        let renamed_here = vec![
            file("Posts.yaml", [Some(BASE), None, Some(&two)]),
            file("posts.yaml", [None, Some(BASE), None]),
        ];
        let (taken, _) = judged(renamed_here, &[]);
        assert_eq!(taken, [Resolution::Theirs, Resolution::Theirs], "the one changed there stays alone");
    }

    /// Comparing them pairwise would take as many steps as the product of both numbers.
    #[test]
    fn what_both_sides_have_created_by_thousands_is_merged_soon() {
        const COUNT: usize = 20_000;
        let ours = (0..COUNT).map(|at| file(&format!("A{at}.yaml"), [None, Some(BASE), None]));
        let theirs: Vec<String> = (COUNT - 1..2 * COUNT).map(|at| format!("a{at}.yaml")).collect();
        let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
        let (taken, conflicts) = judged(ours.collect(), &theirs);
        assert_eq!(conflicts, [Conflict::File(format!("collections/A{}.yaml", COUNT - 1))]);
        assert_eq!(taken.iter().filter(|take| **take == Resolution::Theirs).count(), 1);
    }

    /// Checks the two files of a collection, each given as base, ours and theirs.
    #[track_caller]
    fn check_names(
        yaml: [Option<&str>; 3],
        yml: [Option<&str>; 3],
        files: [Option<&str>; 2],
        conflicts: &[&str],
    ) {
        let (taken, found) = judged(vec![file("posts.yaml", yaml), file("posts.yml", yml)], &[]);
        let text = |take: &Resolution, [_, ours, theirs]: [Option<&str>; 3]| match take {
            Resolution::Ours => ours.map(str::to_owned),
            Resolution::Theirs => theirs.map(str::to_owned),
            Resolution::Bytes(bytes) => Some(String::from_utf8(bytes.clone()).unwrap()),
        };
        let stand = [text(&taken[0], yaml), text(&taken[1], yml)];
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(stand, files.map(|text| text.map(str::to_owned)));
        assert_eq!(found, conflicts);
    }

    #[test]
    fn what_both_created_under_two_names_is_one_collection_under_the_remotes_name() {
        let (ours, theirs) =
            ("type: document\nname: Ours\nx-a: 1\n", "type: document\nname: Theirs\nrecursive: true\n");
        let merged = format!("{theirs}x-a: 1\n");
        check_names(
            [None, Some(ours), None],
            [None, None, Some(theirs)],
            [None, Some(&merged)],
            &["posts name"],
        );
        check_names(
            [None, None, Some(theirs)],
            [None, Some(ours), None],
            [Some(&merged), None],
            &["posts name"],
        );
        let media = Some("type: media\n");
        check_names([None, media, None], [None, None, Some(theirs)], [None, Some(theirs)], &["posts type"]);
        let broken = Some("type: [");
        check_names(
            [None, Some(ours), None],
            [None, None, broken],
            [None, broken],
            &["collections/posts.yml"],
        );
    }

    #[test]
    fn a_collection_that_one_side_moved_to_its_other_name_is_merged_there() {
        let (ours, theirs, merged) =
            (with("Posts", "false"), with("Theirs", "true"), with("Theirs", "false"));
        let (base, ours, theirs) = (Some(BASE), Some(&*ours), Some(&*theirs));
        // The remote moved it, and changed a value or none.
        check_names([base, ours, None], [None, None, theirs], [None, Some(&merged)], &[]);
        check_names([base, ours, None], [None, None, base], [None, ours], &[]);
        // We moved it.
        check_names([base, None, theirs], [None, ours, None], [None, Some(&merged)], &[]);
        check_names([base, None, base], [None, ours, None], [None, ours], &[]);
        check_names([base, None, theirs], [None, base, None], [None, theirs], &[]);
        // Both did.
        check_names([base, None, None], [None, ours, theirs], [None, Some(&merged)], &[]);
    }

    #[test]
    fn a_move_to_the_other_name_changes_nothing_that_a_deletion_had_to_give_way_to() {
        let changed = with("Changed", "true");
        let (base, changed) = (Some(BASE), Some(&*changed));
        check_names([base, None, None], [None, None, base], [None, None], &[]);
        check_names([base, None, None], [None, base, None], [None, None], &[]);
        check_names([base, None, None], [None, None, changed], [None, changed], &["posts name"]);
        check_names([base, None, None], [None, changed, None], [None, changed], &["posts name"]);
    }

    #[test]
    fn where_a_side_has_both_names_of_a_collection_each_file_is_merged_by_itself() {
        let (ours, theirs) = (with("Posts", "false"), with("Theirs", "true"));
        let (base, ours, theirs) = (Some(BASE), Some(&*ours), Some(&*theirs));
        check_names([base, ours, base], [None, None, theirs], [ours, theirs], &[]);
        check_names([base, base, theirs], [base, None, base], [theirs, None], &[]);
    }
}
