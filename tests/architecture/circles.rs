//! Circles of files: files that take names from each other, directly or by way of others.
//!
//! A folder and the files in it may know each other: its `mod.rs` offers what they have, and they use what it holds for
//! all of them. Any other circle means that neither file can be read, moved or tested without the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::source::{Source, paths_of, sources};

/// The modules that each module takes names from.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Returns the modules below `src` that form circles, and those between circles.
pub(crate) fn circles_in(root: &Path) -> Vec<String> {
    let mut arrows = arrows_of(root);
    loop {
        let before = arrows.len();
        let taken: BTreeSet<String> = arrows.values().flatten().cloned().collect();
        arrows.retain(|module, takes_from| !takes_from.is_empty() && taken.contains(module));
        let left: BTreeSet<String> = arrows.keys().cloned().collect();
        arrows.values_mut().for_each(|takes_from| takes_from.retain(|module| left.contains(module)));
        if arrows.len() == before {
            return arrows.into_keys().collect();
        }
    }
}

fn arrows_of(root: &Path) -> Arrows {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for Source { name, mut code } in sources(&root.join("src")) {
        let module = name.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
        let is_for_tests = |part: &str| part == "tests" || part == "testing";
        if !module.split("::").any(is_for_tests) {
            code.truncate(code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len()));
            files.insert(module, code);
        }
    }
    let offered = offered_by(&files);
    let mut arrows = Arrows::new();
    for (module, code) in &files {
        let takes_from = arrows.entry(module.clone()).or_default();
        for (_, path) in paths_of(code, "crate::") {
            let Some(owner) = owner_of(&path, &files, &offered) else { continue };
            let is_own_folder = |inner: &str, outer: &str| inner.starts_with(&format!("{outer}::"));
            if owner != *module && !is_own_folder(&owner, module) && !is_own_folder(module, &owner) {
                takes_from.insert(owner);
            }
        }
    }
    arrows
}

/// Returns what modules offer that others hold: the path by which it is offered, and the one where it is.
fn offered_by(files: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut offered = BTreeMap::new();
    for (module, code) in files {
        for (at, path) in paths_of(code, "crate::") {
            let statement = &code[code[..at].rfind(';').map_or(0, |end| end + 1)..at];
            if statement.contains("pub") && statement.contains("use crate::") {
                let name = path.rsplit("::").next().unwrap_or_default();
                offered.insert(format!("{module}::{name}"), path);
            }
        }
    }
    offered
}

/// Returns the module that holds what a path names.
fn owner_of(
    path: &str,
    files: &BTreeMap<String, String>,
    offered: &BTreeMap<String, String>,
) -> Option<String> {
    let ends = path.match_indices("::").map(|(at, _)| at).chain([path.len()]);
    let end = ends.filter(|end| files.contains_key(&path[..*end])).last()?;
    let name = path[end..].split("::").nth(1).unwrap_or_default();
    match offered.get(&format!("{}::{name}", &path[..end])) {
        Some(held) => owner_of(held, files, offered),
        None => Some(path[..end].to_owned()),
    }
}
