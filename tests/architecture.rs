//! Checks which part of the crate may name which other part, and which crates belong to one part.
//!
//! `src/ARCHITECTURE.md` draws the map. Comments and strings do not count as uses.

#[path = "architecture/circles.rs"]
mod circles;
#[path = "architecture/source.rs"]
mod source;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use circles::circles_in;
use source::{Source, collect, is_field, items_of, names_crate, paths_of, sources};

/// The layers that each layer may name, in the reading order of the diagram.
///
/// `telemetry`, `config` and `shutdown` are leaves: they name no layer. Layers that run (rather than compute) may
/// name them.
const MAY_USE: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("format", &["domain"]),
    ("exchange", &["domain", "format"]),
    ("store", &["domain", "telemetry"]),
    ("engine", &["domain", "format", "store", "telemetry"]),
    ("watch", &["domain", "engine", "telemetry"]),
    ("http", &["domain", "engine", "telemetry", "config", "shutdown"]),
    ("webhooks", &["domain", "format", "store", "engine", "http", "telemetry", "shutdown"]),
    ("telemetry", &[]),
    ("config", &[]),
    ("shutdown", &[]),
];

/// Layers that wire the others together: they may name every layer, and no layer may name them.
const ABOVE: &[&str] = &["service", "cli"];

/// Crates that only one layer may name, as they are spelled in code.
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
    ("clap_complete", "cli"),
    ("clap_mangen", "cli"),
    ("ureq", "webhooks"),
    ("tokio_rustls", "http"),
    ("listenfd", "cli"),
    ("sd_notify", "cli"),
    ("prometheus_client", "telemetry"),
];

/// Crates that `domain` must never name, because it is pure.
const IMPURE: &[&str] =
    &["tokio", "serde", "serde_json", "tracing", "std::fs", "std::net", "std::env", "std::process"];

/// A room and the sibling rooms that it may name.
type Room = (&'static str, &'static [&'static str]);

/// A folder with rules for its own rooms.
struct House {
    folder: &'static str,
    /// From the lowest to the highest.
    rooms: &'static [Room],
    /// Modules above the rooms, which may name every room.
    top: &'static [&'static str],
}

const GIT: House = House { folder: "store/git", rooms: GIT_ROOMS, top: &["mod", "worktree"] };

const REMOTE: House = House { folder: "store/remote", rooms: REMOTE_ROOMS, top: &["mod"] };

const ENGINE: House = House { folder: "engine", rooms: ENGINE_ROOMS, top: &["mod"] };

const HTTP: House = House { folder: "http", rooms: HTTP_ROOMS, top: &["mod", "admin", "fuzz", "testing"] };

const GIT_ROOMS: &[Room] = &[
    ("object", &[]),
    ("disk", &[]),
    ("index", &["object", "disk"]),
    ("repo", &["object", "disk"]),
    ("odb", &["object", "disk"]),
    ("packs", &["object", "disk", "repo", "odb"]),
    ("read", &["object", "disk", "repo", "packs", "odb"]),
    ("write", &["object", "disk", "repo", "packs", "odb", "read"]),
    ("worktree::scan", &["object", "disk", "index", "repo", "odb", "read"]),
    ("worktree::replace", &["object", "disk", "repo", "odb", "worktree::scan"]),
    (
        "worktree::apply",
        &["object", "disk", "index", "repo", "odb", "read", "worktree::scan", "worktree::replace"],
    ),
    ("maintenance", &["object", "disk", "repo", "packs", "odb", "read"]),
    (
        "journal",
        &[
            "object",
            "disk",
            "index",
            "repo",
            "packs",
            "odb",
            "read",
            "write",
            "worktree::scan",
            "worktree::replace",
            "worktree::apply",
            "maintenance",
        ],
    ),
];

const REMOTE_ROOMS: &[Room] = &[
    ("decision", &[]),
    ("error", &[]),
    ("merger", &[]),
    ("transport", &["error"]),
    ("link", &["decision", "error", "merger", "transport"]),
    ("journal", &["decision", "error", "link", "merger", "transport"]),
];

const ENGINE_ROOMS: &[Room] = &[
    ("metrics", &[]),
    ("memo", &[]),
    ("pacing", &[]),
    ("remote", &[]),
    ("unified", &[]),
    ("projection", &["memo", "pacing"]),
    ("layers", &["projection"]),
    ("submission", &["projection", "unified"]),
    ("signal", &["submission"]),
    ("refuse", &["signal", "submission"]),
    ("history", &["layers", "memo", "metrics", "pacing", "projection", "submission", "unified"]),
    ("mirror", &["layers", "memo", "projection", "signal"]),
    ("idempotency", &["mirror", "projection", "refuse", "signal", "submission"]),
    ("options", &["idempotency", "metrics", "mirror"]),
    ("plan", &["layers", "mirror", "options", "projection", "signal", "submission"]),
    ("writer", &["idempotency", "mirror", "options", "plan", "projection", "refuse", "signal", "submission"]),
    ("handle", &["idempotency", "signal", "submission"]),
    ("undo", &["handle", "history", "projection", "refuse", "submission"]),
];

/// The pages of `ui` call the API as a client does, and share the rules of the HTTP edge.
const HTTP_ROOMS: &[Room] = &[
    ("header", &[]),
    ("authorize", &[]),
    ("server", &["header"]),
    ("standard_webhooks", &[]),
    ("notice_secret", &["standard_webhooks"]),
    ("metrics", &["authorize"]),
    ("jsonapi", &["authorize", "header"]),
    ("browser", &["header", "jsonapi"]),
    ("budgets", &["jsonapi"]),
    ("reply", &["browser", "budgets", "header", "jsonapi"]),
    ("context", &["authorize", "browser", "metrics", "notice_secret"]),
    (
        "request",
        &["authorize", "browser", "budgets", "context", "header", "jsonapi", "metrics", "reply", "server"],
    ),
    ("min_revision", &["header", "jsonapi", "reply", "request"]),
    (
        "routes",
        &[
            "authorize",
            "budgets",
            "context",
            "header",
            "jsonapi",
            "metrics",
            "min_revision",
            "notice_secret",
            "reply",
            "request",
        ],
    ),
    ("ui", &["authorize", "browser", "jsonapi", "reply", "request", "routes"]),
    ("policy", &["authorize", "context", "server"]),
];

/// Maximum number of fields of a type: a type with more should be split.
const FIELDS_MAX: usize = 10;

/// Maximum number of files in a folder: a folder with more should be split into rooms.
const FILES_MAX: usize = 15;

/// Crates that only one file of their layer may name: the other files use plain numbers.
const OWNED_BY_A_FILE: &[(&str, &str)] = &[("prometheus_client", "telemetry/metrics/exposition.rs")];

/// Exceptions for single files: the file, the crate that it may name, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "http/routes/openapi.rs",
    "serde_yaml",
    "the OpenAPI document is YAML of our own, shown as JSON as well; no file of the repository is read",
)];

