//! The steps of a random history.

use serde_json::{Value, json};

use super::oracle::Attributes;
use super::{KEYS, Proof};
use crate::support::document;

impl Proof {
    pub(super) async fn step(&mut self) {
        match self.rng.u32(..100) {
            0..=24 => self.write_by_api().await,
            25..=30 => self.write_over_a_hand_edit().await,
            31..=36 => self.write_many().await,
            37..=44 => self.change_and_undo().await,
            45..=66 => self.commit_by_hand(),
            67..=74 => self.merge(1),
            75..=79 => self.merge(2),
            80..=83 => self.merge_from_the_side(),
            84..=90 => self.rewrite(),
            91..=93 => {
                self.note("restart");
                self.follower.hang_up();
                self.server.restart().await;
            }
            94..=96 => {
                self.note("kill -9 and start");
                self.server.kill();
                self.follower.hang_up();
                self.server.start_again().await;
            }
            _ => self.kill_while_writing().await,
        }
    }

    /// Returns random attributes.
    fn attributes(&mut self) -> Attributes {
        let mut attributes = Attributes::new();
        attributes.insert("type".into(), json!("document"));
        attributes.insert("name".into(), json!(self.fresh()));
        if self.rng.bool() {
            attributes.insert("directory".into(), json!(format!("content/{}", self.rng.u32(..3))));
        }
        if self.rng.bool() {
            attributes.insert("recursive".into(), json!(self.rng.bool()));
        }
        if self.rng.u32(..4) == 0 {
            attributes.insert("x-note".into(), json!({"n": self.rng.u32(..3), "of": ["a", true]}));
        }
        attributes
    }

    /// Returns a file as a person may write it, and its meaning.
    fn content(&mut self) -> (String, Option<Attributes>) {
        let attributes = self.attributes();
        let mut lines: Vec<String> = attributes.iter().map(|(name, value)| self.line(name, value)).collect();
        self.rng.shuffle(&mut lines);
        if self.rng.bool() {
            lines.insert(self.rng.usize(..=lines.len()), format!("# {}", self.counter));
        }
        match self.rng.u32(..8) {
            0 => (format!("{}\nname: [{}\n", lines.join("\n"), self.counter), None),
            1 if self.rng.bool() => (String::new(), None),
            _ => (format!("{}\n", lines.join("\n")), Some(attributes)),
        }
    }

    /// Formats an attribute as YAML. JSON is YAML too; a plain text needs no quotes.
    fn line(&mut self, name: &str, value: &Value) -> String {
        match value.as_str() {
            Some(text) if self.rng.bool() => format!("{name}:  {text} # {text}"),
            Some(text) if self.rng.bool() => format!("{name}: '{text}'"),
            _ => format!("{name}: {value}"),
        }
    }

    /// Returns what is served for a key at the head.
    fn served(&mut self, key: &str) -> Option<Attributes> {
        let head = self.repo().head();
        let state = self.oracle.state_at(self.server.repo(), &head);
        state.served.get(key).map(|(_, attributes)| attributes.clone())
    }

    /// Records the meaning of the file that the service wrote for a key at the head.
    fn written(&mut self, key: &str, meaning: Attributes) {
        for ending in ["yaml", "yml"] {
            let name = format!("HEAD:collections/{key}.{ending}");
            let found = self.repo().try_git(&["rev-parse", "--quiet", "--verify", &name]);
            if found.status.success() {
                let blob = String::from_utf8(found.stdout).expect("an id is ASCII").trim().to_owned();
                return self.oracle.blob_means(blob, Some(meaning));
            }
        }
        panic!("{key} has no file\n{}", self.story());
    }

    /// Returns a random patch, and the attributes after it.
    fn patch(&mut self, key: &str) -> (Value, Attributes) {
        let mut after = self.served(key).unwrap_or_default();
        let mut patch = serde_json::Map::new();
        patch.insert("name".into(), json!(self.fresh()));
        for (name, value) in self.attributes() {
            if name != "type" && name != "name" {
                let value = if self.rng.bool() { value } else { Value::Null };
                patch.insert(name, value);
            }
        }
        for (name, value) in &patch {
            after.remove(name);
            if !value.is_null() {
                after.insert(name.clone(), value.clone());
            }
        }
        (Value::Object(patch), after)
    }

    pub(super) async fn create(&mut self, key: &str, attributes: Value) -> bool {
        let status = self.server.create(&document(key, attributes.clone())).await.checked().status();
        self.note(&format!("create {key} {attributes}: {status}"));
        assert!([201, 409].contains(&status), "{}", self.story());
        if status == 201 {
            let mut meaning: Attributes = serde_json::from_value(attributes).expect("an object");
            meaning.insert("type".into(), json!("document"));
            self.written(key, meaning);
        }
        status == 201
    }

