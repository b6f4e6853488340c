//! Hints about files that look like collection files but are not read.

use std::fs;
use std::path::Path;

use crate::domain::file_name;

/// Returns why a file that looks like a collection file is not read; `name` is its path inside the folder.
pub(crate) fn hint(name: &str) -> Option<&'static str> {
    let (is_below, file) = name.rsplit_once('/').map_or((false, name), |(_, file)| (true, file));
    let small = file.to_ascii_lowercase();
    let is_meant = small.contains(".yaml") || small.contains(".yml");
    if !is_meant || file.starts_with('.') || file.ends_with('~') {
        return None;
    }
    match (file_name::split(file), file_name::split(&small)) {
        (_, Some(_)) if is_below => {
            Some("only files in the folder itself are read, not those of a folder below")
        }
        (Some(_), _) => None,
        (None, Some(_)) => Some("rename it to end in `.yaml`, in lower case"),
        (None, None) => Some("rename it to end in `.yaml`"),
    }
}

/// Returns the paths of all files in a folder and its subfolders, without hidden folders and links.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    collect(folder, "", &mut names);
    names.sort();
    names
}

fn collect(folder: &Path, prefix: &str, names: &mut Vec<String>) {
    // Unreadable entries have no hint; reading the collections reports them.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (Ok(name), Ok(file_type)) = (entry.file_name().into_string(), entry.file_type()) else {
            continue;
        };
        if file_type.is_dir() && !name.starts_with('.') {
            collect(&entry.path(), &format!("{prefix}{name}/"), names);
        } else if file_type.is_file() {
            names.push(format!("{prefix}{name}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_collection_has_a_hint() {
        for name in ["NEWS.YAML", "news.Yml", "news.yaml.txt", "news.yml.orig", "sub/inner.yaml", "a/b/c.YML"]
        {
            assert!(hint(name).is_some(), "{name}");
        }
        for name in ["news.yaml", "news.yml", "README.md", "news.yaml~", ".news.yaml.swp", "sub/README.md"] {
            assert_eq!(hint(name), None, "{name}");
        }
    }
}
