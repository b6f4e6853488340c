//! The arrows: which part of the crate may name which other part, and which crates one part owns.
//!
//! The map is drawn in `src/ARCHITECTURE.md`. What stands in comments and strings is no use of
//! anything, so the source is read without them.

use std::fs;
use std::path::{Path, PathBuf};

/// For each layer, the layers that it may name, in the reading order of the diagram.
///
/// `telemetry`, `config`, `shutdown` and `memory` are leaves: they name no layer, and the layers that run
/// (rather than compute) may name them.
const MAY_USE: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("format", &["domain"]),
    ("store", &["domain"]),
    ("engine", &["domain", "format", "store", "telemetry", "memory"]),
    ("watch", &["engine", "telemetry"]),
    ("http", &["domain", "engine", "telemetry", "config", "shutdown"]),
    ("telemetry", &[]),
    ("config", &[]),
    ("shutdown", &[]),
    ("memory", &[]),
];

/// Layers that wire the others together: they may name all of them, and none of them names these.
const ABOVE: &[&str] = &["service", "cli"];

/// Crates that only one layer may name, by the names that they have in code.
const OWNED: &[(&str, &str)] = &[
    ("git2", "store"),
    ("libgit2_sys", "store"),
    ("ssh_key", "store"),
    ("serde_yaml", "format"),
    ("yaml_edit", "format"),
    ("saphyr", "format"),
    ("saphyr_parser", "format"),
    ("notify", "watch"),
    ("warp", "http"),
    ("hyper", "http"),
    ("hyper_util", "http"),
];

/// Crates that the domain, which is pure, never names.
const IMPURE: &[&str] =
    &["tokio", "serde", "serde_json", "tracing", "std::fs", "std::net", "std::env", "std::process"];

/// What one file may name beyond its layer's arrows, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "src/http/routes/openapi.rs",
    "serde_yaml",
    "the OpenAPI document is YAML of our own, shown as JSON as well; no file of the repository is read",
)];

#[test]
fn every_use_follows_an_arrow() {
    let breaches = breaches_in(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(breaches.is_empty(), "against the arrows:\n{}", breaches.join("\n"));
}

/// Plants one breach of each sort in a copy of the source: a test that can't fail proves nothing.
#[test]
fn a_planted_breach_is_found() {
    let plants = [
        ("src/domain/planted.rs", "use crate::store::StoreError;"),
        ("src/domain/planted.rs", "use std::{fmt, fs};\nuse std::fs::File;"),
        ("src/domain/planted.rs", "use tokio::sync::mpsc;"),
        ("src/format/planted.rs", "use crate::{domain::Key, engine::Handle};"),
        ("src/store/planted.rs", "use crate::{\n    domain::Revision,\n    format::{self, Fault},\n};"),
        ("src/store/git/planted.rs", "use super::super::super::format::read;"),
        ("src/engine/planted.rs", "pub fn oid() -> git2::Oid { todo!() }"),
        ("src/engine/planted.rs", "use warp::Filter;"),
        ("src/watch/planted.rs", "fn f() { crate::store::open(); }"),
        ("src/http/planted.rs", "use crate::format::read;"),
        ("src/http/planted.rs", "use crate::format::policy;"),
        ("src/http/planted.rs", "use crate::service::Service;"),
        ("src/http/planted.rs", "use ::notify::Watcher;"),
        ("src/config.rs", "use crate::engine::Handle;"),
    ];
    for (file, code) in plants {
        let copy = tempfile::tempdir().expect("a temporary folder can be made");
        let planted = copy.path().join(file);
        fs::create_dir_all(planted.parent().expect("a file stands in a folder"))
            .expect("a folder can be made");
        fs::write(&planted, code).expect("a file can be written");
        assert!(!breaches_in(copy.path()).is_empty(), "not found: {code}");
    }
}

#[test]
fn what_is_said_in_comments_and_strings_is_no_use() {
    let copy = tempfile::tempdir().expect("a temporary folder can be made");
    let file = copy.path().join("src/domain/harmless.rs");
    fs::create_dir_all(file.parent().expect("a file stands in a folder")).expect("a folder can be made");
    let code = "//! See [`store`](crate::store) and git2::Repository.\n\
        /* use warp::Filter; /* nested */ use tokio::sync; */\n\
        const A: &str = \"use crate::http;\"; // crate::engine\n\
        const B: &str = r#\"crate::watch \" notify::Watcher\"#;\n\
        const C: char = '\"'; const D: &'static str = \"crate::cli\\\"crate::cli\";\n\
        use crate::domain::Key;\n\
        fn digit2() { my_git2::open() }\n";
    fs::write(file, code).expect("a file can be written");
    assert_eq!(breaches_in(copy.path()), Vec::<String>::new());
}

#[test]
fn every_exception_is_still_needed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (file, what, why) in EXCEPTIONS {
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        assert!(code_of(&text).contains(what), "{file} does not name {what} any more ({why})");
    }
}

