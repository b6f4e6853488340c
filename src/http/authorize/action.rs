//! The actions that the authorizer is asked about.

use crate::domain::{Collection, Key, Patch};
#[cfg(doc)]
use crate::http::authorize::Allowed;

/// What is about to happen. More variants will be added.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Action<'a> {
    /// List the collections. See [`Allowed::with_visibility`] for showing only some of them.
    List,
    /// Read one collection.
    Read {
        /// The collection, which need not exist.
        key: &'a Key,
    },
    /// Create a collection.
    Create {
        /// The key that the request names, if it could be read. Without one the request will be refused with 400
        /// even if it is allowed.
        key: Option<&'a Key>,
        /// The new collection, if the request describes a valid one.
        content: Option<&'a Collection>,
    },
    /// Change a collection.
    Update {
        /// The collection, which need not exist.
        key: &'a Key,
        /// The changes, if they could be read.
        content: Option<&'a Patch>,
    },
    /// Delete a collection.
    Delete {
        /// The collection, which need not exist.
        key: &'a Key,
    },
    /// Follow what is served, all collections or one; see [`Allowed::with_visibility`]. The hook is asked again in the same
    /// way as for [`StreamEvents`](Self::StreamEvents).
    Follow {
        /// The collection, if only one is followed; it need not exist.
        key: Option<&'a Key>,
    },
    /// Read the problems of the repository.
    ReadProblems,
    /// List the collections as they were (`asOf`); see [`Allowed::with_visibility`].
    ListPast,
    /// Read one collection as it was (`asOf`).
    ReadPast {
        /// The collection, which need not exist.
        key: &'a Key,
    },
    /// Read a page of events. See [`Allowed::with_visibility`] for showing only those of some keys.
    ListEvents {
        /// The collection, if the request is for its events only; it need not exist.
        key: Option<&'a Key>,
    },
    /// Follow events as they happen; see [`Allowed::with_visibility`]. The hook is asked again, with the head of the same
    /// request, before more is sent: for each batch of events that are read together (usually one commit), and for
    /// each heartbeat. A denial ends the stream.
    StreamEvents {
        /// The collection, if the request is for its events only; it need not exist.
        key: Option<&'a Key>,
    },
    /// Read one event.
    ReadEvent {
        /// The event's collection. `None` if the event does not exist; the answer is then 404 if this is allowed.
        key: Option<&'a Key>,
    },
    /// Read the differences between two revisions; see [`Allowed::with_visibility`].
    ReadDifference,
    /// Read which events gave a collection its values.
    ReadBlame {
        /// The collection, which need not exist.
        key: &'a Key,
    },
    /// Read the token of what is served now; see [`Allowed::with_visibility`].
    ReadSyncToken,
    /// Poll for changes; see [`Allowed::with_visibility`].
    ReadChanges,
    /// Undo one event.
    UndoEvent {
        /// The event's collection. `None` if the event does not exist; the answer is then 404 if this is allowed.
        key: Option<&'a Key>,
    },
    /// Restore a collection to a past state.
    Restore {
        /// The collection, which need not exist.
        key: &'a Key,
    },
    /// Read the capabilities of the service.
    ReadCapabilities,
    /// Read the OpenAPI document.
    ReadOpenApi,
    /// Operate the service itself: its remote, its webhooks.
    Operate,
}

/// Names the actions, and numbers them in this order.
macro_rules! actions {
    ($($action:ident => $name:literal,)+) => {
        /// The names of all actions, by number.
        pub(crate) const ACTIONS: [&str; [$($name),+].len()] = [$($name),+];

        impl Action<'_> {
            /// The number of the action, as an index for counters.
            pub(crate) const fn number(&self) -> usize {
                enum Number { $($action,)+ }
                match self {
                    $(Self::$action { .. } => Number::$action as usize,)+
                }
            }
        }
    };
}

actions! {
    List => "list",
    Read => "read",
    Create => "create",
    Update => "update",
    Delete => "delete",
    Follow => "follow",
    ReadProblems => "read-problems",
    ListPast => "list-past",
    ReadPast => "read-past",
    ListEvents => "list-events",
    StreamEvents => "stream-events",
    ReadEvent => "read-event",
    ReadDifference => "read-difference",
    ReadBlame => "read-blame",
    ReadSyncToken => "read-sync-token",
    ReadChanges => "read-changes",
    UndoEvent => "undo-event",
    Restore => "restore",
    ReadCapabilities => "read-capabilities",
    ReadOpenApi => "read-openapi",
    Operate => "operate",
}

impl Action<'_> {
    /// Reports whether the action changes collections.
    pub(crate) const fn is_write(&self) -> bool {
        matches!(
            self,
            Self::Create { .. }
                | Self::Update { .. }
                | Self::Delete { .. }
                | Self::UndoEvent { .. }
                | Self::Restore { .. }
        )
    }
}

/// A predicate that selects some of the actions.
pub(crate) type Actions = fn(&Action<'_>) -> bool;