    async fn update(&mut self, key: &str) -> bool {
        let (patch, after) = self.patch(key);
        let status = self.server.patch(key, patch.clone()).await.checked().status();
        self.note(&format!("update {key} {patch}: {status}"));
        assert!([200, 404, 409].contains(&status), "{}", self.story());
        if status == 200 {
            self.written(key, after);
        }
        status == 200
    }

    async fn write_by_api(&mut self) {
        let key = self.key();
        match self.rng.u32(..8) {
            0 => {
                let status = self.server.delete(key).await.checked().status();
                self.note(&format!("delete {key}: {status}"));
                assert!([204, 404].contains(&status), "{}", self.story());
            }
            _ if self.served(key).is_some() => drop(self.update(key).await),
            _ => {
                let attributes = json!(self.attributes());
                self.create(key, attributes).await;
            }
        }
    }

    /// Makes one request that results in one commit with several events.
    async fn write_many(&mut self) {
        let mut operations = Vec::new();
        let mut meanings = Vec::new();
        for key in KEYS {
            let (patch, after) = self.patch(key);
            if self.served(key).is_some() && self.rng.bool() {
                let data = document(key, patch)["data"].clone();
                operations.push(json!({"op": "update", "data": data}));
                meanings.push((key, after));
            }
        }
        if operations.is_empty() {
            return;
        }
        let status = self.server.operations(json!(operations)).await.checked().status();
        self.note(&format!("{} operations: {status}", operations.len()));
        assert!([200, 409].contains(&status), "{}", self.story());
        if status == 200 {
            for (key, meaning) in meanings {
                self.written(key, meaning);
            }
        }
    }

    /// Writes over a hand edit: the service commits the person's file, and then its own change.
    async fn write_over_a_hand_edit(&mut self) {
        let (key, (content, Some(meaning))) = (self.key(), self.content()) else { return };
        let file = self.file(key);
        self.oracle.means(content.as_bytes(), Some(meaning.clone()));
        self.repo().write_by_rename(&file, &content);
        self.note(&format!("save {file}: {content:?}"));
        let name = meaning["name"].clone();
        self.server.wait_for_attribute(key, "name", name).await;
        let after = self.fresh();
        self.server.patch(key, json!({"name": after})).await.is(200);
        self.note(&format!("update {key}: {after}"));
        let mut meaning = meaning;
        meaning.insert("name".into(), json!(after));
        self.written(key, meaning);
    }

    /// Returns the file that a key has or would get.
    fn file(&mut self, key: &str) -> String {
        let yml = format!("collections/{key}.yml");
        let yaml = format!("collections/{key}.yaml");
        if self.repo().has(&yml) && !self.repo().has(&yaml) { yml } else { yaml }
    }

    async fn change_and_undo(&mut self) {
        let key = self.key();
        let file = self.file(key);
        let bytes = |proof: &Self| proof.repo().try_git(&["show", &format!("HEAD:{file}")]).stdout;
        let before = bytes(self);
        let (changed, undone) = match (self.served(key).is_some(), self.rng.u32(..3)) {
            (true, 0) if !self.repo().has(&format!("collections/{key}.yml")) => {
                (self.server.delete(key).await.checked().status() == 204, 201)
            }
            (true, _) => (self.update(key).await, 201),
            (false, _) => {
                let attributes = json!(self.attributes());
                (self.create(key, attributes).await, 204)
            }
        };
        if !changed {
            return;
        }
        let event = self.server.newest_event(key).await;
        let undo = self.server.undo(&event).await;
        self.note(&format!("change {key} and undo it: {}", undo.status()));
        if undo.status() == 409 {
            let head = self.repo().head();
            assert!(self.oracle.is_broken(self.server.repo(), &head, key), "{}", self.story());
            return;
        }
        undo.is(undone);
        assert_eq!(String::from_utf8(bytes(self)), String::from_utf8(before), "{}", self.story());
    }

    /// Creates, changes, breaks or removes some files in the work tree.
    fn edit(&mut self, keys: &[&str]) {
        for key in keys {
            let mut file = self.file(key);
            if self.rng.u32(..8) == 0 {
                file = format!("collections/{key}.yml");
            }
            if self.rng.u32(..6) == 0 && self.repo().has(&file) {
                self.repo().remove(&file);
                self.note(&format!("remove {file}"));
                continue;
            }
            let (content, meaning) = self.content();
            self.oracle.means(content.as_bytes(), meaning);
            self.repo().write(&file, &content);
            self.note(&format!("write {file}: {content:?}"));
        }
    }

