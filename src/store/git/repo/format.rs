//! Which form the files of our own have in a repository, so that an older version says why it can't go on.

use crate::store::StoreError;
use crate::store::git::disk::barrier::Barrier;
use crate::store::git::disk::state_file::StateFile;
use crate::store::git::repo::layout::Layout;

/// The form that this version writes, and the newest that it reads. It grows when an older version would take
/// what is written for something else; a file that says itself that it does not fit, and is made anew, is no
/// reason.
const FORMAT: u32 = 1;

/// Refuses what only a newer version knows. Without a note it is the first form.
pub(crate) fn check(layout: &Layout, barrier: &Barrier) -> Result<(), StoreError> {
    let noted = file(layout, barrier).read()?.unwrap_or_default();
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

/// Notes the form that is written from now on. It costs no flush: what is lost is noted at the next start.
pub(crate) fn note(layout: &Layout, barrier: &Barrier) -> Result<(), StoreError> {
    let (file, text) = (file(layout, barrier), format!("{FORMAT}\n"));
    if file.read()?.as_deref() == Some(text.as_bytes()) {
        return Ok(());
    }
    file.overwrite(text.as_bytes()).map(drop)
}

fn file(layout: &Layout, barrier: &Barrier) -> StateFile {
    StateFile::new(&layout.state(), "format", barrier)
}
