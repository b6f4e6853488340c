//! Actions of people with an editor and with git.

use crate::engine::tests::model::plain::{differing, head, names, work_tree};
use crate::engine::tests::model::*;

fn mara() -> Actor {
    Actor::new("Mara", "mara@example.org")
}

impl Hands {
    /// Returns what the work tree must have under these names.
    fn saved<'a>(&'a self, names: &'a [String]) -> Vec<(&'a str, Option<&'a str>)> {
        names.iter().map(|name| (name.as_str(), self.files.get(name).map(String::as_str))).collect()
    }
}

impl Story {
    /// Saves, removes or renames a file.
    pub(crate) fn by_hand(&mut self, is_noticed: bool) {
        if !self.hands.is_here {
            return self.come_back(is_noticed);
        }
        let name = self.file();
        match self.rng.u32(..10) {
            0..=6 => {
                let text = self.text();
                self.save(&name, Some(text));
            }
            9 if self.options.mirror.settle_patience.is_zero() => {
                let [yaml, yml] = names(plain::key_of(&name));
                let (from, to) = if self.rng.bool() { (yaml, yml) } else { (yml, yaml) };
                if let Some(text) = self.hands.files.get(&from).cloned() {
                    self.save(&to, Some(text));
                    self.save(&from, None);
                    self.notice_if(is_noticed, Hint::Files(vec![to, from]));
                }
                return;
            }
            _ => self.save(&name, None),
        }
        self.notice_if(is_noticed, Hint::Files(vec![name]));
    }

    /// Moves the branch in one of git's ways.
    pub(crate) fn with_git(&mut self, is_noticed: bool) {
        if !self.hands.is_here {
            return self.come_back(is_noticed);
        }
        let has_moved = std::mem::replace(&mut self.quiet.has_moved, true);
        let log = self.journal.log();
        let parent = log.get(1).map(|commit| commit.revision);
        let is_clean = work_tree(&self.journal) == head(&self.journal);
        match self.rng.u32(..20) {
            0..=5 => self.commit_all(),
            6 => self.commit_one(),
            7 if parent.is_some() => self.amend(),
            8..=9 if parent.is_some() => self.reset_hard(parent),
            10 if parent.is_some() => {
                self.note("reset --soft");
                self.journal.move_branch(parent);
            }
            11..=12 if parent.is_some() => self.check_out_old(parent),
            // A push after a reset that was not noticed leaves the files to the person.
            13..=14 if !has_moved => self.push(),
            15 if is_clean => self.merge(),
            16 if is_clean && parent.is_some() => {
                self.note("another branch is checked out");
                self.journal.set_away(Some("the branch `other` is checked out"));
                self.hands.is_here = false;
            }
            17 if !is_clean => self.stash(is_noticed),
            18 => {
                self.note("a merge stands half-done");
                self.journal.set_half_done(Some("a merge"));
            }
            _ => {
                self.note("nothing stands half-done");
                self.journal.set_half_done(None);
            }
        }
        self.notice_if(is_noticed, Hint::Branch);
        if is_noticed {
            // Git changes files and index too, and the watcher reports that.
            let names = KEYS.iter().chain(&["bad name"]).flat_map(|key| names(key)).collect();
            self.notice(Hint::Files(names));
        }
    }

    /// Returns a name of a file, most often the usual one of a collection.
    pub(crate) fn file(&mut self) -> String {
        let [yaml, yml] = names(self.key());
        match self.rng.u32(..20) {
            0 => "bad name.yaml".to_owned(),
            // While a broken one of two files is not believed yet, the other one is served.
            1..=3 if self.options.mirror.settle_patience.is_zero() => yml,
            _ => yaml,
        }
    }

    pub(crate) fn text(&mut self) -> String {
        let name = self.fresh();
        match self.rng.u32(..10) {
            0 => String::new(),
            1 => format!("type: document\nname: [{name}\n"),
            2 => format!("type: document\nnmae: {name}\n"),
            3..=5 => format!("type: media\nname: {name}\n"),
            _ => format!("# by hand\ntype: document\nname: {name}\n"),
        }
    }

