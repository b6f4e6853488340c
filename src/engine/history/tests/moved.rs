//! Files that a commit moves to another key.

use crate::engine::history::tests::*;

/// Returns the events of a key, newest first, with the key that the file moved to or from.
fn followed(view: &View, of: &str, seeing: Option<KeyVisibility>) -> Vec<String> {
    let filter = Filter { collections: vec![key(of)], follow: true, seeing, ..Filter::default() };
    let page = view.events(&filter, &EventPageQuery::first(100)).unwrap();
    let moved = |event: &EventRecord| event.moved.as_ref().map_or_else(String::new, |key| format!(" {key}"));
    page.events
        .iter()
        .map(|event| format!("{} {}{}", event.action.as_str(), event.key, moved(event)))
        .collect()
}

/// `posts`, renamed to `articles`, changed, and renamed to `texts`.
fn renamed() -> (Repo, Vec<Revision>) {
    let repo = Repo::bare();
    let made = vec![
        repo.add_commit(&[("posts.yaml", &named("A")), ("pages.yaml", &named("P"))], "one"),
        repo.add_commit(&[("posts.yaml", &named("B"))], "two"),
        repo.add_commit(&[("posts.yaml", ""), ("articles.yaml", &named("B"))], "three"),
        repo.add_commit(&[("articles.yaml", &format!("{}recursive: true\n", named("B")))], "four"),
        repo.add_commit(
            &[("articles.yaml", ""), ("texts.yml", &format!("{}recursive: true\n", named("B")))],
            "five",
        ),
    ];
    (repo, made)
}

#[test]
fn the_events_of_a_moved_file_go_on_under_its_former_names() {
    let (repo, _) = renamed();
    let view = read(&repo);
    assert_eq!(
        followed(&view, "texts", None),
        [
            "created texts articles",
            "updated articles",
            "created articles posts",
            "updated posts",
            "created posts",
        ]
    );
    assert_eq!(followed(&view, "posts", None), ["deleted posts articles", "updated posts", "created posts"]);
}

#[test]
fn nobody_follows_a_file_to_where_they_may_not_look() {
    let (repo, _) = renamed();
    let seeing = KeyVisibility(Arc::new(|key: &Key| key.as_str() != "articles"));
    let seen = followed(&read(&repo), "texts", Some(seeing));
    assert_eq!(seen, ["created texts articles", "updated posts", "created posts"]);
}

#[test]
fn a_value_is_blamed_on_who_gave_it_before_the_file_was_moved() {
    let (repo, made) = renamed();
    let view = read(&repo);
    let blamed = |sees: &dyn Fn(&Key) -> bool| -> Vec<Revision> {
        view.blame(&key("texts"), None, sees)
            .unwrap()
            .iter()
            .map(|blame| blame.event.commit.revision)
            .collect()
    };
    assert_eq!(blamed(&|_| true), [made[0], made[1], made[3]]);
    assert_eq!(blamed(&|key| key.as_str() == "texts"), [made[4]; 3]);
}

#[test]
fn several_files_of_one_content_are_paired_in_the_order_of_their_keys() {
    let repo = Repo::bare();
    repo.add_commit(&[("a.yaml", &named("A")), ("b.yaml", &named("A")), ("c.yaml", &named("A"))], "one");
    let files: &[(&str, &str)] = &[
        ("a.yaml", ""),
        ("b.yaml", ""),
        ("z.yaml", &named("A")),
        ("y.yaml", &named("A")),
        ("x.yaml", &named("B")),
    ];
    let two = repo.add_commit(files, "two");
    let moved = read(&repo).events_of(two).unwrap();
    let moved: Vec<_> =
        moved.iter().map(|event| (event.key.as_str(), event.moved.as_ref().map(Key::as_str))).collect();
    assert_eq!(moved, [("a", Some("y")), ("b", Some("z")), ("x", None), ("y", Some("a")), ("z", Some("b"))]);
}

#[test]
fn a_file_moved_there_and_back_is_followed_once() {
    let repo = Repo::bare();
    repo.add_commit(&[("a.yaml", &named("A"))], "one");
    repo.add_commit(&[("a.yaml", ""), ("b.yaml", &named("A"))], "two");
    repo.add_commit(&[("b.yaml", ""), ("a.yaml", &named("A"))], "three");
    let expected = ["created a b", "deleted a b", "created b a", "created a"];
    assert_eq!(followed(&read(&repo), "a", None), expected);
}

#[test]
fn a_list_of_filters_takes_what_fits_one_of_each() {
    let (repo, _) = renamed();
    let view = read(&repo);
    let lines = |filter: Filter| -> Vec<String> {
        let (page, total) = view.events_and_total(&filter, &EventPageQuery::first(100)).unwrap();
        assert_eq!(page.events.len(), total);
        page.events.iter().map(|event| format!("{} {}", event.action.as_str(), event.key)).collect()
    };
    let of = Filter { collections: vec![key("posts"), key("pages")], ..Filter::default() };
    assert_eq!(lines(of.clone()), ["deleted posts", "updated posts", "created pages", "created posts"]);
    let actions = vec![Action::Created, Action::Deleted];
    assert_eq!(lines(Filter { actions, ..of.clone() }), ["deleted posts", "created pages", "created posts"]);
    let recursive = Filter { attributes: vec!["recursive".into()], ..Filter::default() };
    assert_eq!(lines(recursive.clone()), ["deleted articles", "created texts", "updated articles"]);
    assert_eq!(
        lines(Filter { attributes: vec!["name".into()], actions: vec![Action::Updated], ..of }),
        ["updated posts"]
    );
    assert_eq!(
        lines(Filter { attributes: vec!["nope".into(), "also".into()], ..recursive }),
        Vec::<String>::new()
    );
}
