//! Rust source as far as the rules need it: its files, its code without comments and strings, and what that names.

use std::fs;
use std::path::{Path, PathBuf};

/// A file.
pub(crate) struct Source {
    /// The path relative to the folder that was searched.
    pub(crate) name: String,
    /// The code, as returned by [`code_of`].
    pub(crate) code: String,
}

/// Returns the source files below a folder, sorted by name.
pub(crate) fn sources(folder: &Path) -> Vec<Source> {
    let mut files = Vec::new();
    collect(folder, &mut files);
    files.sort();
    let source = |file: PathBuf| {
        let name = file.strip_prefix(folder).expect("files stand below the folder");
        let text = fs::read_to_string(&file).expect("a source file can be read");
        Source { name: name.to_string_lossy().into_owned(), code: code_of(&text) }
    };
    files.into_iter().map(source).collect()
}

/// Adds the source files below a folder.
pub(crate) fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}

/// Returns the code of a source file, with comments and string literals blanked out except for newlines.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| literal(rest, &code));
        match skipped {
            Some(length) => {
                code.push(' ');
                code.extend(rest[..length].chars().filter(|c| *c == '\n'));
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

/// Returns the length of the comment at the start of `rest`; block comments nest.
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

/// Returns the length of the string or character literal at the start of `rest`, which follows `before`.
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
    // A quote that closes two characters later is a character literal; otherwise it starts a lifetime.
    (first == '\\' || second == Some('\'')).then(|| closing(rest, '\''))
}

/// Returns the offset just past the literal's closing quote, skipping escaped characters.
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

/// Returns the structs and inherent `impl`s of code formatted by `cargo fmt`: the kind, the type's name, and the text
/// between the braces without blank lines.
pub(crate) fn items_of(code: &str) -> Vec<(&'static str, String, String)> {
    let mut items = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let bare = line
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub(super) ")
            .trim_start_matches("pub ");
        let Some((kind, rest)) =
            ["struct", "impl"].into_iter().find_map(|kind| Some((kind, bare.strip_prefix(kind)?)))
        else {
            continue;
        };
        let rest = rest.strip_prefix('<').map_or(rest, |it| it.split_once('>').map_or(it, |(_, rest)| rest));
        if !rest.starts_with(' ') || !rest.ends_with('{') && !rest.ends_with("{}") || rest.contains(" for ") {
            continue;
        }
        let rest = rest.trim_start();
        let name = &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())];
        let body = lines.by_ref().take_while(|line| *line != "}").filter(|line| !line.trim().is_empty());
        let body: String =
            if rest.ends_with("{}") { String::new() } else { body.map(|it| format!("\n{it}")).collect() };
        items.push((kind, name.to_owned(), format!("{body}\n")));
    }
    items
}

/// Reports whether a line of a struct, formatted by `cargo fmt`, begins a field.
pub(crate) fn is_field(line: &str) -> bool {
    let rest = line.strip_prefix("    ").unwrap_or(line);
    let rest = rest.strip_prefix("pub(crate) ").or(rest.strip_prefix("pub(super) ")).unwrap_or(rest);
    let rest = rest.strip_prefix("pub ").unwrap_or(rest);
    let name = &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())];
    !name.is_empty() && rest[name.len()..].starts_with(':')
}

/// Returns every path that code names after `root`, with groups such as `{a::b, c::{d, e}}` expanded, and the offset
/// of each path's last name.
pub(crate) fn paths_of(code: &str, root: &str) -> Vec<(usize, String)> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices(root) {
        let rest = &code[at + root.len()..];
        let supers = rest.len() - rest.trim_start_matches("super::").len();
        spell_out(code, at + root.len() + supers, "", &mut paths);
    }
    paths
}

/// Adds the paths that start with `before` and continue at offset `at`. Returns the offset where they end.
fn spell_out(code: &str, at: usize, before: &str, paths: &mut Vec<(usize, String)>) -> usize {
    let rest = &code[at..];
    if let Some(group) = rest.strip_prefix('{') {
        let mut at = code.len() - group.len();
        loop {
            at += code[at..].len() - code[at..].trim_start().len();
            if !code[at..].starts_with('}') {
                at = spell_out(code, at, before, paths);
            }
            at += code[at..].find([',', '}']).map_or(code.len() - at - 1, |more| more) + 1;
            if code[..at].ends_with('}') || at >= code.len() {
                return at;
            }
        }
    }
    let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let path = format!("{before}{}", &rest[..len]);
    let goes_on = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '{');
    match rest[len..].strip_prefix("::").filter(|rest| goes_on(rest)) {
        Some(more) => spell_out(code, code.len() - more.len(), &format!("{path}::"), paths),
        None => {
            paths.push((at, path));
            at + len
        }
    }
}

/// Reports whether code contains the path `name::…`, or a `use` of `name` alone.
pub(crate) fn names_crate(code: &str, name: &str) -> bool {
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