    fn some_keys(&mut self) -> Vec<&'static str> {
        let mut keys = KEYS.to_vec();
        self.rng.shuffle(&mut keys);
        keys.truncate(self.rng.usize(1..4));
        keys
    }

    fn commit_by_hand(&mut self) {
        let keys = self.some_keys();
        self.edit(&keys);
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message=By hand"]);
    }

    /// Merges this many branches at once; a conflict is abandoned.
    fn merge(&mut self, sides: usize) {
        let mut names = Vec::new();
        for side in 0..sides {
            let name = format!("side-{side}");
            self.git(&["switch", "--quiet", "--create", &name]);
            for _ in 0..self.rng.u32(1..3) {
                let key = KEYS[side * 2 + self.rng.usize(..2)];
                self.edit(&[key]);
                self.git(&["add", "--all"]);
                self.git(&["commit", "--quiet", "--allow-empty", "--message=On the side"]);
            }
            self.git(&["switch", "--quiet", "main"]);
            names.push(name);
        }
        if self.rng.bool() {
            self.commit_by_hand();
        }
        let mut command = vec!["merge", "--quiet", "--no-ff", "--no-edit"];
        command.extend(names.iter().map(String::as_str));
        if !self.try_git(&command) {
            self.git(&["reset", "--quiet", "--hard"]);
        }
        for name in &names {
            self.git(&["branch", "--quiet", "-D", name]);
        }
    }

    /// Merges as `git pull` in a clone and a push do: the former head of the branch becomes the second parent.
    fn merge_from_the_side(&mut self) {
        self.git(&["switch", "--quiet", "--create", "side"]);
        self.edit(&KEYS[..1]);
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message=On the side"]);
        self.git(&["switch", "--quiet", "main"]);
        self.edit(&KEYS[1..2]);
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message=On the branch"]);
        self.git(&["switch", "--quiet", "side"]);
        self.git(&["merge", "--quiet", "--no-ff", "--no-edit", "main"]);
        self.git(&["switch", "--quiet", "main"]);
        self.git(&["merge", "--quiet", "--ff-only", "side"]);
        self.git(&["branch", "--quiet", "-D", "side"]);
    }

    fn rewrite(&mut self) {
        let len: usize = self.repo().git(&["rev-list", "--first-parent", "--count", "HEAD"]).parse().unwrap();
        let back = format!("HEAD~{}", self.rng.usize(1..4).min(len - 1));
        match self.rng.u32(..4) {
            0 => self.git(&["reset", "--quiet", "--hard", &back]),
            1 => {
                let keys = self.some_keys();
                self.edit(&keys);
                self.git(&["add", "--all"]);
                self.git(&["commit", "--quiet", "--allow-empty", "--amend", "--message=Amended"]);
            }
            2 => {
                // The head commit is applied again after another one, with its original trailers.
                let old = self.repo().head();
                self.git(&["reset", "--quiet", "--hard", &back]);
                self.commit_by_hand();
                if !self.try_git(&["cherry-pick", "--allow-empty", "--keep-redundant-commits", &old]) {
                    self.try_git(&["cherry-pick", "--abort"]);
                }
            }
            _ => {
                if !self.try_git(&["revert", "--no-edit", "HEAD"]) {
                    self.try_git(&["revert", "--abort"]);
                }
            }
        }
    }

    /// Kills the service during a write: the change is kept or lost, but never half-done.
    async fn kill_while_writing(&mut self) {
        let key = self.key();
        if self.served(key).is_none() {
            return;
        }
        let (patch, after) = self.patch(key);
        let before = self.repo().head();
        let request = self.server.request("PATCH", &format!("/collections/{key}"));
        let request = request.document(&document(key, patch)).attempt();
        #[expect(clippy::disallowed_methods, reason = "the request goes on while the test does")]
        let request = tokio::spawn(request);
        for _ in 0..self.rng.u32(1..200) {
            tokio::task::yield_now().await;
        }
        self.server.kill();
        self.follower.hang_up();
        self.server.start_again().await;
        let answer = request.await.expect("a request does not panic").map(|answer| answer.checked().status());
        let kept = self.repo().head() != before;
        self.note(&format!("update {key} and kill -9: {answer:?}, kept: {kept}"));
        assert!(kept || answer != Some(200), "{}", self.story());
        if kept {
            self.written(key, after);
        }
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
}
