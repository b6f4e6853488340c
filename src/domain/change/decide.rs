//! Deciding a command: the result is an event or a refusal.

use std::sync::Arc;

use crate::domain::change::catalog::HasCollection;
use crate::domain::{Catalog, Collection, Command, Event, Key, Kind, Patch, Refusal};

/// Decides a command against the current catalog.
///
/// Pure on purpose: no clock, no disk, no locks. The command carries everything from outside that
/// the decision needs, so the writer can decide it again after it loses a race with a hand edit.
///
/// `Ok(None)` means that nothing would change. The caller reports success and makes no commit,
/// because a commit without a change would be noise in the audit log.
///
/// # Errors
///
/// Returns the [`Refusal`] to show the client. A refusal is always about the command; disk errors
/// are `StoreError`s, which the caller handles.
pub fn decide<T: HasCollection>(catalog: &Catalog<T>, command: &Command) -> Result<Option<Event>, Refusal> {
    let find = |key: &Key| -> Result<Arc<Collection>, Refusal> {
        let item = catalog.get(key.as_str()).ok_or_else(|| Refusal::UnknownKey(key.clone()))?;
        Ok(Arc::clone(item.collection()))
    };
    match command {
        Command::Create(collection) => create(catalog, &Arc::new(collection.clone())).map(Some),
        Command::Update { key, kind, patch } => {
            let before = find(key)?;
            let after = updated(&before, *kind, patch)?;
            Ok((after != *before).then(|| Event::Updated { before, after: Arc::new(after) }))
        }
        Command::Delete { key, kind } => {
            let before = find(key)?;
            match kind.filter(|kind| *kind != before.kind()) {
                // A type and an id identify a resource: the one that was named does not exist.
                Some(_) => Err(Refusal::UnknownKey(key.clone())),
                None => Ok(Some(Event::Deleted(before))),
            }
        }
        Command::Restore(restore) => match (find(&restore.key), &restore.to) {
            (Ok(before), None) => Ok(Some(Event::Deleted(before))),
            // The writer checks whether the file already has the exact bytes.
            (Ok(before), Some(after)) => Ok((before != *after || restore.exact_file.is_some())
                .then(|| Event::Updated { before, after: Arc::clone(after) })),
            (Err(_), Some(after)) => create(catalog, after).map(Some),
            (Err(unknown), None) => Err(unknown),
        },
    }
}

/// Returns the collection with an update applied; `kind` is the kind that the caller expects.
///
/// # Errors
///
/// Returns every rule of the expected kind that the patch breaks. If it breaks none, but the collection is of the
/// other kind, returns [`Refusal::KindFixed`].
pub(crate) fn updated(before: &Collection, kind: Option<Kind>, patch: &Patch) -> Result<Collection, Refusal> {
    let Some(asked) = kind.filter(|kind| *kind != before.kind()) else {
        return before.patched(patch).map_err(Refusal::Invalid);
    };
    let key = before.key().clone();
    Collection::empty(key.clone(), asked).patched(patch).map_err(Refusal::Invalid)?;
    Err(Refusal::KindFixed { key, stored: before.kind(), asked })
}

