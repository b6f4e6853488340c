//! Parsing of messages: the trailers and the reason.

use uuid::Uuid;

use crate::domain::{Key, Reversal};
use crate::format::message::{
    ACTION, COMMAND, EVENT, FINGERPRINT, IDEMPOTENCY_KEY, KEY, MERGE, ORIGIN, REQUEST_ID, RESTORES, UNDOES,
    WORK_TREE,
};

/// The content of a commit message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// The first line.
    pub subject: String,
    /// The reason in the caller's words, which the service puts between subject and changes.
    pub reason: Option<String>,
    /// The whole message without its trailers, in any commit: the reason, in a person's own commit.
    pub text: String,
    /// The events in the trailers, in their order; empty for a person's commit.
    pub events: Vec<EventTrailers>,
    /// The id of the request.
    pub request_id: Option<String>,
    /// The origin of the change according to the trailers; without one it is the API.
    pub origin: Option<OriginTrailer>,
    /// What the commit reverses.
    pub reverses: Option<Reversal>,
}

/// The origin of a commit by the service, according to its trailer `Collectory-Origin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginTrailer {
    /// A person's saved edit that the service committed.
    WorkTree,
    /// The command line.
    Command,
    /// The service itself, which merged what others had written.
    Merge,
}

/// The trailers of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventTrailers {
    /// The collection.
    pub key: Key,
    /// What happened, such as `collection.updated`; absent if the commit does not say.
    pub action: Option<String>,
    /// The event's id, if there is a valid one.
    pub id: Option<Uuid>,
}

/// Parses a commit message, of the service or of any other author.
///
/// Trailers are found as `git interpret-trailers` finds them: in the last paragraph, if all its
/// lines are trailers, or if git made one of them and a quarter are. Nothing that matters is
/// trusted: what a commit did is read from its trees.
#[must_use]
pub fn parse(message: &str) -> Message {
    let mut paragraphs = paragraphs(message);
    let trailers = match paragraphs.last() {
        Some(last) if paragraphs.len() > 1 && are_trailers(last) => {
            let last = paragraphs.pop().unwrap_or_default();
            paragraphs.extend(Some(plain(&last)).filter(|plain| !plain.is_empty()));
            pairs(&last)
        }
        _ => Vec::new(),
    };
    let text = paragraphs.iter().map(|lines| lines.join("\n")).collect::<Vec<_>>().join("\n\n");
    let mut body: Vec<String> = paragraphs.iter().skip(1).map(|lines| lines.join("\n")).collect();
    let events = events(&trailers);
    if events.iter().any(|event| event.action.is_some()) {
        body.pop();
    }
    let reason = body.join("\n\n").trim().to_owned();
    Message {
        subject: paragraphs.first().map_or_else(String::new, |lines| lines[0].to_owned()),
        reason: (!reason.is_empty()).then_some(reason),
        text,
        request_id: value_of(&trailers, REQUEST_ID).map(str::to_owned),
        origin: value_of(&trailers, ORIGIN).and_then(origin_trailer),
        reverses: reverses(&trailers),
        events,
    }
}

fn origin_trailer(value: &str) -> Option<OriginTrailer> {
    match value {
        WORK_TREE => Some(OriginTrailer::WorkTree),
        COMMAND => Some(OriginTrailer::Command),
        MERGE => Some(OriginTrailer::Merge),
        _ => None,
    }
}

fn reverses(trailers: &[Trailer]) -> Option<Reversal> {
    let event = value_of(trailers, UNDOES).and_then(|id| Uuid::parse_str(id).ok());
    let since = || value_of(trailers, RESTORES).and_then(|revision| revision.parse().ok());
    event.map(|id| Reversal::Event(id.to_string())).or_else(|| since().map(Reversal::Since))
}

/// Returns the idempotency key of the request behind a commit, and the digest of the request.
#[must_use]
pub fn idempotency(message: &str) -> Option<(String, String)> {
    // Checked first because most messages have none, and a history may be long.
    if !message.contains(FINGERPRINT) {
        return None;
    }
    let trailers = trailers_of(message);
    let value = |name| value_of(&trailers, name).map(str::to_owned);
    Some((value(IDEMPOTENCY_KEY)?, value(FINGERPRINT)?))
}

