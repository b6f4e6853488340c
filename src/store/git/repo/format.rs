//! The format version of our own files in a repository, which lets an older version of the service explain why it
//! can't open them.

use std::path::PathBuf;

use crate::store::StoreError;
use crate::store::git::disk::barrier::read_own_if_there;
use crate::store::git::disk::state_file::overwrite;
use crate::store::git::repo::layout::Layout;

/// The format that this version writes, and the newest that it reads. It is incremented when an older version would
/// misinterpret what is written. A file that records its own format and is rebuilt on a mismatch does not require
/// that.
const FORMAT: u32 = 1;

/// Refuses a repository whose format is newer than [`FORMAT`]. Without a note the first format is assumed.
pub(crate) fn check(layout: &Layout) -> Result<(), StoreError> {
    let noted = read_own_if_there(&path(layout))?.unwrap_or_default();
    let noted = String::from_utf8_lossy(&noted).trim().parse().unwrap_or(FORMAT);
    if noted <= FORMAT {
        return Ok(());
    }
    let why = format!(
        "a newer version of Collectory has served it (its own files have the format {noted}, and this version knows \
         {FORMAT}): start that version again"
    );
    Err(layout.unsuitable(why))
}

/// Records the format that is written from now on. It costs no flush: a lost note is written again at the next start.
pub(crate) fn note(layout: &Layout) -> Result<(), StoreError> {
    let (path, text) = (path(layout), format!("{FORMAT}\n"));
    if read_own_if_there(&path)?.as_deref() == Some(text.as_bytes()) {
        return Ok(());
    }
    overwrite(&path, text.as_bytes()).map(drop)
}

fn path(layout: &Layout) -> PathBuf {
    layout.state().join("format")
}
