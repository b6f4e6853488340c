//! Handles on the object database.
//!
//! libgit2's handles can't be shared between threads, so there is a small pool of them: each
//! reader borrows one and gives it back.
//!
//! libgit2 adds packs to a handle as they come and never lets go of one that is gone, with its file
//! open and its space on the disk taken. So a handle is given up when the folder of the packs has
//! changed a number of times since ([`Handle::is_worn`]).

use std::fs;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use git2::{ErrorCode, ObjectType, Odb, OdbObject, Oid};

use crate::domain::Revision;
use crate::store::StoreError;
use crate::store::git::repo::layout::Place;

/// How many handles are kept open when nobody uses them.
const IDLE_HANDLES_MAX: usize = 8;

/// How often the folder of the packs may change before a handle is opened anew. Doing so costs about as
/// much as looking into as many packs.
const CHANGES_MAX: u32 = 32;

/// The handles that nobody uses at the moment.
#[derive(Default)]
pub(super) struct Handles {
    idle: Mutex<Vec<Handle>>,
}

impl Handles {
    /// Lends a handle on the objects of a place, always the same one.
    pub(super) fn borrow(&self, place: &Place) -> Result<Borrowed<'_>, StoreError> {
        let packs = fs::metadata(place.packs()).and_then(|folder| folder.modified()).ok();
        let mut idle = self.idle();
        idle.iter_mut().for_each(|handle| handle.see(packs));
        idle.retain(|handle| !handle.is_worn());
        let handle = idle.pop();
        drop(idle);
        let handle = match handle {
            Some(handle) => handle,
            None => Handle { odb: open(place)?, packs, changes: 0 },
        };
        Ok(Borrowed { handles: self, handle: Some(handle) })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Handle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open object database.
struct Handle {
    odb: Odb<'static>,
    /// When the folder of the packs had changed last when this was lent last.
    packs: Option<SystemTime>,
    /// How often it has been another time.
    changes: u32,
}

impl Handle {
    fn see(&mut self, packs: Option<SystemTime>) {
        if self.packs != packs {
            self.packs = packs;
            self.changes += 1;
        }
    }

    /// Whether too many of the packs that it holds may be gone.
    const fn is_worn(&self) -> bool {
        self.changes > CHANGES_MAX
    }
}

/// A handle on loan.
pub(super) struct Borrowed<'a> {
    handles: &'a Handles,
    handle: Option<Handle>,
}

impl Deref for Borrowed<'_> {
    type Target = Odb<'static>;

    fn deref(&self) -> &Odb<'static> {
        &self.handle.as_ref().expect("a handle is given back only at the end").odb
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let mut idle = self.handles.idle();
        if idle.len() < IDLE_HANDLES_MAX {
            idle.extend(self.handle.take());
        }
    }
}

fn open(place: &Place) -> Result<Odb<'static>, StoreError> {
    let folder = place.common_dir.join("objects");
    let open = || -> Result<Odb<'static>, git2::Error> {
        let path = folder.to_str().ok_or_else(|| git2::Error::from_str("its path is not UTF-8"))?;
        let odb = Odb::new()?;
        odb.add_disk_alternate(path)?;
        Ok(odb)
    };
    open().map_err(|source| failed(&format!("open {}", folder.display()), source))
}

fn failed(action: &str, source: git2::Error) -> StoreError {
    StoreError::Git { action: action.to_owned(), source }
}

pub(super) fn oid(bytes: &[u8; 20]) -> Oid {
    Oid::from_bytes(bytes).expect("an id has 20 bytes")
}

/// Reads an object; `None` if there is none of this kind.
pub(super) fn object<'a>(
    odb: &'a Odb<'_>,
    id: &[u8; 20],
    kind: ObjectType,
) -> Result<Option<OdbObject<'a>>, StoreError> {
    match odb.read(oid(id)) {
        Ok(object) => Ok((object.kind() == kind).then_some(object)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(source) => Err(failed(&format!("read the object {}", oid(id)), source)),
    }
}

/// An object that something in the repository names, so that it has to be there.
pub(super) fn needed<'a>(
    odb: &'a Odb<'_>,
    id: &[u8; 20],
    kind: ObjectType,
) -> Result<OdbObject<'a>, StoreError> {
    let missing = || git2::Error::from_str("it is missing; run `git fsck --full` in the repository");
    object(odb, id, kind)?.ok_or_else(|| failed(&format!("read the {} {}", kind.str(), oid(id)), missing()))
}

pub(super) fn not_a_commit(revision: Revision) -> StoreError {
    failed(&format!("read the commit {revision}"), git2::Error::from_str("it can't be parsed"))
}
