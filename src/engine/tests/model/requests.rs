//! Requests of programs over the API, and their expected outcomes.

use crate::domain::Kind;
use crate::engine::tests::model::plain::{differing, head, names, work_tree};
use crate::engine::tests::model::*;
use crate::store::memory::InjectedFault;

/// The expected outcome of a submission, as far as the last quiet moment determines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Granted,
    Unchanged,
    Refused,
}

impl Story {
    /// Submits a request, and compares the answer with the expected outcome.
    pub(crate) fn ask(&mut self) {
        let (id, requests) = self.requests();
        let fate = self.fate(&requests);
        let answer = self.submit(&id, requests.clone());
        self.note(&format!("    {fate:?}"));
        let found = match &answer {
            Ok(written) if is_unchanged(written) => Fate::Unchanged,
            Ok(_) => Fate::Granted,
            Err(_) => Fate::Refused,
        };
        assert_eq!(found, fate, "{answer:?}\n{}", self.story());
        self.asked.insert(id.clone(), if fate == Fate::Granted { Commits::One } else { Commits::None });
        if let (Fate::Granted, Ok(written)) = (fate, answer) {
            let log = self.journal.log();
            assert_eq!(written.revision, log.first().map(|commit| commit.revision), "{}", self.story());
            assert!(log[0].message.contains(&id), "the commit is not on the branch\n{}", self.story());
            self.is_written(&requests);
        }
    }

    /// Submits a request while something fails, and compares the answer with the possible outcomes.
    pub(crate) fn ask_and_fail(&mut self) {
        let fault = match self.rng.u32(..5) {
            0 => InjectedFault::BeforeTheBranch,
            1 => InjectedFault::AfterTheBranch,
            2 => InjectedFault::Locked,
            3 => InjectedFault::DiskFull,
            _ => self.race(),
        };
        self.note(&format!("(to come: {fault:?})"));
        self.journal.fail_next(fault.clone());
        let (id, requests) = self.requests();
        let fate = self.fate(&requests);
        let answer = self.submit(&id, requests.clone());
        let is_left = self.journal.forget_faults() > 0;
        assert_eq!(is_left, fate != Fate::Granted, "{answer:?}\n{}", self.story());
        if is_left {
            self.asked.insert(id, Commits::None);
            return;
        }
        self.quiet.has_moved = true;
        let commits = match &fault {
            InjectedFault::BeforeTheBranch | InjectedFault::Locked | InjectedFault::DiskFull => Commits::None,
            InjectedFault::AfterTheBranch => Commits::AtMostOne,
            InjectedFault::Saved(..) => unreachable!("hands save at any time, not only then"),
            InjectedFault::Race(files) | InjectedFault::BusyRace(files) => {
                let files = files.iter().map(|(name, text)| (name.clone(), text.clone().expect("content")));
                self.hands.files.extend(files);
                match &answer {
                    Ok(written) if !is_unchanged(written) => Commits::One,
                    Ok(_) | Err(_) => Commits::None,
                }
            }
        };
        let is_race = matches!(fault, InjectedFault::Race(_));
        assert!(answer.is_err() || is_race, "{fault:?} is acknowledged: {answer:?}\n{}", self.story());
        if commits != Commits::None {
            self.is_written(&requests);
        }
        self.asked.insert(id, commits);
    }

