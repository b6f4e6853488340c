//! What tokens are allowed, and how the file is followed.

use warp::http::{HeaderValue, Method, StatusCode};

use super::*;
use crate::domain::{Actor, Key, KeyPattern, Permission};

/// One grant a line: `SECRET PERMISSIONS [PATTERN]`.
fn read(bytes: &[u8]) -> Result<Vec<Grant>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    text.lines()
        .enumerate()
        .map(|(index, line)| grant(line).ok_or(format!("{}:1: broken", index + 1)))
        .collect()
}

fn grant(line: &str) -> Option<Grant> {
    let mut words = line.split(' ');
    let (secret, may) = (words.next()?, words.next()?);
    Some(Grant {
        actor: Actor::new(secret, ""),
        secret_hash: Sha256::digest(secret).into(),
        may: may.split(',').map(Permission::parse).collect::<Option<_>>()?,
        keys: words.next().map(|pattern| vec![KeyPattern::parse(pattern).unwrap()]),
    })
}

struct Given {
    policy: Policy,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

fn policy(text: &str) -> Given {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, text).unwrap();
    let policy = Policy::open(&file, read, Duration::ZERO).unwrap();
    Given { policy, file, _folder: folder }
}

impl Given {
    fn asks(&self, authorization: &[&str], action: Action<'_>) -> Result<Allowed, Denied> {
        let mut headers = HeaderMap::new();
        for value in authorization {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        let head = RequestHead {
            method: &Method::GET,
            path: "/",
            query: "",
            headers: &headers,
            remote: None,
            request_id: "1",
        };
        self.policy.decide(&head, action)
    }

    fn status(&self, token: &str, action: Action<'_>) -> u16 {
        let answer = self.asks(&[&format!("Bearer {token}")], action);
        answer.map_or_else(|denied| denied.status().as_u16(), |_| 200)
    }
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

#[test]
fn without_a_known_token_everything_is_401() {
    let given = policy("mara read,write");
    for authorization in [
        &[][..],
        &[""],
        &["Bearer"],
        &["Bearer "],
        &["Bearer other"],
        &["Basic mara"],
        &["mara"],
        &["Bearer mara", "Bearer mara"],
        &["Bearer mara, Bearer other"],
    ] {
        for action in [Action::List, Action::ReadOpenApi, Action::Delete { key: &key("a") }] {
            let denied = given.asks(authorization, action).unwrap_err();
            assert_eq!(denied.status(), StatusCode::UNAUTHORIZED, "{authorization:?}");
        }
    }
    for authorization in ["Bearer mara", "bearer mara", "BEARER  mara "] {
        assert_eq!(given.asks(&[authorization], Action::List).unwrap().actor().name(), "mara");
    }
}

#[test]
fn what_is_not_granted_is_403() {
    let given = policy("reader read\nwriter write\nnobody read b-*\nblogger read,write blog-*");
    let (posts, blog) = (key("posts"), key("blog-a"));
    let write = |key| Action::Update { key, content: None };
    let create = |key| Action::Create { key, content: None };
    for (token, action, status) in [
        ("reader", Action::List, 200),
        ("reader", Action::Read { key: &posts }, 200),
        ("reader", Action::ReadProblems, 200),
        ("reader", Action::ReadOpenApi, 200),
        ("reader", write(&posts), 403),
        ("reader", create(None), 403),
        ("writer", Action::List, 403),
        ("writer", Action::ReadOpenApi, 403),
        ("writer", Action::Delete { key: &posts }, 200),
        ("writer", create(None), 200),
        ("nobody", Action::Read { key: &blog }, 403),
        ("blogger", write(&blog), 200),
        ("blogger", write(&posts), 403),
        ("blogger", create(Some(&posts)), 403),
        ("blogger", create(Some(&blog)), 200),
        ("blogger", Action::Read { key: &posts }, 403),
    ] {
        assert_eq!(given.status(token, action), status, "{token} {action:?}");
    }
}

#[test]
fn the_past_needs_a_permission_of_its_own() {
    let given = policy("reader read,write\nauditor audit\nblogger audit,write blog-*");
    let (posts, blog) = (key("posts"), key("blog-a"));
    for (action, reader, auditor, blogger) in [
        (Action::ListPast, 403, 200, 200),
        (Action::ReadPast { key: &posts }, 403, 200, 403),
        (Action::ListEvents { key: None }, 403, 200, 200),
        (Action::ListEvents { key: Some(&posts) }, 403, 200, 403),
        (Action::StreamEvents { key: None }, 403, 200, 200),
        (Action::ReadEvent { key: Some(&blog) }, 403, 200, 200),
        (Action::ReadEvent { key: Some(&posts) }, 403, 200, 403),
        (Action::ReadEvent { key: None }, 403, 200, 403),
        (Action::ReadDifference, 403, 200, 200),
        (Action::ReadBlame { key: &posts }, 403, 200, 403),
        (Action::ReadSyncToken, 403, 200, 200),
        (Action::ReadChanges, 403, 200, 200),
        (Action::UndoEvent { key: Some(&posts) }, 200, 403, 403),
        (Action::UndoEvent { key: Some(&blog) }, 200, 403, 200),
        (Action::UndoEvent { key: None }, 200, 403, 403),
        (Action::Restore { key: &posts }, 200, 403, 403),
        (Action::ReadCapabilities, 200, 403, 403),
    ] {
        for (token, status) in [("reader", reader), ("auditor", auditor), ("blogger", blogger)] {
            assert_eq!(given.status(token, action), status, "{token} {action:?}");
        }
    }
}

/// A refusal that named the key of an event would tell that there is such an event.
#[test]
fn an_event_of_another_key_is_refused_like_one_that_there_is_not() {
    let given = policy("blogger audit,write blog-*");
    let posts = key("posts");
    let told = |action| format!("{:?}", given.asks(&["Bearer blogger"], action).unwrap_err());
    assert_eq!(told(Action::ReadEvent { key: Some(&posts) }), told(Action::ReadEvent { key: None }));
    assert_eq!(told(Action::UndoEvent { key: Some(&posts) }), told(Action::UndoEvent { key: None }));
    let events = given.asks(&["Bearer blogger"], Action::ListEvents { key: None }).unwrap();
    assert!(events.sees(&key("blog-a")) && !events.sees(&posts));
}

#[test]
fn a_list_shows_the_keys_that_the_token_may_read() {
    let given = policy("all read\nblogger read blog-*");
    for action in [Action::List, Action::ReadProblems] {
        let seen = given.asks(&["Bearer blogger"], action).unwrap();
        assert!(seen.sees(&key("blog-a")) && !seen.sees(&key("posts")));
        assert!(given.asks(&["Bearer all"], action).unwrap().sees(&key("posts")));
    }
}

#[test]
fn a_changed_file_holds_from_the_next_request_on() {
    let given = policy("mara read");
    assert_eq!(given.status("mara", Action::List), 200);
    // The same length, within the same grain of the clock.
    std::fs::write(&given.file, "anna read").unwrap();
    assert_eq!(given.status("mara", Action::List), 401);
    assert_eq!(given.status("anna", Action::List), 200);
}

#[test]
fn a_broken_or_missing_file_keeps_the_last_good_policy() {
    let given = policy("mara read");
    std::fs::write(&given.file, "mara").unwrap();
    assert_eq!(given.status("mara", Action::List), 200);
    std::fs::remove_file(&given.file).unwrap();
    assert_eq!(given.status("mara", Action::List), 200);
    std::fs::write(&given.file, "anna read").unwrap();
    assert_eq!(given.status("mara", Action::List), 401);
}

#[test]
fn a_start_on_a_broken_or_missing_file_fails_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    let missing = Policy::open(&file, read, Duration::ZERO).unwrap_err();
    assert_eq!(missing.to_string(), format!("cannot read the policy file {}", file.display()));
    std::fs::write(&file, "mara read\nmara").unwrap();
    let broken = Policy::open(&file, read, Duration::ZERO).unwrap_err();
    assert_eq!(broken.to_string(), format!("the policy file can't be used: {}:2:1: broken", file.display()));
}
