//! A client that follows the stream, is disconnected again and again, and keeps what it received.

use std::net::SocketAddr;
use std::time::Instant;

use super::oracle::{ExpectedEvent, Oracle};
use crate::support::{DEADLINE, EventStream, Repo};

/// Starts at the first event, unless a `Last-Event-ID` overrides it.
const FROM_THE_FIRST: &str = "?filter[since]=2000-01-01T00:00:00Z";

/// A reader and the events that it has received.
#[derive(Debug, Default)]
pub(super) struct Follower {
    stream: Option<EventStream>,
    /// The last id.
    place: Option<String>,
    /// The ids of the events, oldest first; after a reset, those of the events that lead to it.
    heard: Vec<String>,
}

impl Follower {
    /// Disconnects; the next connection resumes after the last id.
    pub(super) fn hang_up(&mut self) {
        self.stream = None;
    }

    /// Receives up to `events_max` messages, not counting heartbeats, or until it is up to date.
    pub(super) fn listen(
        &mut self,
        address: SocketAddr,
        repo: &Repo,
        oracle: &mut Oracle,
        events_max: usize,
    ) -> Result<(), String> {
        let head = repo.head();
        for _ in 0..events_max {
            if oracle.events_after(repo, &head, self.place.as_deref()).is_some_and(|left| left.is_empty()) {
                return self.compare(&oracle.line(repo, &head), &oracle.expected(repo, &head));
            }
            self.hear(address, repo, oracle)?;
        }
        Ok(())
    }

    fn hear(&mut self, address: SocketAddr, repo: &Repo, oracle: &mut Oracle) -> Result<(), String> {
        let started = Instant::now();
        while started.elapsed() < DEADLINE {
            let place = self.place.clone();
            let open = || EventStream::open(address, FROM_THE_FIRST, place.as_deref());
            let Some(said) = self.stream.get_or_insert_with(open).next_message() else {
                return Err(format!("the stream ended by itself after {place:?}"));
            };
            match (said.event.as_str(), said.id) {
                ("head", None) => {}
                // Asking git about each heartbeat could take longer than the interval between them on a busy machine.
                ("head", Some(id)) if self.place.as_ref() == Some(&id) => {}
                ("head", Some(id)) => {
                    let left = oracle.events_after(repo, &id, self.place.as_deref());
                    if left.map_or(!self.descends(repo, &id), |left| !left.is_empty()) {
                        return Err(format!("a heartbeat says {id}, but {:?} was last", self.place));
                    }
                    self.place = Some(id);
                }
                ("reset", id) => return self.begin_again(repo, oracle, id),
                (_, Some(id)) => {
                    self.heard.push(id.clone());
                    self.place = Some(id);
                    return Ok(());
                }
                (event, None) => return Err(format!("`{event}` without an id")),
            }
        }
        Err(format!("nothing more is said after {:?}, having heard {:?}", self.place, self.heard))
    }

    /// Starts over with all events up to the revision that a reset names.
    fn begin_again(&mut self, repo: &Repo, oracle: &mut Oracle, id: Option<String>) -> Result<(), String> {
        let id = id.ok_or("a reset without a revision")?;
        if self.descends(repo, &id) {
            return Err(format!("a reset to {id}, which descends from {:?}", self.place));
        }
        self.heard = oracle.expected(repo, &id).into_iter().map(|it| it.position).collect();
        self.place = Some(id);
        Ok(())
    }

    /// Reports whether a commit descends from the last one received.
    fn descends(&self, repo: &Repo, id: &str) -> bool {
        let last = self.place.as_deref().unwrap_or_default().split('/').next().unwrap_or_default();
        repo.try_git(&["merge-base", "--is-ancestor", last, id]).status.success()
    }

    /// Compares what was received with what exists, except commits that a merge has moved off the first parents.
    fn compare(&self, line: &[String], all: &[ExpectedEvent]) -> Result<(), String> {
        let on_line = |id: &&String| line.iter().any(|it| id.starts_with(it.as_str()));
        let heard: Vec<&String> = self.heard.iter().filter(on_line).collect();
        let all: Vec<&String> = all.iter().map(|it| &it.position).collect();
        if heard == all { Ok(()) } else { Err(format!("heard {heard:#?}\nbut there is {all:#?}")) }
    }
}