    /// Lets several programs and a person act at once, in undefined order.
    pub(crate) fn crowd(&mut self) {
        self.note("(all at once)");
        let asked: Vec<_> = (0..self.rng.usize(2..6)).map(|_| self.requests()).collect();
        let saves = if self.hands.is_here { self.rng.usize(..3) } else { 0 };
        // Whether the first of two saves of one file was seen is undefined, so each file is saved once.
        let saved: BTreeMap<_, _> = (0..saves).map(|_| (self.file(), self.text())).collect();
        let is_committing = self.rng.bool();
        for (name, text) in &saved {
            self.note(&format!("save {name}: {text:?}, commit: {is_committing}"));
        }
        let (journal, running) = (self.journal.clone(), self.running.as_ref().expect("the engine runs"));
        let answers = thread::scope(|scope| {
            scope.spawn(|| {
                for (name, text) in &saved {
                    if is_committing {
                        commit(&journal, name, text);
                        running.notice(Hint::Branch);
                    } else {
                        journal.save(name, text.as_str());
                        running.notice(Hint::Files(vec![name.clone()]));
                    }
                }
            });
            let ask = |(id, requests): &(String, Vec<ConditionalCommand>)| {
                let submission = submission(id, requests.clone());
                scope.spawn(move || block_on(running.engine.handle.submit(submission)))
            };
            let asking: Vec<_> = asked.iter().map(ask).collect();
            asking.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        for ((id, _), answer) in asked.iter().zip(answers) {
            let is_made = answer.as_ref().is_ok_and(|written| !is_unchanged(written));
            self.note(&format!("    {id}: {}", if is_made { "made" } else { "not made" }));
            self.asked.insert(id.clone(), if is_made { Commits::One } else { Commits::None });
        }
        self.running().notice(Hint::Everything);
        self.running().settled();
        let keys: Vec<_> = asked
            .iter()
            .flat_map(|(_, requests)| requests.iter().map(|request| request.command.key().to_string()))
            .collect();
        let touched =
            |name: &String| keys.iter().any(|key| names(key).contains(name)) || saved.contains_key(name);
        // Whatever the order was, untouched files are as they were.
        let now = work_tree(&self.journal);
        let strays: Vec<_> =
            differing(&now, &self.hands.files).into_iter().filter(|it| !touched(it)).collect();
        assert!(strays.is_empty(), "{strays:?} changed\n{}", self.story());
        let unsaved = |name: &String| self.hands.files.get(name) == now.get(name) || saved.contains_key(name);
        let strays: Vec<_> =
            differing(&now, &head(&self.journal)).into_iter().filter(|it| !unsaved(it)).collect();
        assert!(strays.is_empty(), "{strays:?} differ from the head\n{}", self.story());
        self.hands.files = now;
        self.quiet.has_moved = true;
        self.hands.kept.retain(|(name, _)| !saved.contains_key(name));
        self.hands.kept.extend(saved);
    }

    /// Makes a commit by someone else, of a file without hand edits.
    fn race(&mut self) -> InjectedFault {
        let (name, text) = (self.file(), self.text());
        if differing(&head(&self.journal), &self.hands.files).contains(&name) {
            return InjectedFault::DiskFull;
        }
        InjectedFault::Race(vec![(name, Some(text))])
    }

    /// Returns one to three requests with a request id.
    pub(crate) fn requests(&mut self) -> (String, Vec<ConditionalCommand>) {
        let len = if self.rng.u32(..6) == 0 { self.rng.usize(2..4) } else { 1 };
        let mut keys = KEYS;
        self.rng.shuffle(&mut keys);
        let requests = keys[..len].iter().map(|key| self.request(key)).collect();
        self.counter += 1;
        (format!("story-{}-{}", self.seed, self.counter), requests)
    }

    fn request(&mut self, key: &str) -> ConditionalCommand {
        let name = self.fresh();
        let id = Key::parse(key).expect("a key");
        let shown = self.quiet.before.served.get(key).map(|served| served.name.clone());
        let command = match self.rng.u32(..10) {
            0..=2 => {
                let attributes = [("name".to_owned(), name.as_str().into())];
                Command::Create(Collection::new(id, Kind::Document, attributes).expect("a collection"))
            }
            3..=6 => rename(key, &name),
            7 => rename(key, &shown.unwrap_or(name)),
            _ => Command::Delete { key: id, kind: None },
        };
        let tag = self.running().snapshot().get(key).map(|entry| entry.tag());
        let condition = match self.rng.u32(..12) {
            0..=1 => Condition { if_match: tag.map(|tag| Tags::OneOf(vec![tag])), ..Condition::default() },
            2 => Condition { if_match: Some(Tags::OneOf(vec!["old".to_owned()])), ..Condition::default() },
            3 => Condition { if_none_match: Some(Tags::Any), ..Condition::default() },
            _ => Condition::default(),
        };
        ConditionalCommand { command, condition }
    }

    pub(crate) fn submit(
        &mut self,
        id: &str,
        requests: Vec<ConditionalCommand>,
    ) -> Result<SubmitAnswer, SubmitError> {
        let shown: Vec<_> = requests.iter().map(|request| shown(&request.command)).collect();
        let conditions: Vec<_> = requests.iter().map(|request| &request.condition).collect();
        self.note(&format!("{id}: {shown:?} {conditions:?}"));
        let answer = block_on(self.running().engine.handle.submit(submission(id, requests)));
        let short = match &answer {
            Ok(written) => format!("{:?}", written.revision),
            Err(error) => error.to_string(),
        };
        self.note(&format!("    {short}"));
        answer
    }

    fn fate(&self, requests: &[ConditionalCommand]) -> Fate {
        let fates: Vec<_> = requests.iter().map(|request| self.fate_of(request)).collect();
        if fates.contains(&Fate::Refused) {
            return Fate::Refused;
        }
        if fates.contains(&Fate::Granted) { Fate::Granted } else { Fate::Unchanged }
    }

    fn fate_of(&self, request: &ConditionalCommand) -> Fate {
        let key = request.command.key().as_str();
        let served = self.quiet.before.served.get(key);
        let is_wrong = names(key).iter().any(|name| self.quiet.before.problems.contains_key(name));
        let is_met = match &request.condition {
            Condition { if_match: Some(Tags::OneOf(tags)), .. } => served.is_some() && tags[0] != "old",
            Condition { if_none_match: Some(_), .. } => served.is_none(),
            Condition { .. } => true,
        };
        let is_granted = is_met
            && match &request.command {
                Command::Create(_) => served.is_none() && !is_wrong,
                Command::Update { .. } => served.is_some_and(|served| !served.stale),
                Command::Delete { .. } | Command::Restore(_) => served.is_some() || is_wrong,
            };
        if !is_granted {
            return Fate::Refused;
        }
        let is_so = matches!(&request.command, Command::Update { patch, .. }
            if served.is_some_and(|served| patch.attributes()[0].1.as_text() == Some(&served.name)));
        if is_so { Fate::Unchanged } else { Fate::Granted }
    }

    /// Records that the written files are what the head has: what a person had saved there is in the history.
    fn is_written(&mut self, requests: &[ConditionalCommand]) {
        if !self.hands.is_here {
            return;
        }
        let head = head(&self.journal);
        let granted = requests.iter().filter(|request| self.fate_of(request) == Fate::Granted);
        let keys: Vec<_> = granted.map(|request| request.command.key().to_string()).collect();
        for key in keys {
            for name in names(&key) {
                match head.get(&name) {
                    Some(text) => drop(self.hands.files.insert(name, text.clone())),
                    None => drop(self.hands.files.remove(&name)),
                }
            }
        }
    }
}

fn is_unchanged(written: &SubmitAnswer) -> bool {
    written.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unchanged(_)))
}

fn submission(id: &str, changes: Vec<ConditionalCommand>) -> Submission {
    let nothing = Submission::of(Actor::new("Ed", "ed@example.org"), []);
    Submission { changes, request_id: Some(id.to_owned()), ..nothing }
}

fn shown(command: &Command) -> String {
    match command {
        Command::Create(collection) => format!("create {} ({})", collection.key(), name_of(collection)),
        Command::Update { key, patch, .. } => format!("update {key} ({})", patch.attributes()[0].1),
        Command::Delete { key, .. } => format!("delete {key}"),
        Command::Restore(_) => unreachable!("no story restores"),
    }
}