/// Returns the values of all trailers with this name.
pub(super) fn values_in(message: &str, name: &str) -> Vec<String> {
    let trailers = trailers_of(message).into_iter();
    trailers.filter(|trailer| is(trailer, name)).map(|(_, value)| value).collect()
}

fn trailers_of(message: &str) -> Vec<Trailer> {
    let paragraphs = paragraphs(message);
    let last = paragraphs.last().filter(|last| paragraphs.len() > 1 && are_trailers(last));
    last.map_or_else(Vec::new, |last| pairs(last))
}

/// A trailer: its name and its value.
type Trailer = (String, String);

fn is(trailer: &Trailer, name: &str) -> bool {
    trailer.0.eq_ignore_ascii_case(name)
}

fn value_of<'a>(trailers: &'a [Trailer], name: &str) -> Option<&'a str> {
    trailers.iter().find(|trailer| is(trailer, name)).map(|(_, value)| value.as_str())
}

/// Groups trailers into events. Each begins with its action, or with its key if there is no action.
/// An event without a valid key is left out.
fn events(trailers: &[Trailer]) -> Vec<EventTrailers> {
    #[derive(Default)]
    struct Group<'a> {
        action: Option<&'a str>,
        key: Option<&'a str>,
        id: Option<&'a str>,
    }
    let mut groups: Vec<Group<'_>> = Vec::new();
    for trailer in trailers {
        let value = Some(trailer.1.as_str());
        if is(trailer, ACTION) {
            groups.push(Group { action: value, ..Group::default() });
        } else if is(trailer, KEY) {
            match groups.last_mut().filter(|group| group.key.is_none()) {
                Some(group) => group.key = value,
                None => groups.push(Group { key: value, ..Group::default() }),
            }
        } else if is(trailer, EVENT)
            && let Some(group) = groups.last_mut()
        {
            group.id = group.id.or(value);
        }
    }
    let events = groups.into_iter().filter_map(|group| {
        let key = Key::parse(group.key?).ok()?;
        let id = group.id.and_then(|id| Uuid::parse_str(id).ok());
        Some(EventTrailers { key, action: group.action.map(str::to_owned), id })
    });
    events.collect()
}

/// Splits a message at blank lines.
fn paragraphs(message: &str) -> Vec<Vec<&str>> {
    let mut paragraphs: Vec<Vec<&str>> = vec![Vec::new()];
    for line in message.lines().map(str::trim_end) {
        let last = paragraphs.last_mut().expect("there is one from the start");
        if !line.is_empty() {
            last.push(line);
        } else if !last.is_empty() {
            paragraphs.push(Vec::new());
        }
    }
    paragraphs.retain(|lines| !lines.is_empty());
    paragraphs
}

/// Whether git takes a last paragraph for trailers (`find_trailer_block_start` in `trailer.c`).
fn are_trailers(lines: &[&str]) -> bool {
    let some = lines.iter().filter(|line| is_trailer(line)).count();
    let others = plain(lines).len();
    some > 0 && (others == 0 || (lines.iter().any(|line| is_by_git(line)) && some * 3 >= others))
}

/// The lines in a paragraph of trailers that are not trailers.
fn plain<'m>(lines: &[&'m str]) -> Vec<&'m str> {
    let mut continues = false;
    let is_plain = |line: &&str| {
        continues = if line.starts_with([' ', '\t']) { continues } else { is_trailer(line) };
        !continues
    };
    lines.iter().copied().filter(is_plain).collect()
}

fn is_trailer(line: &str) -> bool {
    split(line).is_some() || is_by_git(line)
}

/// Whether git made a line.
fn is_by_git(line: &str) -> bool {
    line.starts_with("Signed-off-by: ") || line.starts_with("(cherry picked from commit ")
}

/// The trailers of a paragraph, with continuation lines joined by a blank.
fn pairs(lines: &[&str]) -> Vec<Trailer> {
    let mut pairs: Vec<Trailer> = Vec::new();
    for line in lines {
        match (line.starts_with([' ', '\t']), split(line)) {
            (false, Some((name, value))) => pairs.push((name.to_owned(), value.to_owned())),
            (true, _) => {
                if let Some((_, value)) = pairs.last_mut() {
                    value.push(' ');
                    value.push_str(line.trim());
                }
            }
            (false, None) => {}
        }
    }
    pairs
}

/// Splits a line into the name and value of a trailer.
fn split(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let name = name.trim_end();
    let fits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    fits.then(|| (name, value.trim()))
}