#[test]
fn every_use_follows_an_arrow() {
    let breaches = breaches_in(root());
    assert!(breaches.is_empty(), "against the arrows:\n{}", breaches.join("\n"));
}

#[test]
fn a_crate_of_one_file_is_named_nowhere_else() {
    let sources = sources(&root().join("src"));
    for (name, owner) in OWNED_BY_A_FILE {
        let naming = sources.iter().filter(|source| names_crate(&source.code, name));
        assert_eq!(naming.map(|source| source.name.as_str()).collect::<Vec<_>>(), [*owner]);
    }
}

/// Plants one breach of each kind in a copy of the source, because a test that can't fail proves nothing.
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
        let copy = planted(file, code);
        assert!(!breaches_in(copy.path()).is_empty(), "not found: {code}");
    }
}

#[test]
fn every_room_follows_its_arrows() {
    let breaches: Vec<_> =
        [GIT, REMOTE, ENGINE, HTTP].iter().flat_map(|house| house.breaches_in(root())).collect();
    assert!(breaches.is_empty(), "against the arrows:\n{}", breaches.join("\n"));
}

#[test]
fn no_two_rooms_name_each_other() {
    for House { rooms, .. } in [GIT, REMOTE, ENGINE, HTTP] {
        for (at, (room, named)) in rooms.iter().enumerate() {
            let is_below = |name: &&str| rooms[..at].iter().any(|(below, _)| below == name);
            assert!(named.iter().all(is_below), "{room} names what is not below it");
        }
    }
}

