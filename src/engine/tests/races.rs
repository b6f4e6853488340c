//! Branches that are moved by someone else while a write is in progress.

use crate::engine::tests::*;
use crate::store::memory::InjectedFault;

#[test]
fn writes_that_come_while_a_race_is_lost_are_decided_with_those_that_lost_it() {
    let journal = MemoryJournal::new();
    for name in ["gone", "one", "other"] {
        commit(&journal, &format!("{name}.yaml"), &named(name));
    }
    let running = Running::on(&journal);
    let before = journal.appends();
    journal.fail_next(InjectedFault::BusyRace([("gone.yaml".to_owned(), None)].to_vec()));
    thread::scope(|scope| {
        let one = scope.spawn(|| running.submit(rename("one", "First")));
        running.eventually("the race is lost", |_| (journal.appends() > before).then_some(()));
        let other = scope.spawn(|| running.submit(rename("other", "Second")));
        running.eventually("the other waits", |running| {
            let signals = &running.engine.signals;
            (signals.capacity() < signals.max_capacity()).then_some(())
        });
        journal.set_busy(false);
        one.join().unwrap().unwrap();
        other.join().unwrap().unwrap();
    });
    assert_eq!(journal.appends(), before + 2, "one that was lost, and one with both");
    assert_eq!(running.shown("gone"), None);
    running.stop();
}
