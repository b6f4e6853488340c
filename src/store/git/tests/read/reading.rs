//! Damaged, odd or oversized objects: only what needs them is affected, and the journal and the archive report the
//! same.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::domain::Revision;
use crate::store::git::GitArchive;
use crate::store::git::tests::support::*;
use crate::store::{
    Archive as _, BlobId, CommitChanges, FILE_BYTES_KEPT_MAX, Journal as _, StoreError, TreeEntry,
};

fn archive(repo: &Repo) -> GitArchive {
    archive_at(repo.path(), "collections")
}

/// Stores bytes as an object that git itself would not create.
fn hash_object(repo: &Repo, kind: &str, bytes: &[u8]) -> String {
    let path = repo.path().join("../object");
    fs::write(&path, bytes).unwrap();
    let path = path.to_str().unwrap();
    repo.git(&["hash-object", "-t", kind, "-w", "--literally", path]).trim().to_owned()
}

fn raw(id: &str) -> [u8; 20] {
    *id.parse::<Revision>().unwrap().as_bytes()
}

/// Puts a commit on `main` whose folder has exactly these entries: mode, name, id.
fn commit_entries(repo: &Repo, entries: &[(&str, &str, &str)]) -> Revision {
    let mut folder = Vec::new();
    for (mode, name, id) in entries {
        folder.extend(format!("{mode} {name}\0").into_bytes());
        folder.extend(raw(id));
    }
    let folder = hash_object(repo, "tree", &folder);
    let mut root = b"40000 collections\0".to_vec();
    root.extend(raw(&folder));
    commit_root(repo, &hash_object(repo, "tree", &root))
}

fn commit_root(repo: &Repo, root: &str) -> Revision {
    let id = repo.git(&["commit-tree", root, "-m", "Made"]);
    repo.git(&["update-ref", "refs/heads/main", id.trim()]);
    id.trim().parse().unwrap()
}

fn blob(repo: &Repo, text: &str) -> String {
    hash_object(repo, "blob", text.as_bytes())
}

fn object_file(repo: &Repo, id: &str) -> PathBuf {
    let git_dir = repo.git(&["rev-parse", "--absolute-git-dir"]);
    Path::new(git_dir.trim()).join("objects").join(&id[..2]).join(&id[2..])
}

