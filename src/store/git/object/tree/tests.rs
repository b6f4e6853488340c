use std::collections::BTreeMap;

use proptest::prelude::*;

use super::difference::Difference;
use super::*;
use crate::random::cases;

fn file(byte: u8) -> Pointer {
    Pointer { mode: FILE, oid: [byte; 20] }
}

fn tree(names: &[(&str, Pointer)]) -> RawTree {
    let mut tree = RawTree::default();
    names.iter().for_each(|(name, pointer)| drop(tree.put(name.as_bytes(), Some(*pointer))));
    tree
}

#[test]
fn a_folder_sorts_as_if_its_name_ended_in_a_slash() {
    let folder = Pointer { mode: FOLDER, oid: [0; 20] };
    let tree = tree(&[("a", folder), ("a.b", file(1)), ("a0", file(2)), ("a-", file(3))]);
    let names: Vec<_> = tree.iter().map(|entry| String::from_utf8_lossy(entry.name).into_owned()).collect();
    assert_eq!(names, ["a-", "a.b", "a", "a0"]);
    assert_eq!(tree.get(b"a"), Some(folder));
    assert_eq!(tree.get(b"a.b"), Some(file(1)));
    assert_eq!(tree.get(b"b"), None);
}

#[test]
fn a_name_has_one_entry_whatever_its_kind_was() {
    let mut tree = tree(&[("a", Pointer { mode: FOLDER, oid: [0; 20] }), ("a.b", file(1))]);
    tree.put(b"a", Some(file(2)));
    assert_eq!(tree.iter().filter(|entry| entry.name == b"a").count(), 1);
    assert_eq!(tree.get(b"a"), Some(file(2)));
}

#[test]
fn a_name_that_becomes_a_folder_is_one_difference() {
    let old = tree(&[("a", file(1)), ("a.b", file(1))]);
    let folder = Pointer { mode: FOLDER, oid: [0; 20] };
    let new = tree(&[("a", folder), ("a.b", file(1))]);
    let found = differences(old.bytes(), new.bytes()).unwrap();
    assert_eq!(found, [(b"a".to_vec(), Some(file(1)), Some(folder))]);
}

#[test]
fn damaged_trees_are_refused() {
    let good = tree(&[("a", file(1))]).bytes().to_vec();
    for len in 1..good.len() {
        assert!(RawTree::parse(good[..len].to_vec()).is_err(), "{len}");
    }
    assert!(RawTree::parse(b"10x644 a\0aaaaaaaaaaaaaaaaaaaa".to_vec()).is_err());
}

fn names() -> impl Strategy<Value = Vec<(String, Option<(bool, u8)>)>> {
    prop::collection::vec(("[ab.-]{1,3}", prop::option::weighted(0.7, (any::<bool>(), any::<u8>()))), 0..40)
}

fn apply(
    tree: &mut RawTree,
    model: &mut BTreeMap<String, Pointer>,
    steps: Vec<(String, Option<(bool, u8)>)>,
) -> Vec<Splice> {
    let mut splices = Vec::new();
    for (name, value) in steps {
        let pointer =
            value.map(|(folder, byte)| Pointer { mode: if folder { FOLDER } else { FILE }, oid: [byte; 20] });
        splices.extend(tree.put(name.as_bytes(), pointer));
        match pointer {
            Some(pointer) => drop(model.insert(name, pointer)),
            None => drop(model.remove(&name)),
        }
    }
    splices
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn spliced_trees_are_sorted_whole_and_compare_as_their_maps_do(first in names(), second in names()) {
        let (mut tree, mut model) = (RawTree::default(), BTreeMap::new());
        apply(&mut tree, &mut model, first);
        let (old, old_model) = (tree.clone(), model.clone());
        let splices = apply(&mut tree, &mut model, second);
        prop_assert_eq!(undone(tree.bytes(), &splices), old.bytes());
        prop_assert_eq!(&RawTree::parse(tree.bytes().to_vec()).unwrap(), &tree);
        let keys: Vec<_> = tree.iter().map(|e| (e.name, e.pointer.mode == FOLDER)).collect();
        prop_assert!(keys.is_sorted_by(|a, b| order(*a, *b).is_lt()));
        prop_assert!(model.iter().all(|(name, pointer)| tree.get(name.as_bytes()) == Some(*pointer)));
        prop_assert_eq!(keys.len(), model.len());
        let found = differences(old.bytes(), tree.bytes()).unwrap();
        let names: std::collections::BTreeSet<_> = old_model.keys().chain(model.keys()).collect();
        let expected: Vec<Difference> = names.into_iter()
            .map(|name| (name.clone().into_bytes(), old_model.get(name).copied(), model.get(name).copied()))
            .filter(|(_, before, after)| before != after)
            .collect();
        prop_assert_eq!(found, expected);
    }
}