#[test]
fn a_planted_breach_of_a_room_is_found_by_file_and_line() {
    let plants = [
        ("object/planted.rs", 1, "use crate::store::git::disk::barrier::Barrier;"),
        ("disk/planted.rs", 2, "/* a\n comment */ use crate::store::git::object::id::Oid;"),
        ("index/planted.rs", 3, "\nuse crate::store::git::{\n    odb::objects,\n    disk::lock,\n};"),
        ("repo/planted.rs", 1, "use crate::{store::{StoreError, git::packs::store::Packs}, domain::Actor};"),
        ("packs/planted.rs", 1, "fn f() { crate::store::git::maintenance::packing::repack::merge(); }"),
        ("read/planted.rs", 1, "use super::super::write::append;"),
        ("read/archive/planted.rs", 1, "use super::super::super::write::append;"),
        ("read/mod.rs", 1, "use super::write::append;"),
        ("read/planted.rs", 2, "use super::objects;\nuse crate::store::git::GitJournal;"),
        ("read/planted.rs", 1, "use crate::store::git;"),
        ("write/planted.rs", 1, "use crate::store::git::worktree::apply::update;"),
        ("worktree/scan/planted.rs", 1, "use crate::store::git::worktree::{apply::update, scan::status};"),
        ("worktree/scan/planted.rs", 1, "use super::super::apply::update;"),
        ("worktree/apply/planted.rs", 1, "use crate::store::git::journal::GitJournal;"),
        ("attic/planted.rs", 1, "use crate::domain::Actor;"),
    ];
    let in_git = plants.map(|(file, line, code)| (GIT, file, line, code));
    let in_http = [
        ("ui/planted.rs", 1, "use crate::http::policy::Policy;"),
        ("ui/pages/planted.rs", 1, "use crate::http::{reply::Reply, server::Server};"),
        ("routes/planted.rs", 1, "use crate::http::ui::Ui;"),
        ("reply/planted.rs", 1, "use crate::http::request::call::Call;"),
        ("jsonapi/planted.rs", 1, "fn f() { crate::http::ui::answer(); }"),
        ("planted.rs", 1, ""),
    ]
    .map(|(file, line, code)| (HTTP, file, line, code));
    let in_engine = [
        ("mirror/planted.rs", 1, "use crate::engine::plan::Plan;"),
        ("projection/planted.rs", 1, "use crate::engine::{history::View, memo::Memo};"),
        ("writer/planted.rs", 2, "\nuse crate::engine::Entry;"),
    ]
    .map(|(file, line, code)| (ENGINE, file, line, code));
    for (house, file, line, code) in in_git.into_iter().chain(in_http).chain(in_engine) {
        let file = format!("src/{}/{file}", house.folder);
        let copy = planted(&file, code);
        let breaches = house.breaches_in(copy.path());
        let place = format!("{file}:{line}: ");
        assert!(breaches.len() == 1 && breaches[0].starts_with(&place), "{code}: {breaches:?}");
    }
}

#[test]
fn what_a_room_may_name_is_no_breach() {
    let code = "//! See [`write`](crate::store::git::write).\n\
        use crate::store::git::{disk::lock::{self, HeldLock}, object::id};\n\
        use crate::store::{StoreError, git::repo::refs};\n\
        pub(in crate::store::git) fn f() { super::write(); crate::store::write() }\n\
        mod tests { use super::*; }\n";
    let copy = planted("src/store/git/read/harmless.rs", code);
    assert_eq!(GIT.breaches_in(copy.path()), Vec::<String>::new());
}

#[test]
fn no_files_take_names_from_each_other() {
    assert_eq!(circles_in(root()), [""; 0]);
}

#[test]
fn a_planted_circle_is_found() {
    let copy = planted("src/engine/mod.rs", "pub(crate) use crate::engine::one::{One, two};");
    let files = [
        ("one.rs", "use crate::engine::memo::Memo;\nuse crate::http::Reply;"),
        ("memo.rs", "//! crate::http"),
        ("two.rs", "use crate::engine::One;"),
    ];
    let write = |name: &str, code: &str| {
        fs::write(copy.path().join("src/engine").join(name), code).expect("a file can be written");
    };
    files.iter().for_each(|(name, code)| write(name, code));
    assert_eq!(circles_in(copy.path()), [""; 0], "a folder and its files may know each other");
    write("memo.rs", "fn f() { crate::engine::two::g() }");
    assert_eq!(circles_in(copy.path()), ["engine::memo", "engine::one", "engine::two"]);
}

#[test]
fn no_type_of_the_git_store_has_its_methods_in_several_rooms() {
    let breaches = type_breaches_in(root());
    assert!(breaches.is_empty(), "in several rooms:\n{}", breaches.join("\n"));
}

#[test]
fn no_type_has_too_many_fields() {
    assert_eq!(wide_types_in(root()), [""; 0]);
}

#[test]
fn no_folder_has_too_many_files() {
    assert_eq!(full_folders_in(root()), [""; 0]);
}