/// Replaces a file that git made read-only.
fn overwrite(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Returns what the folder contains according to the journal and the archive, which must agree.
#[track_caller]
fn files(repo: &Repo, revision: Revision) -> Vec<(String, TreeEntry)> {
    let live = repo.open_to_read().commits().changes(None, Some(revision)).unwrap();
    let live: Vec<_> = live.into_iter().map(|change| (change.name, change.after.unwrap())).collect();
    let past = archive(repo).files(revision, &|_| true).unwrap();
    assert_eq!(live, past, "what is served is what is shown of the past");
    let changes = steps(repo, revision).pop().unwrap().changes;
    let changes: Vec<_> = changes.into_iter().map(|change| (change.name, change.after.unwrap())).collect();
    assert_eq!(past, changes, "and what the history tells");
    past
}

fn steps(repo: &Repo, head: Revision) -> Vec<CommitChanges> {
    let archive = archive(repo);
    let line = archive.first_parents(head, &|_| false).unwrap().revisions;
    let seen = Mutex::new(vec![None; line.len()]);
    archive.commit_changes(&line, &|index, step| seen.lock().unwrap()[index] = Some(step)).unwrap();
    seen.into_inner().unwrap().into_iter().map(Option::unwrap).collect()
}

/// Returns what the journal and the archive read of a content, which must agree.
fn content(repo: &Repo, id: &str) -> Result<Vec<u8>, StoreError> {
    let id = BlobId::new(raw(id));
    let found = Mutex::new(Vec::new());
    let take = |_: usize, content: Result<&[u8], StoreError>| {
        found.lock().unwrap().push(content.map(<[u8]>::to_vec));
    };
    repo.open_to_read().commits().contents(&[id], &take).unwrap();
    archive(repo).contents(&[id], &take).unwrap();
    let [live, past] = found.into_inner().unwrap().try_into().unwrap();
    match (&live, &past) {
        (Ok(live), Ok(past)) => assert_eq!(live, past),
        (Err(live), Err(past)) => assert_eq!(live.to_string(), past.to_string()),
        (live, past) => panic!("{live:?} and {past:?}"),
    }
    live
}

#[test]
fn a_file_is_what_git_takes_for_one_live_and_in_the_past() {
    let repo = Repo::bare();
    let id = blob(&repo, "1\n");
    let modes = ["100600", "100640", "100644", "100664", "100755", "0100644"];
    let names: Vec<_> = (0..modes.len()).map(|at| format!("f{at}.yaml")).collect();
    let entries: Vec<_> = modes.iter().zip(&names).map(|(mode, name)| (*mode, name.as_str(), &*id)).collect();
    let revision = commit_entries(&repo, &entries);
    let found = files(&repo, revision);
    let expected: Vec<_> =
        names.into_iter().map(|name| (name, TreeEntry::File(BlobId::new(raw(&id))))).collect();
    assert_eq!(found, expected);
}

#[test]
fn what_git_takes_for_a_submodule_is_one_and_harms_no_write() {
    let repo = Repo::bare();
    let id = blob(&repo, "1\n");
    let revision = commit_entries(&repo, &[("644", "a.yaml", &id), ("100644", "b.yaml", &id)]);
    assert_eq!(repo.git(&["ls-tree", "main:collections", "a.yaml"])[..6], *"160000");
    let found = files(&repo, revision);
    assert!(matches!(found[0].1, TreeEntry::Special(_)), "{found:?}");
    let mut journal = repo.open();
    append(&mut journal, &[set("b.yaml", "2\n"), set("c.yaml", "2\n")]);
    assert_eq!(repo.git(&["show", "main:collections/b.yaml"]), "2\n");
}

#[test]
fn a_tree_that_is_not_in_order_is_brought_into_order_by_the_next_write() {
    let repo = Repo::bare();
    let (one, two) = (blob(&repo, "1\n"), blob(&repo, "2\n"));
    let entries = [
        ("100644", "c.yaml", &*one),
        ("100644", "a.yaml", &*one),
        ("100644", "b.yaml", &*one),
        ("100644", "a.yaml", &*two),
    ];
    let revision = commit_entries(&repo, &entries);
    let names: Vec<_> = files(&repo, revision).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a.yaml", "b.yaml", "c.yaml"]);
    let mut journal = repo.open();
    append(&mut journal, &[set("b.yaml", "2\n"), set("b.yaml", "3\n"), set("d.yaml", "2\n")]);
    let listed = repo.git(&["ls-tree", "--name-only", "main:collections"]);
    assert_eq!(listed.lines().collect::<Vec<_>>(), ["a.yaml", "b.yaml", "c.yaml", "d.yaml"]);
    assert_eq!(repo.git(&["show", "main:collections/b.yaml"]), "3\n");
    assert_eq!(repo.git(&["show", "main~1:collections/b.yaml"]), "3\n");
    assert_eq!(repo.git(&["show", "main~2:collections/b.yaml"]), "2\n");
}

#[test]
fn a_loose_object_that_was_cut_short_is_an_error_at_once() {
    let repo = Repo::new();
    // Text that does not compress to nothing, so that there is something to truncate.
    let text: String = (0..200).map(|n| format!("k{n}: {}\n", n * 7919 % 1000)).collect();
    let first = repo.commit(&[("a.yaml", &text), ("b.yaml", "1\n")]);
    let second = repo.commit(&[("b.yaml", "2\n")]);
    let id = repo.git(&["rev-parse", "HEAD:collections/a.yaml"]).trim().to_owned();
    for name in ["HEAD:collections/a.yaml", "HEAD:collections", "HEAD^{tree}", "HEAD"] {
        let damaged = repo.git(&["rev-parse", name]).trim().to_owned();
        let file = object_file(&repo, &damaged);
        let whole = fs::read(&file).unwrap();
        for len in [0, 1, 2, 5, whole.len() / 2, whole.len() - 5, whole.len() - 1] {
            overwrite(&file, &whole[..len]);
            let found = content_of(&archive(&repo), BlobId::new(raw(&id)));
            assert_eq!(found.is_err(), damaged == id, "{name} cut to {len}");
            assert_eq!(
                archive(&repo).commit(second).is_err(),
                name == "HEAD",
                "{name} cut to {len}, and a commit"
            );
            assert_eq!(
                archive(&repo).files(second, &|_| true).is_err(),
                damaged != id,
                "{name} cut to {len}"
            );
            assert_eq!(archive(&repo).files(first, &|_| true).unwrap().len(), 2);
        }
        overwrite(&file, &whole);
    }
    assert_eq!(content(&repo, &id).unwrap(), text.as_bytes());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_can_t_be_read_is_named() {
    let repo = Repo::bare();
    let id = blob(&repo, "1\n");
    let path = object_file(&repo, &id);
    fs::remove_file(&path).unwrap();
    // Our own memory, of which nothing is at the beginning: an ordinary file that opens, and reading it fails.
    std::os::unix::fs::symlink("/proc/self/mem", &path).unwrap();
    let error = content(&repo, &id).unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()), "{error}");
}

