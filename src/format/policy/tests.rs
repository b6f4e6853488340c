//! What a policy file may contain, and how it is edited.

use crate::domain::Key;
use crate::format::policy::edit::EditError;
use crate::format::policy::testing::token;
use crate::format::policy::*;

const TWO: &str = "\
# Ask Mara before changing this.
tokens:
  - name: Mara   # the editor
    email: mara@example.org
    hash: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    may: [read, write]
    keys: [\"*\"]
  - {name: \"The build\", hash: 'sha256:0000000000000000000000000000000000000000000000000000000000000000', may: [read], keys: [a, \"b-*\"]}
";

#[test]
fn a_policy_grants_what_it_says() {
    let tokens = read(TWO.as_bytes()).unwrap();
    let [mara, build] = &tokens[..] else { panic!("{tokens:?}") };
    assert_eq!(mara.actor, Actor::new("Mara", "mara@example.org"));
    assert!(mara.secret_hash.digits().starts_with("9f86d0"));
    assert!(mara.has_right_for_all(Right::Write) && !mara.has_right(Right::Audit));
    assert_eq!(build.actor, Actor::new("The build", "The-build@localhost"));
    let covers = |text: &str| build.has_right_for(Right::Read, &Key::parse(text).unwrap());
    assert_eq!(
        (covers("a"), covers("b-x"), covers("c"), build.has_right(Right::Write)),
        (true, true, false, false)
    );
    assert_eq!(read(b"tokens: []"), Ok(Vec::new()));
    assert_eq!(read(b"tokens:"), Ok(Vec::new()));
}

fn one(members: &str) -> Token {
    let text = format!("tokens:\n  - name: A\n    hash: sha256:{}\n{members}", "0".repeat(64));
    read(text.as_bytes()).unwrap().remove(0)
}

#[test]
fn further_grants_have_keys_of_their_own() {
    let token = one(
        "    may: [read, audit]\n    keys: [\"*\"]\n    grants:\n      - {may: [write], keys: [\"blog-*\"]}\n    expires: 2027-03-01\n",
    );
    let key = |text| Key::parse(text).unwrap();
    assert!(token.has_right_for_all(Right::Audit) && token.has_right_for(Right::Write, &key("blog-a")));
    assert!(!token.has_right_for(Right::Write, &key("posts")));
    assert_eq!(token.expires, Some(Expiry::parse("2027-03-01").unwrap()));
    assert!(
        one("    grants: [{may: [write], keys: [a]}]\n").has_right(Right::Write),
        "`may` need not be there"
    );
}

/// A reader may see a file that is only partly written.
#[test]
fn a_file_that_is_cut_short_between_two_lines_never_grants_more() {
    let grants = ["write", "audit"].map(|right| Grant {
        rights: vec![Right::parse(right).unwrap()],
        keys: vec![KeyPattern::parse("blog-*").unwrap()],
    });
    let altered = NewToken { grants: [vec![Grant::everything()], grants.to_vec()].concat(), ..token("B") };
    let altered = NewToken { expires: Some(Expiry::parse("2001-01-01").unwrap()), ..altered };
    let whole = add(Some(&add(None, &token("Ann")).unwrap()), &altered).unwrap();
    let by_name = |text: &str| read(text.as_bytes()).unwrap_or_default();
    let all = by_name(&whole);
    for (end, _) in whole.match_indices('\n') {
        for token in by_name(&whole[..=end]) {
            let full = all.iter().find(|full| full.secret_hash == token.secret_hash).unwrap();
            let grows = token.grants.iter().any(|grant| !grant.is_empty() && !full.grants.contains(grant));
            assert!(!grows, "{}", &whole[..=end]);
            assert!(token.grants.is_empty() || token.expires == full.expires, "{}", &whole[..=end]);
        }
    }
}

#[test]
fn rights_without_keys_are_for_none() {
    let token = one("    may: [read, write]\n");
    assert!(!token.has_right(Right::Read) && token.grants[0].is_empty());
}

#[test]
fn every_mistake_is_a_fault_with_its_line() {
    let with = |member: &str| {
        format!("tokens:\n  - name: A\n    hash: sha256:{}\n    may: [read]\n    {member}\n", "0".repeat(64))
    };
    for (text, line, part) in [
        (String::new(), 1, "tokens"),
        ("token: []".into(), 1, "unknown field"),
        (" ".into(), 1, ""),
        ("# nothing".into(), 1, ""),
        ("tokens: 5".into(), 1, "sequence"),
        ("- name: A".into(), 1, "expected a mapping with the list `tokens`"),
        ("tokens: [A]".into(), 1, "expected a token with `name`, `hash`"),
        ("tokens: [".into(), 1, "this `[` is never closed"),
        ("# policy.yaml\ntokens: [".into(), 2, "this `[` is never closed"),
        (with("keys: [\"*\""), 5, "this `[` is never closed"),
        (with("email:a@example.org"), 5, "write a blank after the colon"),
        (with("\temail: a@example.org"), 5, "a tab indents this line"),
        (with("key: [a]"), 5, "unknown field `key`"),
        (with("keys: a"), 5, "sequence"),
        (with("keys:"), 2, "the list of keys is empty"),
        (with("keys: []"), 2, "the list of keys is empty"),
        (with("keys: [\"a/b\"]"), 5, "no pattern of keys"),
        (with("may: [read]"), 2, "duplicate"),
        (with("email: []"), 5, "string"),
        (with("email: a<b"), 5, "e-mail"),
        ("tokens:\n  - name: A\n    hash: sha256:12\n    may: []\n".into(), 3, "64 hexadecimal digits"),
        ("tokens:\n  - name: A\n    hash: x\n    may: []\n".into(), 3, "sha256"),
        (with("keys: [a]").replace("[read]", "[raed]"), 4, "no right; there are read, write, audit, operate"),
        (with("expires: soon"), 5, "no day and no time"),
        (with("created: 2026-11-22"), 5, "no time"),
        (with("grants: [{keys: [a]}]"), 5, "missing field `may`"),
        (with("grants: [{may: [read], keys: []}]"), 5, "the list of keys is empty"),
        (with("keys: [a]").replace("name: A", "name: \"<\""), 2, "can't be the name"),
        ("tokens:\n  - name: A\n    may: []\n".into(), 2, "missing field `hash`"),
    ] {
        let fault = read(text.as_bytes()).expect_err(&text);
        assert!(fault.message.contains(part), "{text}: {fault:?}");
        assert_eq!(fault.line, line, "{text}: {fault:?}");
    }
    let twice = format!("{}{}", with("keys: [a]"), with("keys: [a]").replace("tokens:\n", ""));
    assert!(read(twice.as_bytes()).unwrap_err().message.contains("the hash of another one"));
}

#[test]
fn a_token_is_added_below_what_is_there() {
    let new = add(Some(TWO), &token("Ann")).unwrap();
    let expected = format!(
        "{TWO}  - name: Ann\n    hash: sha256:{}\n    may: [read, write]\n    keys: [\"blog-*\"]\n",
        "03".repeat(32)
    );
    assert_eq!(new, expected);
}

#[test]
fn a_token_is_added_to_every_shape_of_list_that_has_an_end() {
    let item = format!("- name: A\n  hash: sha256:{}\n  may: []", "0".repeat(64));
    for old in [
        "tokens:".to_owned(),
        "tokens: []\n".to_owned(),
        "tokens: [] # none yet\n# the end".to_owned(),
        format!("tokens:\n{item}"),
        format!("tokens:\n\n{item}\n\n# the end\n"),
        format!("---\ntokens:\n    {}\n", item.replace('\n', "\n    ")),
    ] {
        let new = add(Some(&old), &token("B")).unwrap();
        let count = read(new.as_bytes()).unwrap().len();
        assert_eq!(count, 1 + usize::from(old.contains("- name")), "{new}");
    }
}

#[test]
fn a_token_is_added_to_lists_in_brackets_and_before_the_end_of_the_document() {
    let hash = format!("sha256:{}", "0".repeat(64));
    for old in [
        format!("tokens: [{{name: A, hash: \"{hash}\", may: [read]}}]\n"),
        format!("tokens: [\n  {{name: A, hash: \"{hash}\", may: []}}, # one\n] # [the end]\n"),
        format!("{{\"tokens\": [{{\"name\": \"A\", \"hash\": \"{hash}\", \"may\": [\"read\"]}}]}}"),
        "{tokens: [ ]}".to_owned(),
        format!("{TWO}...\n"),
        "# my policy".to_owned(),
        String::new(),
    ] {
        let before = read(old.as_bytes()).map_or(0, |grants| grants.len());
        let new = add(Some(&old), &token("B")).unwrap_or_else(|error| panic!("{error} in {old}"));
        let grants = read(new.as_bytes()).unwrap();
        assert_eq!((grants.len(), grants.last()), (before + 1, Some(&token("B").granted())), "{new}");
        assert!(!old.contains('#') || new.contains(&old[old.find('#').unwrap()..][..5]), "{new}");
    }
}

#[test]
fn a_list_that_can_not_be_added_to_is_left_alone() {
    let old = format!("x: &x [{{name: A, hash: sha256:{}, may: []}}]\ntokens: *x\n", "0".repeat(64));
    assert!(add(Some(&old), &token("B")).is_err());
}

#[test]
fn an_impossible_name_is_refused() {
    assert!(matches!(add(None, &token("")), Err(EditError::Author(_))));
    let altered = NewToken { email: Some("not an email <".into()), ..token("B") };
    assert!(matches!(add(None, &altered), Err(EditError::Author(_))));
    assert!(matches!(add(Some("tokens: 5"), &token("B")), Err(EditError::Broken(_))));
}

#[test]
fn a_name_may_have_several_tokens() {
    let new = add(Some(TWO), &token("Mara")).unwrap();
    let tokens = read(new.as_bytes()).unwrap();
    let [mara, _build, another] = &tokens[..] else { panic!("{new}") };
    assert_eq!(another.actor, mara.actor, "an author has one address");
    assert_ne!(another.secret_hash, mara.secret_hash);
}

#[test]
fn a_revoked_token_is_taken_out_of_every_shape_of_list() {
    let item = |name: &str, digit: &str| {
        format!(
            "- name: {name}\n  hash: sha256:{}\n  may: [read]\n  keys:\n    - a\n    # and\n    - b\n",
            digit.repeat(64)
        )
    };
    let braces = |name: &str, digit: &str| {
        format!(
            "{{name: {name}, hash: \"sha256:{}\", grants: [{{may: [read], keys: [a]}}]}}",
            digit.repeat(64)
        )
    };
    let (a, b, c) = (item("A", "a"), item("B", "B"), item("C", "c"));
    let (fa, fb, fc) = (braces("A", "a"), braces("B", "b"), braces("C", "c"));
    for (old, new) in [
        (
            format!("tokens:\n{a}\n# of B\n{b}\n# of C\n{c}# end\n"),
            format!("tokens:\n{a}\n# of B\n\n# of C\n{c}# end\n"),
        ),
        (format!("tokens:\n{b}"), "tokens:\n".to_owned()),
        (format!("tokens:\n{a}{b}"), format!("tokens:\n{a}")),
        (
            format!("# sha256:{} was B's.\ntokens:\n{a}{b}", "b".repeat(64)),
            format!("# sha256:{} was B's.\ntokens:\n{a}", "b".repeat(64)),
        ),
        (format!("tokens:\n- {fa}\n- {fb} # B\n- {fc}\n"), format!("tokens:\n- {fa}\n- {fc}\n")),
        (format!("tokens: [{fa}, {fb}, {fc}]\n"), format!("tokens: [{fa}, {fc}]\n")),
        (format!("tokens: [{fa}, {fb}]\n"), format!("tokens: [{fa}]\n")),
        (format!("tokens: [{fb}]\n"), "tokens: []\n".to_owned()),
        (format!("tokens: [\n  {fa},\n  {fb},\n]\n"), format!("tokens: [\n  {fa},\n  \n]\n")),
    ] {
        let (text, gone) = revoke(&old, |token| token.actor.name() == "B").unwrap();
        assert_eq!((text, gone.len()), (new, 1), "{old}");
    }
    assert!(matches!(revoke(&a, |_| true), Err(EditError::Broken(_))));
    let (text, gone) = revoke(&format!("tokens:\n{a}{b}{c}"), |_| true).unwrap();
    assert_eq!((&*text, gone.len()), ("tokens:\n", 3));
    let (text, gone) = revoke(TWO, |_| false).unwrap();
    assert_eq!((&*text, gone.len()), (TWO, 0));
}

#[test]
fn any_name_and_address_reads_back() {
    for name in ["Mara", "no", "Zoë O'Neil", "a: b", "# x", "42", "x\"y\\z", "build-bot", "true"] {
        let new = NewToken { email: Some("o'neil+x@example.org".into()), ..token(name) };
        let text = add(None, &new).unwrap();
        assert_eq!(read(text.as_bytes()).unwrap(), [new.granted()], "{text}");
    }
}