#[test]
fn a_folder_with_too_many_files_is_found() {
    let copy = planted("src/http/file_0.rs", "");
    for n in 1..FILES_MAX {
        fs::write(copy.path().join(format!("src/http/file_{n}.rs")), "").expect("a file can be written");
    }
    assert_eq!(full_folders_in(copy.path()), [""; 0]);
    fs::write(copy.path().join("src/http/one_more.rs"), "").expect("a file can be written");
    assert_eq!(full_folders_in(copy.path()), ["src/http"]);
}

#[test]
fn a_type_that_is_too_large_is_found() {
    for (count, expected) in [(FIELDS_MAX, &[][..]), (FIELDS_MAX + 1, &["src/http/planted.rs: Large"])] {
        let field = |n| format!("    #[serde(default)]\n    pub(crate) field_{n}: Map<u8, Vec<u8>>,\n");
        let fields: String = (0..count).map(field).collect();
        let copy = planted("src/http/planted.rs", &format!("pub struct Large<'a> {{\n{fields}}}\n"));
        assert_eq!(wide_types_in(copy.path()), expected);
    }
    let copy = planted("src/store/git/read/planted.rs", "impl<'a> Reader<'a> {}");
    let other = copy.path().join("src/store/git/worktree/scan/planted.rs");
    fs::create_dir_all(other.parent().expect("a file stands in a folder")).expect("a folder can be made");
    fs::write(&other, "impl Reader<'_> {}\nimpl fmt::Debug for Pack {}").expect("a file can be written");
    assert_eq!(type_breaches_in(copy.path()), ["Reader has methods in read and worktree::scan"]);
}

#[test]
fn what_is_said_in_comments_and_strings_is_no_use() {
    let code = "//! See [`store`](crate::store) and git2::Repository.\n\
        /* use warp::Filter; /* nested */ use tokio::sync; */\n\
        const A: &str = \"use crate::http;\"; // crate::engine\n\
        const B: &str = r#\"crate::watch \" notify::Watcher\"#;\n\
        const C: char = '\"'; const D: &'static str = \"crate::cli\\\"crate::cli\";\n\
        use crate::domain::Key;\n\
        fn digit2() { my_git2::open() }\n";
    let copy = planted("src/domain/harmless.rs", code);
    assert_eq!(breaches_in(copy.path()), Vec::<String>::new());
}

/// A lint denies `unsafe` everywhere, but `#[expect]` could override it.
#[test]
fn what_is_unsafe_stands_in_one_module() {
    let sources = sources(&root().join("src"));
    let naming = sources.iter().filter(|source| source.code.contains("unsafe"));
    let found: Vec<_> = naming.map(|source| source.name.as_str()).collect();
    assert_eq!(found, ["memory.rs"], "each needs a reason and belongs into `memory`");
}

#[test]
fn every_exception_is_still_needed() {
    let sources = sources(&root().join("src"));
    for (file, what, why) in EXCEPTIONS {
        let is_needed = sources.iter().any(|source| source.name == *file && source.code.contains(what));
        assert!(is_needed, "{file} does not name {what} any more ({why})");
    }
}

/// The root folder of this crate.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Creates a crate with a single file.
fn planted(file: &str, code: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a temporary folder can be made");
    let file = copy.path().join(file);
    fs::create_dir_all(file.parent().expect("a file stands in a folder")).expect("a folder can be made");
    fs::write(file, code).expect("a file can be written");
    copy
}

impl House {
    /// Returns every use in a room that the rules forbid, as `file:line: path`. A room must name another room by its
    /// whole path, not through a re-export of the house or a chain of `super`.
    fn breaches_in(&self, root: &Path) -> Vec<String> {
        let mut breaches = Vec::new();
        for Source { name, mut code } in sources(&root.join("src").join(self.folder)) {
            // Code that only tests need is exempt.
            code.truncate(code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len()));
            let module = name.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
            let found = match self.rooms.iter().find(|(room, _)| is_in(&module, room)) {
                _ if module.split("::").any(|part| part == "tests") => Vec::new(),
                Some(room) => self.breaches_of_room(&code, &name, room),
                None if self.top.contains(&module.as_str()) => Vec::new(),
                None => vec![(0, "stands in no room".to_owned())],
            };
            let line = |at: usize| code[..at].matches('\n').count() + 1;
            let describe = |(at, what)| format!("src/{}/{name}:{}: {what}", self.folder, line(at));
            breaches.extend(found.into_iter().map(describe));
        }
        breaches
    }

    /// Returns what one file of a room names against the rules, and at which offset.
    fn breaches_of_room(&self, code: &str, file: &str, (room, allowed): &Room) -> Vec<(usize, String)> {
        let house = self.folder.replace('/', "::");
        let last = house.rsplit("::").next().unwrap_or_default();
        let allowed: Vec<&str> = allowed.iter().chain([room]).copied().collect();
        let mut paths = paths_of(code, "crate::");
        paths.retain(|(at, path)| match path.strip_prefix(&house) {
            // `pub(in crate::store::git)` is a visibility and names nothing.
            Some("") => !code[*at..].starts_with(&format!("{last})")),
            Some(rest) if rest.starts_with("::") => !allowed.iter().any(|room| is_in(&rest[2..], room)),
            Some(_) | None => false,
        });
        let is_top = file.trim_end_matches("/mod.rs") == room.replace("::", "/");
        let chain = if is_top { "super::" } else { "super::super::" };
        let leaving = code.match_indices(chain).filter(|(at, _)| !code[at + chain.len()..].starts_with('*'));
        paths.extend(leaving.map(|(at, _)| (at, "leaves the room by `super`".to_owned())));
        paths
    }
}

