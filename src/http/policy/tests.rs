//! Tests of what tokens are allowed, and of how the file is followed.

use std::task::{Context, Poll, Waker};

use warp::http::{HeaderValue, Method, StatusCode};

use crate::domain::{Actor, Expiry, Grant, Key, KeyPattern, Right};
use crate::http::policy::*;

/// Parses one token a line: `SECRET RIGHTS:PATTERN... [expired]`.
fn read(bytes: &[u8]) -> Result<Vec<Token>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    text.lines()
        .enumerate()
        .map(|(index, line)| token(line).ok_or(format!("{}:1: broken", index + 1)))
        .collect()
}

fn token(line: &str) -> Option<Token> {
    let mut words = line.split(' ');
    let secret = words.next()?;
    let (grants, rest): (Vec<_>, Vec<_>) = words.partition(|word| word.contains(':'));
    Some(Token {
        actor: Actor::new(secret, ""),
        secret_hash: SecretHash::new(Sha256::digest(secret).into()),
        grants: grants.into_iter().map(grant).collect::<Option<_>>()?,
        created: None,
        expires: match rest[..] {
            [] => None,
            ["expired"] => Some(Expiry::parse("2001-01-01").unwrap()),
            _ => return None,
        },
    })
}

fn grant(text: &str) -> Option<Grant> {
    let (rights, keys) = text.split_once(':')?;
    Some(Grant {
        rights: rights.split(',').map(Right::parse).collect::<Option<_>>()?,
        keys: keys.split_terminator(',').map(|pattern| KeyPattern::parse(pattern).unwrap()).collect(),
    })
}

/// Checks the file at every request, and reads a changed one at once.
const AT_ONCE: PolicyLimits =
    PolicyLimits { policy_age_ms_max: 0, policy_quiet_ms: 0, ..PolicyLimits::DEFAULT };

/// Checks the file at every request, and reads a changed one only after an hour without writes.
const NEVER_QUIET: PolicyLimits = PolicyLimits { policy_quiet_ms: 3_600_000, ..AT_ONCE };

struct Given {
    policy: Policy,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

fn policy(text: &str) -> Given {
    followed(text, &AT_ONCE)
}

fn followed(text: &str, limits: &PolicyLimits) -> Given {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, format!("{text}\n")).unwrap();
    let policy = Policy::open(&file, read, limits).unwrap();
    Given { policy, file, _folder: folder }
}

impl Given {
    /// Writes the file in place.
    fn write(&self, text: &str) {
        std::fs::write(&self.file, text).unwrap();
    }

    /// Renames another file into its place.
    fn replace(&self, text: &str) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &self.file).unwrap();
    }

    fn asks(&self, authorization: &[&str], action: Action<'_>) -> Result<Allowed, Denied> {
        with_head(authorization, |head| self.policy.decide(head, action))
    }

    fn identity(&self, token: &str) -> Result<Identity, Denied> {
        let identity = |head: &RequestHead<'_>| {
            let mut asked = self.policy.identify(head);
            match asked.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(answer) => answer,
                Poll::Pending => panic!("a policy never waits"),
            }
        };
        with_head(&[&format!("Bearer {token}")], identity)
    }

    fn status(&self, token: &str, action: Action<'_>) -> u16 {
        let answer = self.asks(&[&format!("Bearer {token}")], action);
        answer.map_or_else(|denied| denied.status().as_u16(), |_| 200)
    }
}