#[test]
fn an_object_whose_length_or_kind_is_a_lie_is_damaged() {
    let repo = Repo::bare();
    let deflated = |text: &[u8]| {
        let mut stream = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut stream, text).unwrap();
        stream.finish().unwrap()
    };
    let id = blob(&repo, "hello\n");
    commit_entries(&repo, &[("100644", "a.yaml", &id)]);
    for lie in [
        &b"blob 5\0hello\n"[..],
        b"blob 7\0hello\n",
        b"blob 99999999999999999999999\0hello\n",
        b"blob 68719476736\0hello\n",
        b"tree 6\0hello\n",
        b"blob\0hello\n",
        b"blob 6 hello\n",
        b"blub 6\0hello\n",
    ] {
        overwrite(&object_file(&repo, &id), &deflated(lie));
        let found = content(&repo, &id);
        assert!(
            matches!(found, Err(StoreError::Damaged { .. })),
            "{:?}: {found:?}",
            String::from_utf8_lossy(lie)
        );
    }
}

#[test]
fn a_content_is_read_no_further_than_it_may_be_long() {
    let repo = Repo::bare();
    let huge = hash_object(&repo, "blob", &vec![0; 16 << 20]);
    commit_entries(&repo, &[("100644", "a.yaml", &huge)]);
    let cut = |repo: &Repo| content(repo, &huge).unwrap().len();
    assert_eq!(cut(&repo), FILE_BYTES_KEPT_MAX, "loose");
    repo.git(&["repack", "-adq"]);
    assert_eq!(cut(&repo), FILE_BYTES_KEPT_MAX, "packed");
}