    fn save(&mut self, name: &str, text: Option<String>) {
        self.hands.kept.retain(|(it, _)| it != name);
        if let Some(text) = text {
            self.note(&format!("save {name}: {text:?}"));
            self.journal.save(name, text.as_str());
            self.hands.kept.push((name.to_owned(), text.clone()));
            self.hands.files.insert(name.to_owned(), text);
        } else {
            self.note(&format!("remove {name}"));
            self.journal.remove(name);
            self.hands.files.remove(name);
        }
    }

    fn commit_all(&mut self) {
        let names = differing(&head(&self.journal), &self.hands.files);
        self.commit_names(&names);
    }

    fn commit_one(&mut self) {
        let mut names = differing(&head(&self.journal), &self.hands.files);
        names.truncate(1);
        self.commit_names(&names);
    }

    fn commit_names(&mut self, names: &[String]) {
        self.note(&format!("commit {names:?}"));
        self.journal.commit_by_hand(&self.hands.saved(names), &mara(), "By hand", DateTime::UNIX_EPOCH);
    }

    fn amend(&mut self) {
        let names = differing(&head(&self.journal), &self.hands.files);
        self.note(&format!("commit --amend {names:?}"));
        self.journal.amend_by_hand(&self.hands.saved(&names), &mara(), "Amended", DateTime::UNIX_EPOCH);
    }

    fn reset_hard(&mut self, to: Option<Revision>) {
        self.note("reset --hard");
        self.journal.reset_hard(to);
        self.hands.files = work_tree(&self.journal);
        // The person has taken back what was saved.
        self.hands.kept.retain(|(name, text)| self.hands.files.get(name) == Some(text));
    }

    fn check_out_old(&mut self, parent: Option<Revision>) {
        let name = self.file();
        let text = plain::texts(self.journal.files_at(parent)).remove(&name);
        self.note(&format!("checkout HEAD~1 -- {name}"));
        self.save(&name, text);
    }

    /// Pushes into the repository: the branch moves, and files without hand edits follow.
    fn push(&mut self) {
        let (name, text) = (self.file(), self.text());
        self.note(&format!("push {name}: {text:?}"));
        if self.hands.files.get(&name) == head(&self.journal).get(&name) {
            self.hands.files.insert(name.clone(), text.clone());
        }
        self.quiet.is_behind = true;
        self.journal.push(&[(&name, Some(&text))], &mara(), "Pushed", DateTime::UNIX_EPOCH);
    }

    fn merge(&mut self) {
        let (name, text) = (self.file(), self.text());
        self.note(&format!("merge {name}: {text:?}"));
        let files = [(name.as_str(), Some(text.as_str()))];
        if self.journal.merge_by_hand(&files, &mara(), DateTime::UNIX_EPOCH).is_some() {
            self.hands.files.insert(name, text);
        }
    }

    fn stash(&mut self, is_noticed: bool) {
        self.note("stash");
        let (saved, kept) = (self.hands.files.clone(), self.hands.kept.clone());
        let head = head(&self.journal);
        let names = differing(&head, &saved);
        for name in &names {
            self.save(name, head.get(name).cloned());
        }
        self.notice_if(is_noticed, Hint::Files(names));
        if is_noticed {
            self.quiet();
        }
        self.note("stash pop");
        let names = differing(&head, &saved);
        for name in &names {
            self.save(name, saved.get(name).cloned());
        }
        self.notice_if(is_noticed, Hint::Files(names));
        self.hands.kept = kept;
    }

    fn come_back(&mut self, is_noticed: bool) {
        self.note("the branch is checked out again");
        self.journal.set_away(None);
        self.journal.reset_hard(self.journal.log().first().map(|commit| commit.revision));
        self.hands.is_here = true;
        self.hands.files = work_tree(&self.journal);
        assert_eq!(self.hands.files, head(&self.journal), "git checks everything out\n{}", self.story());
        self.notice_if(is_noticed, Hint::Branch);
    }

    fn notice_if(&mut self, is_noticed: bool, hint: Hint) {
        if is_noticed {
            self.notice(hint);
        }
    }
}
