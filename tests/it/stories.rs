//! Random stories: API writes, every way of saving, git commands, broken files, restarts and kills, interleaved by a
//! seed on the real program, a real repository and the real `git`.
//!
//! After each step the test waits for the service to be quiet and then checks what the design promises: the served
//! list agrees with a plain reading of the repository; every acknowledged write is in the history; everything that a
//! person saved is in the work tree or in git; `git diff` shows exactly the person's own changes.
//!
//! `COLLECTORY_STORIES` sets the number of stories, `COLLECTORY_STORY_SEED` replays one.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::{Value, json};

use crate::support::{DEADLINE, Repo, TestServer, document, eventually, story_seeds};

const STORIES_DEFAULT: u64 = 4;
const STEPS: usize = 24;
const KEYS: [&str; 5] = ["alpha", "bravo", "charlie", "delta", "echo"];

/// The stories differ only in their seed.
#[tokio::test]
async fn nothing_is_lost_whatever_people_and_programs_do_at_once() {
    for seed in story_seeds(STORIES_DEFAULT) {
        Story::new(seed).await.tell().await;
    }
}

/// The person's uncommitted changes in the work tree: content, or `None` for a deleted file.
type Saved = BTreeMap<String, Option<String>>;

struct Story {
    server: TestServer,
    rng: fastrand::Rng,
    seed: u64,
    script: String,
    saved: Saved,
    /// Request ids of acknowledged writes that made a commit.
    acknowledged: Vec<String>,
    /// Contents that the service committed for the person.
    committed_by_hand: Vec<String>,
    /// The contents that git has already shown, by blob.
    contents: RefCell<HashMap<String, String>>,
    counter: u64,
}

impl Story {
    async fn new(seed: u64) -> Self {
        let server = TestServer::start("small").await;
        server.repo().git(&["config", "gc.auto", "0"]);
        Self {
            server,
            rng: fastrand::Rng::with_seed(seed),
            seed,
            script: String::new(),
            saved: Saved::new(),
            acknowledged: Vec::new(),
            committed_by_hand: Vec::new(),
            contents: RefCell::default(),
            counter: 0,
        }
    }

    async fn tell(mut self) {
        for _ in 0..STEPS {
            self.step().await;
            self.check().await;
        }
        self.check_history();
        let status = self.server.repo().status();
        self.server.expect_git_status(&status);
    }

    fn note(&mut self, what: &str) {
        writeln!(self.script, "  {what}").expect("a string takes everything");
    }

    fn fresh(&mut self) -> String {
        self.counter += 1;
        format!("Version {}", self.counter)
    }