#[test]
fn any_bit_of_a_packs_index_may_be_wrong_and_at_most_one_object_is_lost_by_it() {
    let repo = Repo::bare();
    let mut journal = repo.open();
    let texts: Vec<_> = (0..20).map(|n| (format!("c{n:02}.yaml"), format!("{n}\n"))).collect();
    let wanted: Vec<_> = texts.iter().map(|(name, text)| (name.as_str(), Some(text.as_str()))).collect();
    append(&mut journal, &[draft(&wanted)]);
    drop(journal);
    repo.git(&["repack", "-adq"]);
    let ids: Vec<BlobId> = texts.iter().map(|(_, text)| BlobId::of(text.as_bytes())).collect();
    let pack = repo.packs().pop().unwrap();
    let index = pack.with_extension("idx");
    let whole = fs::read(&index).unwrap();
    // Starts after the magic number and the version, which decide whether it is an index at all.
    for bit in (8 * 8..whole.len() * 8).step_by(7) {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        overwrite(&index, &flipped);
        let right = Mutex::new(0);
        archive(&repo)
            .contents(&ids, &|at, content| {
                let Ok(content) = content else { return };
                assert_eq!(content, texts[at].1.as_bytes(), "bit {bit}");
                *right.lock().unwrap() += 1;
            })
            .unwrap();
        assert!(right.into_inner().unwrap() >= ids.len() - 1, "bit {bit}");
    }
    for len in [0, 7, 8, 500, 1032, whole.len() - 21, whole.len() - 1] {
        overwrite(&index, &whole[..len]);
        assert!(archive(&repo).head().unwrap().is_some());
        let one = content_of(&archive(&repo), ids[0]);
        assert!(matches!(one, Err(StoreError::Damaged { .. })), "cut to {len}: {one:?}");
    }
    overwrite(&index, &whole);
    assert!(content_of(&archive(&repo), ids[0]).is_ok());
}

fn content_of(archive: &GitArchive, id: BlobId) -> Result<Vec<u8>, StoreError> {
    let found = Mutex::new(None);
    archive.contents(&[id], &|_, it| *found.lock().unwrap() = Some(it.map(<[u8]>::to_vec))).unwrap();
    found.into_inner().unwrap().unwrap()
}

#[test]
fn any_byte_of_a_pack_may_be_wrong_and_nothing_wrong_is_told() {
    let repo = Repo::bare();
    let mut journal = repo.open();
    for n in 0..4 {
        append(&mut journal, &[set("a.yaml", &format!("{n}\n")), set("b.yaml", &"b\n".repeat(40 + n))]);
    }
    drop(journal);
    repo.git(&["repack", "-adfq"]);
    let archive_of = |repo: &Repo| archive(repo);
    let head = repo.head();
    let good = archive_of(&repo).files(head, &|_| true).unwrap();
    let pack = repo.packs().pop().unwrap();
    let whole = fs::read(&pack).unwrap();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x55;
        overwrite(&pack, &flipped);
        let archive = archive_of(&repo);
        if let Ok(files) = archive.files(head, &|_| true) {
            assert_eq!(files, good, "byte {at}");
        }
        let mut next = Some(head);
        while let Some(revision) = next {
            next = archive.commit(revision).ok().flatten().and_then(|it| it.parents.first().copied());
        }
    }
}

#[test]
fn packs_of_every_kind_are_read_as_git_reads_them() {
    let repo = Repo::new();
    let mut text: Vec<String> = (0..400).map(|n| format!("line {n}\n")).collect();
    for n in 0..30 {
        text[n * 13 % 400] = format!("changed in {n}\n");
        text.rotate_left(n % 3);
        repo.commit(&[("a.yaml", &text.concat()), ("b.yaml", &format!("{n}\n"))]);
    }
    for arguments in [
        &["-c", "pack.indexVersion=1", "repack", "-adfq"][..],
        &["-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq", "--depth=30"],
        &["repack", "-adfq", "--depth=2"],
        &["-c", "pack.compression=0", "repack", "-adfq"],
        &["-c", "pack.indexVersion=2,0x40", "repack", "-adfq"],
    ] {
        repo.try_git(arguments);
        let (archive, head) = (archive(&repo), repo.head());
        let line = archive.first_parents(head, &|_| false).unwrap().revisions;
        assert_eq!(line.len(), 30);
        for revision in line {
            let files = archive.files(revision, &|_| true).unwrap();
            for (name, entry) in files {
                let TreeEntry::File(id) = entry else { panic!("{entry:?}") };
                let ours = String::from_utf8(content_of(&archive, id).unwrap()).unwrap();
                assert_eq!(
                    ours,
                    repo.git(&["show", &format!("{revision}:collections/{name}")]),
                    "{arguments:?}"
                );
            }
        }
    }
}