/// Every use in the crate at `root` that no arrow allows, as `file: use`.
fn breaches_in(root: &Path) -> Vec<String> {
    let mut breaches = Vec::new();
    for (layer, allowed) in MAY_USE {
        for file in files_of(root, layer) {
            let name =
                file.strip_prefix(root).expect("files stand below the root").to_string_lossy().into_owned();
            let code = code_of(&fs::read_to_string(&file).expect("a source file can be read"));
            let mut found: Vec<_> = named_layers(&code).into_iter().filter(|other| other != layer).collect();
            found.retain(|other| !allowed.contains(&other.as_str()) && !excepted(&name, other, &code));
            let crates = foreign_crates(&code, layer);
            found.extend(crates.into_iter().filter(|other| !excepted(&name, other, &code)));
            breaches.extend(found.into_iter().map(|what| format!("{name}: {what}")));
        }
    }
    breaches
}

fn excepted(file: &str, layer: &str, code: &str) -> bool {
    EXCEPTIONS.iter().any(|(exception, path, _)| {
        let uses = |needle: &str| code.matches(needle).count();
        file == *exception
            && path.split("::").next() == Some(layer)
            && uses(&format!("crate::{path}")) == uses(&format!("crate::{layer}"))
    })
}

/// The layers that code names through the crate's root.
fn named_layers(code: &str) -> Vec<String> {
    let layers: Vec<_> = MAY_USE.iter().map(|(layer, _)| *layer).chain(ABOVE.iter().copied()).collect();
    let mut named = Vec::new();
    for root in ["crate::", "super::super::"] {
        for (at, _) in code.match_indices(root) {
            let rest = code[at + root.len()..].trim_start_matches("super::").trim_start();
            named.extend(first_names(rest).into_iter().filter(|name| layers.contains(&name.as_str())));
        }
    }
    named.sort();
    named.dedup();
    named
}

/// The first name of a path, or of each path in a group `{a::b, c::{d, e}}`.
fn first_names(rest: &str) -> Vec<String> {
    let name =
        |text: &str| text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(group) = rest.strip_prefix('{') else { return vec![name(rest)] };
    let mut names = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(name(&group[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(name(&group[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    names
}

/// The crates that code names and its layer does not own.
fn foreign_crates(code: &str, layer: &str) -> Vec<String> {
    let owned = OWNED.iter().filter(|(_, owner)| *owner != layer).map(|(name, _)| *name);
    let impure = IMPURE.iter().copied().filter(|_| layer == "domain");
    owned.chain(impure).filter(|name| names_crate(code, name)).map(str::to_owned).collect()
}

/// Whether code has the path `name::…`, or `name` as the whole of a use.
fn names_crate(code: &str, name: &str) -> bool {
    let part_of_a_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(name).any(|(at, _)| {
        let before = &code[..at];
        let after = &code[at + name.len()..];
        let whole = !before.ends_with(part_of_a_name) && !after.starts_with(part_of_a_name);
        let member =
            before.ends_with("::") && !before.trim_end_matches("::").ends_with([' ', '\n', '(', ';', '<']);
        let path = after.starts_with("::");
        let used = before.ends_with("use ") || before.ends_with("use ::");
        whole && !member && (path || used)
    })
}

fn files_of(root: &Path, layer: &str) -> Vec<PathBuf> {
    let mut files = vec![root.join("src").join(format!("{layer}.rs"))];
    collect(&root.join("src").join(layer), &mut files);
    files.retain(|file| file.is_file());
    files
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}

/// The code of a source file: comments and the insides of strings are blanks.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| literal(rest, &code));
        match skipped {
            Some(length) => {
                code.push(' ');
                rest = &rest[length..];
            }
            None => {
                code.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    code
}

/// The length of the comment that `rest` begins with; block comments nest.
fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    let mut at = rest.starts_with("/*").then_some(2)?;
    let mut depth = 1;
    while depth > 0 {
        let open = rest[at..].find("/*");
        let close = rest[at..].find("*/")?;
        match open {
            Some(open) if open < close => (depth, at) = (depth + 1, at + open + 2),
            Some(_) | None => (depth, at) = (depth - 1, at + close + 2),
        }
    }
    Some(at)
}

/// The length of the string or character that `rest` begins with, after what stands before it.
fn literal(rest: &str, before: &str) -> Option<usize> {
    let inside_a_name = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    if let Some(raw) = rest.strip_prefix('r').filter(|_| !inside_a_name || before.ends_with('b')) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let body = 1 + hashes + 1;
            return Some(rest[body..].find(&end).map_or(rest.len(), |at| body + at + end.len()));
        }
    }
    if rest.starts_with('"') {
        return Some(closing(rest, '"'));
    }
    let mut chars = rest.strip_prefix('\'')?.chars();
    let (first, second) = (chars.next()?, chars.next());
    // A quote that closes two characters on is a character; otherwise it begins a lifetime.
    (first == '\\' || second == Some('\'')).then(|| closing(rest, '\''))
}

/// Where a literal that begins with a quote ends, escapes left alone.
fn closing(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}