fn create<T: HasCollection>(catalog: &Catalog<T>, collection: &Arc<Collection>) -> Result<Event, Refusal> {
    let key = collection.key();
    if catalog.get(key.as_str()).is_some() {
        return Err(Refusal::KeyTaken(key.clone()));
    }
    if let Some(existing) = catalog.case_variant(key) {
        return Err(Refusal::KeyTakenInOtherCase { key: key.clone(), existing: existing.clone() });
    }
    Ok(Event::Created(Arc::clone(collection)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Value;

    /// Returns the catalog that results from a history of events.
    fn replay<'a>(events: impl IntoIterator<Item = &'a Event>) -> Catalog {
        let mut catalog = Catalog::default();
        for event in events {
            match event {
                Event::Created(after) | Event::Updated { after, .. } => {
                    drop(catalog.insert(Arc::clone(after)));
                }
                Event::Deleted(before) => drop(catalog.remove(before.key().as_str())),
            }
        }
        catalog
    }

    fn key(text: &str) -> Key {
        Key::parse(text).unwrap()
    }

    fn docs(name: &str) -> Collection {
        Collection::new(key(name), Kind::Document, [("name".to_owned(), Value::from(name))]).unwrap()
    }

    fn created(collection: Collection) -> Event {
        Event::Created(Arc::new(collection))
    }

    fn rename(name: &str, to: &str) -> Command {
        Command::Update { key: key(name), kind: None, patch: Patch::new([("name".into(), to.into())]) }
    }

    #[track_caller]
    fn check(given: &[Event], when: &Command, then: Result<Option<Event>, Refusal>) {
        let catalog = replay(given);
        assert_eq!(decide(&catalog, when), then);
    }

    #[test]
    fn a_free_key_is_created() {
        check(&[], &Command::Create(docs("posts")), Ok(Some(created(docs("posts")))));
    }

    #[test]
    fn a_taken_key_is_refused() {
        let media = Collection::new(key("posts"), Kind::Media, []).unwrap();
        for again in [docs("posts"), media] {
            check(&[created(docs("posts"))], &Command::Create(again), Err(Refusal::KeyTaken(key("posts"))));
        }
    }

    #[test]
    fn keys_that_differ_in_case_only_are_refused_both_ways() {
        for (first, second) in [("posts", "Posts"), ("Posts", "posts"), ("pOsts", "Posts")] {
            check(
                &[created(docs(first))],
                &Command::Create(docs(second)),
                Err(Refusal::KeyTakenInOtherCase { key: key(second), existing: key(first) }),
            );
        }
    }

    #[test]
    fn a_key_is_free_again_once_deleted() {
        let gone = Event::Deleted(Arc::new(docs("Posts")));
        check(
            &[created(docs("Posts")), gone],
            &Command::Create(docs("posts")),
            Ok(Some(created(docs("posts")))),
        );
    }

    #[test]
    fn renaming_changes_what_was_asked_for() {
        let before = Arc::new(docs("posts"));
        let after = Arc::new(before.patched(&Patch::new([("name".into(), "All".into())])).unwrap());
        check(
            &[Event::Created(Arc::clone(&before))],
            &rename("posts", "All"),
            Ok(Some(Event::Updated { before, after })),
        );
    }

    #[test]
    fn renaming_to_the_same_name_changes_nothing() {
        check(&[created(docs("posts"))], &rename("posts", "posts"), Ok(None));
    }

    #[test]
    fn what_is_not_there_can_not_be_changed() {
        check(&[], &rename("posts", "x"), Err(Refusal::UnknownKey(key("posts"))));
        check(
            &[],
            &Command::Delete { key: key("posts"), kind: None },
            Err(Refusal::UnknownKey(key("posts"))),
        );
    }

    #[test]
    fn what_was_is_brought_back_whatever_is_there_now() {
        let restore = |to: Option<&Collection>| {
            let reverses = crate::domain::Reversal::Event("x".into());
            let to = to.cloned().map(Arc::new);
            let key = key("posts");
            Command::Restore(Box::new(crate::domain::Restore {
                key,
                expected: None,
                to,
                exact_file: None,
                reverses,
            }))
        };
        let old = docs("posts").patched(&Patch::new([("name".into(), "Old".into())])).unwrap();
        let (before, after) = (Arc::new(docs("posts")), Arc::new(old.clone()));
        let given = [Event::Created(Arc::clone(&before))];
        check(&[], &restore(Some(&old)), Ok(Some(created(old.clone()))));
        check(&given, &restore(Some(&old)), Ok(Some(Event::Updated { before: before.clone(), after })));
        check(&given, &restore(Some(&docs("posts"))), Ok(None));
        check(&given, &restore(None), Ok(Some(Event::Deleted(before))));
        check(&[], &restore(None), Err(Refusal::UnknownKey(key("posts"))));
        let other = [created(docs("Posts"))];
        let taken = Refusal::KeyTakenInOtherCase { key: key("posts"), existing: key("Posts") };
        check(&other, &restore(Some(&old)), Err(taken));
    }

    #[test]
    fn what_is_named_by_another_kind_is_not_deleted() {
        let delete = |kind| Command::Delete { key: key("posts"), kind: Some(kind) };
        let given = [created(docs("posts"))];
        check(&given, &delete(Kind::Media), Err(Refusal::UnknownKey(key("posts"))));
        check(&given, &delete(Kind::Document), Ok(Some(Event::Deleted(Arc::new(docs("posts"))))));
    }

    #[test]
    fn a_kind_can_not_change_and_bad_values_are_told_first() {
        let update = |name: Value| Command::Update {
            key: key("posts"),
            kind: Some(Kind::Media),
            patch: Patch::new([("name".into(), name)]),
        };
        check(
            &[created(docs("posts"))],
            &update("x".into()),
            Err(Refusal::KindFixed { key: key("posts"), stored: Kind::Document, asked: Kind::Media }),
        );
        let refused = decide(&replay(&[created(docs("posts"))]), &update(true.into()));
        assert!(matches!(refused, Err(Refusal::Invalid(_))));
    }
}