/// Returns every folder of `src` with too many files.
fn full_folders_in(root: &Path) -> Vec<String> {
    let (mut files, mut sizes) = (Vec::new(), BTreeMap::<PathBuf, usize>::new());
    collect(&root.join("src"), &mut files);
    for file in files {
        *sizes.entry(file.parent().expect("a file stands in a folder").to_owned()).or_default() += 1;
    }
    sizes.retain(|_, len| *len > FILES_MAX);
    let name = |folder: &PathBuf| {
        folder.strip_prefix(root).expect("folders stand below the root").display().to_string()
    };
    sizes.keys().map(name).collect()
}

/// Returns every type with too many fields, as `file: name`.
fn wide_types_in(root: &Path) -> Vec<String> {
    let mut wide = Vec::new();
    for Source { name, code } in sources(&root.join("src")) {
        for (kind, head, body) in items_of(&code) {
            if kind == "struct" && body.lines().filter(|line| is_field(line)).count() > FIELDS_MAX {
                wide.push(format!("src/{name}: {head}"));
            }
        }
    }
    wide
}

/// Returns every type of `store/git` that has methods in several rooms.
fn type_breaches_in(root: &Path) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut homes: BTreeMap<String, &str> = BTreeMap::new();
    for Source { name, code } in sources(&root.join("src/store/git")) {
        let module = name.trim_end_matches(".rs").replace('/', "::");
        let Some((room, _)) = GIT.rooms.iter().find(|(room, _)| is_in(&module, room)) else { continue };
        for (kind, head, _) in items_of(&code) {
            if kind == "impl" && *homes.entry(head.clone()).or_insert(room) != *room {
                breaches.push(format!("{head} has methods in {} and {room}", homes[&head]));
            }
        }
    }
    breaches
}

/// Reports whether a module is the room or lies inside it.
fn is_in(module: &str, room: &str) -> bool {
    module.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns every use in the crate at `root` that the rules forbid, as `file: use`.
fn breaches_in(root: &Path) -> Vec<String> {
    let mut breaches = Vec::new();
    for Source { name, code } in sources(&root.join("src")) {
        let own = name.split(['/', '.']).next().unwrap_or_default();
        let Some((layer, allowed)) = MAY_USE.iter().find(|(layer, _)| *layer == own) else { continue };
        let mut found: Vec<_> = named_layers(&code).into_iter().filter(|other| other != layer).collect();
        found.retain(|other| !allowed.contains(&other.as_str()));
        found.extend(foreign_crates(&code, layer));
        found.retain(|other| !excepted(&name, other, &code));
        breaches.extend(found.into_iter().map(|what| format!("src/{name}: {what}")));
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

/// Returns the layers that code names through the crate's root.
fn named_layers(code: &str) -> Vec<String> {
    let layers: Vec<_> = MAY_USE.iter().map(|(layer, _)| *layer).chain(ABOVE.iter().copied()).collect();
    let paths = ["crate::", "super::super::"].into_iter().flat_map(|root| paths_of(code, root));
    let first = |path: String| path.split("::").next().unwrap_or_default().to_owned();
    let mut named: Vec<_> =
        paths.map(|(_, path)| first(path)).filter(|name| layers.contains(&name.as_str())).collect();
    named.sort();
    named.dedup();
    named
}

/// Returns the crates that code names although its layer does not own them.
fn foreign_crates(code: &str, layer: &str) -> Vec<String> {
    let owned = OWNED.iter().filter(|(_, owner)| *owner != layer).map(|(name, _)| *name);
    let impure = IMPURE.iter().copied().filter(|_| layer == "domain");
    owned.chain(impure).filter(|name| names_crate(code, name)).map(str::to_owned).collect()
}
