//! The size limits of the caches of past versions, events and catalogs.

use crate::domain::Change;
use crate::engine::history::event::{Effect, EventMessage, EventRecord, PastFault};
use crate::engine::history::{MissingContent, PastReading};
use crate::engine::layers::ParsedVersion;
use crate::format::Fault;

/// The minimum number of bytes of cached contents; up to twice as many are kept: thousands of ordinary versions.
pub(crate) const VERSIONS_BYTES_MIN: usize = 16 << 20;

/// The minimum number of bytes of cached events, as they are shown; up to twice as many are kept.
pub(crate) const RECORDS_BYTES_MIN: usize = 16 << 20;

/// The minimum number of cached past catalogs; up to twice as many are kept.
pub(crate) const CATALOGS_LEN_MIN: usize = 4;

/// The overhead in bytes of a reading and its cache entry, besides its content.
const READING_BYTES: usize = 256;

/// The overhead in bytes of an event and of the responses made from it, besides its content.
const RECORD_BYTES: usize = 2 << 10;

impl PastReading {
    /// Estimates its size in memory.
    pub(crate) fn bytes(&self) -> usize {
        let memory_bytes = |fault: &Fault| size_of::<Fault>() + fault.message.len();
        let said = match self {
            Self::Good(ParsedVersion { collection, missing_status_names: faults, .. }) => {
                collection.memory_bytes() + faults.iter().map(memory_bytes).sum::<usize>()
            }
            Self::Broken(fault) | Self::Lost(MissingContent { fault, .. }) => fault.bytes(),
        };
        READING_BYTES + said
    }
}

impl EventRecord {
    /// Estimates its size in memory, with what is made from it: the event as JSON, and as the stream sends it.
    pub(crate) fn bytes(&self) -> usize {
        let EventMessage { subject, reason, .. } = &self.commit.message;
        let effect = match &self.effect {
            Effect::Changes(changes) => changes.iter().map(bytes_of_change).sum(),
            Effect::Problem(fault) => fault.bytes(),
        };
        let said = subject.len() + reason.as_ref().map_or(0, String::len) + effect;
        RECORD_BYTES + 3 * said + self.together.as_ref().map_or(0, |keys| size_of_val(&**keys))
    }
}

impl PastFault {
    const fn bytes(&self) -> usize {
        self.path.len() + self.fault.message.len()
    }
}

fn bytes_of_change(Change { attribute, from, to }: &Change) -> usize {
    let values = [from, to].into_iter().flatten().map(|value| value.heap_bytes());
    size_of::<Change>() + attribute.len() + values.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Key;
    use crate::domain::file_name::FileExtension;
    use crate::engine::history::index::row::Version;
    use crate::engine::history::{EventPageQuery, Filter, History, Options, SharedHistory};
    use crate::store::git::testing::Repo;
    use crate::store::{BlobId, TreeEntry};

    const ORDINARY: &str =
        "type: document\nname: Posts\ndirectory: content/posts\nrecursive: true\nformat: markdown\n";

    fn version(n: u32) -> Version {
        Version { ending: FileExtension::Yaml, entry: TreeEntry::File(BlobId::of(&n.to_be_bytes())) }
    }

    /// Reports whether the first of `count` versions is still cached after the last one was read.
    fn keeps_first(text: &str, count: u32) -> bool {
        let shared = SharedHistory::new(Repo::bare().archive(), Options::new("collections"));
        let key = Key::parse("posts").unwrap();
        let reading = shared.parse(&key, version(0), BlobId::of(text.as_bytes()), text.as_bytes());
        assert!(matches!(reading, PastReading::Good(_)), "{reading:?}");
        (0..count).for_each(|n| shared.keep(&key, version(n), &reading));
        assert!(shared.versions.get(&(key.clone(), version(count - 1))).is_some());
        shared.versions.get(&(key, version(0))).is_some()
    }

    #[test]
    fn the_larger_versions_are_the_fewer_are_cached() {
        assert!(keeps_first(ORDINARY, 4_096));
        for values in ["x".repeat(60_000), format!("[{}]", "1,".repeat(30_000))] {
            let large = format!("type: document\nx-large: {values}\n");
            assert!(keeps_first(&large, 20));
            assert!(!keeps_first(&large, 1_000));
        }
    }

    #[test]
    fn thousands_of_ordinary_events_are_cached() {
        let repo = Repo::bare();
        repo.add_commit(&[("posts.yaml", ORDINARY)], "one");
        let view = History::read(repo.archive(), &Options::new("collections")).unwrap();
        let event = &view.events(&Filter::default(), &EventPageQuery::first(1)).unwrap().events[0];
        assert!(RECORDS_BYTES_MIN / event.bytes() >= 2_048, "{} bytes", event.bytes());
    }
}