    fn key(&mut self) -> &'static str {
        KEYS[self.rng.usize(..KEYS.len())]
    }

    async fn step(&mut self) {
        match self.rng.u32(..100) {
            0..=34 => self.write_by_api().await,
            35..=64 => self.save(),
            65..=93 => self.run_git().await,
            94..=96 => {
                self.note("restart");
                self.server.restart().await;
            }
            _ => {
                self.note("kill -9 and start");
                self.server.kill();
                self.server.start_again().await;
            }
        }
    }

    async fn write_by_api(&mut self) {
        let key = self.key();
        let name = self.fresh();
        let id = format!("story-{}-{}", self.seed, self.counter);
        let before = self.repo().head();
        let (what, request) = match self.rng.u32(..10) {
            0..=2 => {
                let body = document(key, json!({"name": name, "directory": "content/new"}));
                ("create", self.server.request("POST", "/collections").document(&body))
            }
            3..=7 => {
                let body = document(key, json!({"name": name}));
                ("update", self.server.request("PATCH", &format!("/collections/{key}")).document(&body))
            }
            _ => ("delete", self.server.request("DELETE", &format!("/collections/{key}"))),
        };
        let good = request.header("X-Request-Id", &id).send().await.checked();
        let status = good.status();
        self.note(&format!("{what} {key} ({name}) over the API: {status}"));
        assert!([200, 201, 204, 404, 409].contains(&status), "{}\n{}", self.story(), good.json());
        if self.repo().head() != before {
            assert!(status < 300, "a refused write made a commit\n{}", self.story());
            self.acknowledged.push(id);
            for name in [format!("collections/{key}.yaml"), format!("collections/{key}.yml")] {
                if let Some(Some(content)) = self.saved.remove(&name) {
                    self.committed_by_hand.push(content);
                }
            }
        }
    }

    /// Saves a file in one of the ways that programs use.
    fn save(&mut self) {
        let key = self.key();
        let file = format!("collections/{key}.yaml");
        let content = match self.rng.u32(..10) {
            0..=6 => format!("# kept\ntype: document\nname: {}\ndirectory: by/hand\n", self.fresh()),
            7..=8 => format!("type: document\nname: [{}\n", self.fresh()),
            _ => String::new(),
        };
        let way = self.rng.u32(..6);
        let repo = self.repo();
        let path = repo.path().join(&file);
        match way {
            0 => repo.write(&file, &content),
            1 => repo.write_by_rename(&file, &content),
            2 => {
                let mut handle = std::fs::File::create(&path).expect("a file can be made");
                for piece in content.as_bytes().chunks(7) {
                    handle.write_all(piece).expect("a file can be written");
                }
            }
            3 => {
                std::fs::remove_file(&path).ok();
                repo.write(&file, &content);
            }
            4 => {
                repo.write(&format!("collections/.{key}.yaml.swp"), "swap");
                repo.write(&format!("{file}~"), "backup");
                repo.write_by_rename(&file, &content);
                repo.remove(&format!("collections/.{key}.yaml.swp"));
                repo.remove(&format!("{file}~"));
            }
            _ => {
                if std::fs::remove_file(&path).is_ok() {
                    self.note(&format!("remove {file}"));
                    self.saved.insert(file, None);
                    self.forget_what_is_committed();
                }
                return;
            }
        }
        self.note(&format!("save {file} (way {way}): {content:?}"));
        self.saved.insert(file, Some(content));
        self.forget_what_is_committed();
    }

    async fn run_git(&mut self) {
        if !self.repo().try_git(&["rev-parse", "--quiet", "--verify", "HEAD~1"]).status.success() {
            return self.commit(&["commit", "--quiet", "--allow-empty", "--message=By hand"]);
        }
        match self.rng.u32(..15) {
            0..=3 => self.commit(&["commit", "--quiet", "--message=By hand"]),
            4 => self.commit(&["commit", "--quiet", "--amend", "--no-edit"]),
            5 => {
                let tracked = self.repo().git(&["ls-files", "--", "collections"]);
                self.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
                let head = self.files_at_head();
                let survives =
                    |file: &String| !tracked.lines().any(|it| it == file) && !head.contains_key(file);
                self.saved.retain(|file, content| content.is_some() && survives(file));
            }
            6 => self.reset_keeping_files("--soft"),
            7 => self.reset_keeping_files("--mixed"),
            8 => {
                let file = format!("collections/{}.yaml", self.key());
                if self.try_git(&["checkout", "--quiet", "HEAD~1", "--", &file]) {
                    let content = self.repo().read(&file);
                    self.saved.insert(file, Some(content));
                    self.forget_what_is_committed();
                }
            }
            9 => self.away_and_back().await,
            10 => self.stash_and_pop().await,
            11 => self.when_clean(&["revert", "--no-edit", "HEAD"], &["revert", "--abort"]),
            12 => self.merge(),
            13 => {
                self.git(&["pack-refs", "--all"]);
                self.git(&["gc", "--quiet"]);
            }
            _ => self.push_into(),
        }
    }

    fn commit(&mut self, arguments: &[&str]) {
        self.git(&["add", "--all"]);
        if self.try_git(arguments) {
            self.saved.clear();
        }
        self.forget_what_is_committed();
    }

    /// Resets the branch and keeps the files. What differs from the new head is now the person's change.
    fn reset_keeping_files(&mut self, how: &str) {
        let before = self.work_tree();
        self.git(&["reset", "--quiet", how, "HEAD~1"]);
        let head = self.files_at_head();
        self.saved = changed(&head, &before);
    }

    async fn away_and_back(&mut self) {
        if !self.saved.is_empty() || !self.try_git(&["switch", "--quiet", "--create", "aside", "HEAD~1"]) {
            return;
        }
        let name = self.fresh();
        let id = format!("story-{}-{}", self.seed, self.counter);
        let before = self.repo().tip("main");
        let body = document("alpha", json!({"name": name}));
        let request = self.server.request("PATCH", "/collections/alpha").document(&body);
        let status = request.header("X-Request-Id", &id).send().await.checked().status();
        self.note(&format!("update alpha ({name}) while another branch is checked out: {status}"));
        if self.repo().tip("main") != before {
            self.acknowledged.push(id);
        }
        assert_eq!(self.repo().status(), "", "the other branch is not touched\n{}", self.story());
        self.git(&["switch", "--quiet", "main"]);
        self.git(&["branch", "--quiet", "-D", "aside"]);
    }

    async fn stash_and_pop(&mut self) {
        if self.saved.is_empty() {
            return;
        }
        let saved = self.saved.clone();
        if self.try_git(&["stash", "push", "--quiet", "--include-untracked"]) {
            self.saved.clear();
            self.check().await;
            self.git(&["stash", "pop", "--quiet"]);
            self.saved = saved;
        }
    }

    fn when_clean(&mut self, command: &[&str], undo: &[&str]) {
        if self.saved.is_empty() && !self.try_git(command) {
            self.try_git(undo);
        }
    }

    fn merge(&mut self) {
        if !self.saved.is_empty() || !self.try_git(&["switch", "--quiet", "--create", "side", "HEAD~1"]) {
            return;
        }
        let name = self.fresh();
        self.repo().write("collections/merged.yaml", &format!("type: media\nname: {name}\n"));
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message=On the side"]);
        self.git(&["switch", "--quiet", "main"]);
        self.when_clean(&["merge", "--quiet", "--no-edit", "side"], &["merge", "--abort"]);
        self.git(&["branch", "--quiet", "-D", "side"]);
    }

    /// Pushes from a clone into the branch that is checked out.
    fn push_into(&mut self) {
        let clone = self.server.folder().join(format!("clone-{}", self.counter));
        let path = clone.to_str().expect("temporary paths are UTF-8").to_owned();
        self.git(&["clone", "--quiet", ".", &path]);
        let clone = Repo::at(clone);
        clone.configure_user();
        let name = self.fresh();
        clone.write("collections/pushed.yaml", &format!("type: media\nname: {name}\n"));
        clone.git(&["add", "--all"]);
        clone.git(&["commit", "--quiet", "--message=Pushed"]);
        self.git(&["config", "receive.denyCurrentBranch", "ignore"]);
        clone.git(&["push", "--quiet", "origin", "HEAD:main"]);
        self.note("push collections/pushed.yaml");
    }

    /// Runs git, which may fail.
    fn try_git(&mut self, arguments: &[&str]) -> bool {
        let status = self.repo().git_when_free(arguments).status;
        self.note(&format!("git {}: {status}", arguments.join(" ")));
        status.success()
    }

    #[track_caller]
    fn git(&mut self, arguments: &[&str]) {
        assert!(self.try_git(arguments), "git {arguments:?} failed\n{}", self.story());
    }

    fn repo(&self) -> &Repo {
        self.server.repo()
    }

    fn story(&self) -> String {
        format!("seed {}:\n{}", self.seed, self.script)
    }

    fn forget_what_is_committed(&mut self) {
        let head = self.files_at_head();
        self.saved.retain(|file, content| content.as_ref() != head.get(file));
    }

    /// Returns the collection files of the head.
    fn files_at_head(&self) -> BTreeMap<String, String> {
        let listed = self.repo().git(&["ls-tree", "-r", "main", "--", "collections"]);
        let mut known = self.contents.borrow_mut();
        let mut content = |blob: &str| {
            let show = || String::from_utf8(self.repo().try_git(&["cat-file", "blob", blob]).stdout);
            let content = known.entry(blob.to_owned());
            content.or_insert_with(|| show().expect("files are UTF-8 here")).clone()
        };
        let file = |line: &str| {
            let (entry, file) = line.split_once('\t').expect("git writes a tab");
            (file.to_owned(), content(entry.rsplit(' ').next().expect("the id comes last")))
        };
        listed.lines().map(file).collect()
    }

    /// Returns the collection files of the work tree.
    fn work_tree(&self) -> BTreeMap<String, String> {
        let folder = self.repo().path().join("collections");
        let Ok(entries) = std::fs::read_dir(folder) else { return BTreeMap::new() };
        entries
            .filter_map(|entry| entry.expect("a folder can be listed").file_name().into_string().ok())
            .map(|name| (format!("collections/{name}"), self.repo().read(&format!("collections/{name}"))))
            .collect()
    }

    /// Waits until the service is quiet and everything is as promised.
    async fn check(&self) {
        let head = self.files_at_head();
        let mut expected = head.clone();
        for (file, content) in &self.saved {
            match content {
                Some(content) => expected.insert(file.clone(), content.clone()),
                None => expected.remove(file),
            };
        }
        let revision = self.repo().tip("main");
        let started = std::time::Instant::now();
        eventually("all is quiet", async || {
            let wrong = self.wrong(&expected, revision.as_deref()).await;
            let late = started.elapsed() * 2 > DEADLINE;
            assert!(
                wrong.is_none() || !late,
                "{}\n{}\n{}",
                wrong.unwrap_or_default(),
                self.story(),
                self.server.log()
            );
            wrong.is_none().then_some(())
        })
        .await;
        for content in self.committed_by_hand.iter().chain(self.saved.values().flatten()) {
            self.check_kept(content);
        }
    }

    /// Returns what does not agree yet with a plain reading of the repository.
    async fn wrong(&self, expected: &BTreeMap<String, String>, revision: Option<&str>) -> Option<String> {
        let list = self.server.list().await.is(200);
        if list.header_if_any("collectory-revision").as_deref() != revision {
            return Some(format!("{revision:?} is not served yet"));
        }
        let problems = self.server.get("/problems").await.is(200).ids();
        let data = list.data();
        let served: BTreeMap<&str, &Value> = data
            .as_array()
            .expect("a list")
            .iter()
            .map(|item| (item["id"].as_str().expect("an id"), item))
            .collect();
        let mut keys = Vec::new();
        for (file, content) in expected {
            let key =
                file.strip_prefix("collections/").and_then(|name| name.strip_suffix(".yaml")).expect("a key");
            keys.push(key);
            let item = served.get(key);
            match parsed(content) {
                Some(attributes) if item.is_none_or(|item| item["attributes"] != attributes) => {
                    return Some(format!("{key} should be {attributes} and is {item:?}"));
                }
                None if !problems.contains(file) => return Some(format!("{file} should be a problem")),
                None if item.is_some_and(|item| item["meta"]["problem"]["path"] != **file) => {
                    return Some(format!("{key} should carry its problem: {item:?}"));
                }
                Some(_)
                    if self.saved.contains_key(file)
                        != item.is_some_and(|item| item["meta"]["uncommitted"] == true) =>
                {
                    return Some(format!("{key} is marked wrongly: {item:?}"));
                }
                Some(_) | None => {}
            }
        }
        if let Some(extra) = served.keys().find(|key| !keys.contains(key)) {
            return Some(format!("{extra} should not be served"));
        }
        if self.work_tree() != *expected {
            return Some(format!("the work tree should be {expected:#?} and is {:#?}", self.work_tree()));
        }
        let differing = self.repo().git(&["diff", "--name-only", "HEAD"]);
        let stray: Vec<_> = differing.lines().filter(|file| !self.saved.contains_key(*file)).collect();
        (!stray.is_empty())
            .then(|| format!("git shows changes that nobody made: {stray:?}\n{}", self.repo().status()))
    }

    /// Asserts that content saved by a person is in the work tree, or that git has it.
    fn check_kept(&self, content: &str) {
        if self.work_tree().values().any(|file| file == content) {
            return;
        }
        let file = self.server.folder().join("content");
        std::fs::write(&file, content).expect("a file can be written");
        let id = self.repo().git(&["hash-object", file.to_str().expect("temporary paths are UTF-8")]);
        let known = self.repo().try_git(&["cat-file", "-e", &id]).status.success();
        assert!(known, "{content:?} is lost\n{}", self.story());
    }

    /// Asserts that every acknowledged write is in the history, even where a person has since moved the branch away
    /// from it.
    fn check_history(&self) {
        let log = self.repo().git(&[
            "log",
            "--all",
            "--reflog",
            "--format=%H %(trailers:key=Request-Id,valueonly,separator=%x2C)",
        ]);
        for id in &self.acknowledged {
            let found = log.lines().filter(|line| line.split(' ').nth(1) == Some(id)).count();
            // A person's amended or reverting commit repeats our message, so an id may occur more than once.
            assert!(found >= 1, "{id} was acknowledged and is not in the history\n{}", self.story());
        }
    }
}

/// Parses the attributes of a file with an independent reader; `None` for an invalid file.
fn parsed(content: &str) -> Option<Value> {
    let value: Value = serde_yaml::from_str(content).ok()?;
    (value["type"] == "document" || value["type"] == "media").then_some(value)
}

/// Returns the changes from one state of the files to another.
fn changed(from: &BTreeMap<String, String>, to: &BTreeMap<String, String>) -> Saved {
    let gone = from.keys().filter(|file| !to.contains_key(*file)).map(|file| (file.clone(), None));
    let new = to.iter().filter(|(file, content)| from.get(*file) != Some(content));
    gone.chain(new.map(|(file, content)| (file.clone(), Some(content.clone())))).collect()
}