#[test]
fn a_commit_is_read_as_git_reads_it_and_what_fsck_refuses_is_told() {
    let repo = Repo::bare();
    let (one, two) = (blob(&repo, "reviewed\n"), blob(&repo, "evil\n"));
    let first = commit_entries(&repo, &[("100644", "a.yaml", &one)]);
    let reviewed = repo.git(&["rev-parse", "main^{tree}"]).trim().to_owned();
    commit_entries(&repo, &[("100644", "a.yaml", &two)]);
    let evil = repo.git(&["rev-parse", "main^{tree}"]).trim().to_owned();
    let who = "M <m@x> 1700000000 +0000";
    let twice = format!(
        "tree {reviewed}\nparent {first}\nauthor {who}\ntree {evil}\nparent {evil}\ncommitter {who}\n\nTwo trees\n"
    );
    let revision: Revision = hash_object(&repo, "commit", twice.as_bytes()).parse().unwrap();
    repo.git(&["update-ref", "refs/heads/main", &revision.to_string()]);
    assert!(repo.git_fails(&["fsck", "--strict"]).contains("missingCommitter"));
    assert_eq!(files(&repo, revision)[0].1, TreeEntry::File(BlobId::new(raw(&one))));
    let found = steps(&repo, revision);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].commit.parents, [first]);
    let problem = found[0].problem.as_deref().unwrap();
    assert!(problem.contains("committer"), "{problem}");
    assert_eq!(found[1].problem, None);
}

#[test]
fn a_commit_or_tree_that_is_lost_is_not_the_end_of_what_came_after_it() {
    for what in ["main~1", "main~1^{tree}", "main~1:collections"] {
        let repo = Repo::new();
        for n in 0..4 {
            repo.commit(&[("a.yaml", &format!("{n}\n")), ("b.yaml", "b\n")]);
        }
        let lost = repo.git(&["rev-parse", what]).trim().to_owned();
        let before = repo.git(&["rev-parse", "main~1"]).trim().to_owned();
        fs::remove_file(object_file(&repo, &lost)).unwrap();
        let found = steps(&repo, repo.head());
        let problem = found[0].problem.as_deref().unwrap();
        assert!(problem.contains(&lost) && problem.contains("missing"), "{problem}");
        assert!(found[0].changes.iter().any(|change| change.name == "a.yaml"));
        if what == "main~1" {
            assert_eq!(found.len(), 1, "nobody knows what came before it");
        } else {
            assert_eq!(found.len(), 4);
            assert_eq!(found[1].commit.revision.to_string(), before);
            assert!(found[1].changes.is_empty() && found[1].problem.is_some());
            assert_eq!(found[2].problem, None);
        }
        let mut walked = 0;
        repo.open_to_read()
            .commits()
            .walk(repo.head(), &mut |_, _| {
                walked += 1;
                true
            })
            .unwrap();
        assert_eq!(walked, found.len());
    }
}

#[test]
fn a_long_message_is_cut_and_says_so() {
    let repo = Repo::bare();
    let id = blob(&repo, "1\n");
    let tree = commit_entries(&repo, &[("100644", "a.yaml", &id)]);
    let tree = repo.git(&["rev-parse", &format!("{tree}^{{tree}}")]);
    let who = "M <m@x> 1700000000 +0000";
    let long =
        format!("tree {}\nauthor {who}\ncommitter {who}\n\nLong\n\n{}", tree.trim(), "ö".repeat(20 << 20));
    let revision: Revision = hash_object(&repo, "commit", long.as_bytes()).parse().unwrap();
    repo.git(&["update-ref", "refs/heads/main", &revision.to_string()]);
    let message = archive(&repo).commit(revision).unwrap().unwrap().message;
    assert!(message.len() < 2 << 20 && message.starts_with("Long\n\nöö"));
    assert!(message.ends_with("the rest of this message is left out]"));
}