fn with_head<T>(authorization: &[&str], ask: impl FnOnce(&RequestHead<'_>) -> T) -> T {
    let mut headers = HeaderMap::new();
    for value in authorization {
        headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
    }
    ask(&RequestHead {
        method: &Method::GET,
        path: "/",
        query: "",
        headers: &headers,
        remote: None,
        request_id: "1",
    })
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

#[test]
fn without_a_known_token_everything_is_401() {
    let given = policy("mara read,write:*");
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
    let given = policy("reader read:*\nwriter write:*\nnobody read:b-*\nblogger read,write:blog-*");
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
fn each_action_needs_the_rights_that_the_documentation_names() {
    let given = policy(
        "reader read:*\nwriter write:*\nauditor audit:*\nboth audit,write:*\nblogger audit,write:blog-*\noperator operate:*",
    );
    let (posts, blog) = (key("posts"), key("blog-a"));
    for (action, allowed) in [
        (Action::List, "reader"),
        (Action::ReadProblems, "reader"),
        (Action::ReadSyncToken, "reader"),
        (Action::ReadChanges, "reader"),
        (Action::ReadCapabilities, "reader"),
        (Action::ReadOpenApi, "reader"),
        (Action::Read { key: &posts }, "reader"),
        (Action::Follow { key: None }, "reader"),
        (Action::Follow { key: Some(&posts) }, "reader"),
        (Action::Update { key: &posts, content: None }, "writer both"),
        (Action::Delete { key: &blog }, "writer both blogger"),
        (Action::ListPast, "auditor both blogger"),
        (Action::ReadPast { key: &posts }, "auditor both"),
        (Action::ListEvents { key: None }, "auditor both blogger"),
        (Action::ListEvents { key: Some(&posts) }, "auditor both"),
        (Action::StreamEvents { key: None }, "auditor both blogger"),
        (Action::ReadEvent { key: Some(&blog) }, "auditor both blogger"),
        (Action::ReadEvent { key: Some(&posts) }, "auditor both"),
        (Action::ReadEvent { key: None }, "auditor both"),
        (Action::ReadDifference, "auditor both blogger"),
        (Action::ReadBlame { key: &posts }, "auditor both"),
        (Action::UndoEvent { key: Some(&posts) }, "both"),
        (Action::UndoEvent { key: Some(&blog) }, "both blogger"),
        (Action::UndoEvent { key: None }, "both"),
        (Action::Restore { key: &posts }, "both"),
        (Action::Restore { key: &blog }, "both blogger"),
        (Action::Operate, "operator"),
    ] {
        let may = |token: &&str| given.status(token, action) == 200;
        let tokens = ["reader", "writer", "auditor", "both", "blogger", "operator"];
        let found: Vec<_> = tokens.into_iter().filter(may).collect();
        assert_eq!(found.join(" "), allowed, "{action:?}");
    }
}

/// A policy as teams write it: read everything, write keys that begin with `blog-`.
#[test]
fn each_grant_has_keys_of_its_own() {
    let given = policy("mara read:* write:blog-* audit,write:pages");
    let write = |text: &str| given.status("mara", Action::Delete { key: &key(text) });
    assert_eq!((write("blog-a"), write("pages"), write("posts")), (200, 200, 403));
    let restore = |text: &str| given.status("mara", Action::Restore { key: &key(text) });
    assert_eq!((restore("blog-a"), restore("pages")), (403, 200));
    let list = given.asks(&["Bearer mara"], Action::List).unwrap();
    assert!(list.sees_all(), "nothing is hidden");
    let events = given.asks(&["Bearer mara"], Action::ListEvents { key: None }).unwrap();
    assert!(events.sees(&key("pages")) && !events.sees(&key("blog-a")));
}

#[test]
fn rights_without_keys_grant_nothing_and_are_told() {
    let given = policy("mara read:\nanna read:*");
    assert_eq!(given.status("mara", Action::List), 403);
    assert_eq!(given.status("anna", Action::List), 200);
    let trouble = given.policy.rules_error().unwrap();
    assert!(trouble.starts_with("1 of the policy's tokens") && !trouble.contains("mara"), "{trouble}");
    given.write("mara read:*\n");
    assert_eq!(given.policy.rules_error(), None);
}

#[test]
fn a_token_whose_time_is_over_is_as_unknown_as_any() {
    let given = policy("mara read:* expired");
    assert_eq!(given.status("mara", Action::List), 401);
}

#[test]
fn more_wrong_tokens_than_one_address_may_send_are_429_and_the_right_one_is_served() {
    let given = followed("mara read:*", &PolicyLimits { wrong_tokens_per_s_max: 2, ..AT_ONCE });
    let statuses: Vec<_> = (0..4).map(|n| given.status(&format!("guess{n}"), Action::List)).collect();
    assert_eq!(statuses, [401, 401, 429, 429]);
    assert_eq!(given.status("mara", Action::List), 200);
    assert_eq!(
        given.asks(&[], Action::List).unwrap_err().status(),
        StatusCode::UNAUTHORIZED,
        "none is not a wrong one"
    );
}

#[test]
fn who_it_is_and_what_they_may_is_what_the_file_says() {
    let given = policy("mara read:* write:blog-*");
    let identity = given.identity("mara").unwrap();
    assert_eq!((identity.actor.name(), identity.grants.len()), ("mara", 2));
    assert_eq!(given.identity("other").unwrap_err().status(), StatusCode::UNAUTHORIZED);
}

/// A refusal that named the key of an event would reveal that the event exists.
#[test]
fn an_event_of_another_key_is_refused_like_one_that_there_is_not() {
    let given = policy("blogger audit,write:blog-*");
    let posts = key("posts");
    let denial = |action| format!("{:?}", given.asks(&["Bearer blogger"], action).unwrap_err());
    assert_eq!(denial(Action::ReadEvent { key: Some(&posts) }), denial(Action::ReadEvent { key: None }));
    assert_eq!(denial(Action::UndoEvent { key: Some(&posts) }), denial(Action::UndoEvent { key: None }));
    let events = given.asks(&["Bearer blogger"], Action::ListEvents { key: None }).unwrap();
    assert!(events.sees(&key("blog-a")) && !events.sees(&posts));
}

#[test]
fn a_list_shows_the_keys_that_the_token_may_read() {
    let given = policy("all read:*\nblogger read:blog-*");
    for action in [Action::List, Action::ReadProblems] {
        let seen = given.asks(&["Bearer blogger"], action).unwrap();
        assert!(seen.sees(&key("blog-a")) && !seen.sees(&key("posts")));
        assert!(given.asks(&["Bearer all"], action).unwrap().sees(&key("posts")));
    }
}

#[test]
fn a_changed_file_holds_from_the_next_request_on() {
    let given = policy("mara read:*");
    assert_eq!(given.status("mara", Action::List), 200);
    // Same length, within the granularity of the clock.
    given.write("anna read:*\n");
    assert_eq!(given.status("mara", Action::List), 401);
    assert_eq!(given.status("anna", Action::List), 200);
}

#[test]
fn whoever_s_entry_was_changed_or_away_for_a_time_is_somebody_else() {
    let given = policy("mara read:*\nben read:*");
    let mara = given.identity("mara").unwrap();
    given.write("ben read:*\nmara read:*\n");
    assert_eq!(given.identity("mara").unwrap(), mara, "a policy that says the same of it");
    given.write("ben read:*\n");
    assert!(given.identity("mara").is_err());
    given.write("ben read:*\nmara read:*\n");
    let back = given.identity("mara").unwrap();
    assert_ne!(back, mara, "it came back");
    given.write("ben read:*\nmara read,write:*\n");
    assert_ne!(given.identity("mara").unwrap(), back, "it may more");
}

#[test]
fn a_broken_or_missing_file_keeps_the_last_good_policy_and_is_told() {
    let given = policy("mara read:*");
    for broken in ["mara raed:*\n", "anna read:*"] {
        given.write(broken);
        assert_eq!(given.status("mara", Action::List), 200, "{broken}");
        assert!(given.policy.rules_error().unwrap().contains("can't be used"));
    }
    std::fs::remove_file(&given.file).unwrap();
    assert_eq!(given.status("mara", Action::List), 200);
    assert!(given.policy.rules_error().is_some());
    given.write("anna read:*\n");
    assert_eq!(given.status("mara", Action::List), 401);
    assert_eq!(given.policy.rules_error(), None);
}

#[test]
fn a_file_that_is_being_written_in_place_is_not_believed() {
    let given = followed("mara read:a", &NEVER_QUIET);
    given.write("mara read:*\n");
    assert_eq!(given.status("mara", Action::Read { key: &key("b") }), 403);
    given.policy.reload();
    assert_eq!(
        given.status("mara", Action::Read { key: &key("b") }),
        200,
        "who asks for it knows that it is finished"
    );
}

#[test]
fn a_file_that_was_renamed_into_place_is_believed_at_once() {
    let given = followed("mara read:a", &NEVER_QUIET);
    given.replace("mara read:*\n");
    assert_eq!(given.status("mara", Action::Read { key: &key("b") }), 200);
}

/// Whoever renames a file into place has written it to its end.
#[test]
fn the_last_line_may_lack_its_end_unless_the_file_is_written_in_place() {
    let given = policy("mara read:*");
    given.replace("anna read:*");
    assert_eq!((given.status("anna", Action::List), given.policy.rules_error()), (200, None));
    given.write("ben read:*");
    assert_eq!(given.status("ben", Action::List), 401);
    assert!(given.policy.rules_error().is_some());
    given.replace("ben read:*");
    assert_eq!((given.status("ben", Action::List), given.policy.rules_error()), (200, None));
    Policy::open(&given.file, read, &AT_ONCE).unwrap();
}

#[test]
fn a_file_that_is_too_large_is_refused_and_not_cut() {
    let given = policy("mara read:*");
    let line = "anna read:*\n";
    let large = line.repeat((16 << 20) / line.len() + 1);
    given.replace(&large);
    assert_eq!(given.status("anna", Action::List), 401);
    assert!(given.policy.rules_error().is_some());
    let PolicyError::Read { source, .. } = Policy::open(&given.file, read, &AT_ONCE).unwrap_err() else {
        panic!("it is read")
    };
    assert_eq!(source.to_string(), "it is larger than 16 MiB");
}

/// A service that was idle for an hour must not accept a revoked token once more.
#[test]
fn a_file_that_was_changed_long_ago_is_believed_at_the_first_look() {
    let later = Clock::new(|| std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(5_000_000_000));
    let mut given = followed("mara read:*", &NEVER_QUIET);
    given.policy.file.get_mut().unwrap().clock = later;
    given.write("anna read:*\n");
    assert_eq!(given.status("mara", Action::List), 401);
}

/// Nothing writes to the FIFO, so opening it like a file would block forever.
#[test]
fn a_fifo_in_the_file_s_place_keeps_nobody_waiting() {
    let given = policy("mara read:*");
    std::fs::remove_file(&given.file).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &given.file, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_eq!(given.status("mara", Action::List), 200);
    assert!(given.policy.rules_error().is_some());
}

#[test]
fn a_start_on_a_broken_or_missing_file_fails_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    let missing = Policy::open(&file, read, &AT_ONCE).unwrap_err();
    assert_eq!(missing.to_string(), format!("cannot read the policy file {}", file.display()));
    for (text, fault) in
        [("mara read:*\nmara raed:*\n", "2:1: broken"), ("mara read:*\nanna rea", "2:1: broken")]
    {
        std::fs::write(&file, text).unwrap();
        let broken = Policy::open(&file, read, &AT_ONCE).unwrap_err().to_string();
        assert!(
            broken.starts_with(&format!("the policy file can't be used: {}:{fault}", file.display())),
            "{broken}"
        );
    }
}
