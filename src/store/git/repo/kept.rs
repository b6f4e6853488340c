//! Former heads of the branch, kept as refs so that `git gc` leaves what they reach.
//!
//! They are let go after the time that git keeps reflogs for, since that is how long a person who has moved
//! a branch by mistake is used to find the way back.

use std::time::Duration;

use chrono::{DateTime, Months, TimeDelta, Utc};

use crate::domain::Revision;
use crate::store::git::disk::barrier::{Barrier, remove_if_there};
use crate::store::git::disk::lock::{HeldLock, LockDraft};
use crate::store::git::repo::layout::{self, Layout};
use crate::store::git::repo::refs;
use crate::store::{AtPath as _, Kept, StoreError};

/// Git's own default of `gc.reflogExpire`.
pub(crate) const EXPIRE_DEFAULT: &str = "90.days";

/// Keeps a commit, unless it is kept; all that it reaches is flushed first, since git flushes little of what
/// people commit.
pub(crate) fn keep(layout: &Layout, kept: Kept, barrier: &Barrier) -> Result<Kept, StoreError> {
    if let Some(known) = all(layout)?.into_iter().find(|known| known.revision == kept.revision) {
        return Ok(known);
    }
    barrier.file_system(&layout.common_dir)?;
    create(layout, &name_of(&kept), kept.revision, barrier)?;
    Ok(kept)
}

/// What is kept now; see [`Journal::kept`](crate::store::Journal::kept).
pub(crate) fn current(
    layout: &Layout,
    now: DateTime<Utc>,
    barrier: &Barrier,
) -> Result<Vec<Kept>, StoreError> {
    if let Err(error) = expire(layout, now, barrier) {
        tracing::warn!(%error, cause = error.cause(), "what was kept for long enough could not be let go; it is tried again");
    }
    all(layout)
}

/// Lets go what nobody wants kept any more.
pub(crate) fn let_go(layout: &Layout, kept: &[Kept], barrier: &Barrier) -> Result<(), StoreError> {
    let names: Vec<String> = kept.iter().map(name_of).collect();
    if names.is_empty() { Ok(()) } else { remove(layout, &names, barrier) }
}

fn name_of(kept: &Kept) -> String {
    format!("{}{}", Kept::REFS, kept.name)
}

/// What is kept, the oldest first. What is named otherwise, or can't be read, is not ours.
fn all(layout: &Layout) -> Result<Vec<Kept>, StoreError> {
    let read = |name: String| {
        let revision = refs::read(&layout.common_dir, &name).ok()??;
        Kept::parse(name.strip_prefix(Kept::REFS)?, Revision::new(revision))
    };
    Ok(refs::names(&layout.common_dir, Kept::REFS)?.into_iter().filter_map(read).collect())
}

fn expire(layout: &Layout, now: DateTime<Utc>, barrier: &Barrier) -> Result<(), StoreError> {
    let mut kept = all(layout)?;
    if kept.is_empty() {
        return Ok(());
    }
    let setting = layout::reflog_expire(layout)?;
    let Some(until) = expired_until(setting.as_deref().unwrap_or(EXPIRE_DEFAULT), now) else { return Ok(()) };
    kept.retain(|kept| kept.at <= until);
    if !kept.is_empty() {
        let refs = kept.iter().map(name_of).collect::<Vec<_>>().join(" ");
        tracing::info!(refs, "what was kept of a rewritten branch is let go (gc.reflogExpire)");
    }
    let_go(layout, &kept, barrier)
}

/// Makes a ref that nobody else makes, durably; what it names is on disk already.
fn create(layout: &Layout, name: &str, target: Revision, barrier: &Barrier) -> Result<(), StoreError> {
    let path = layout.common_dir.join(name);
    let folder = path.parent().expect("a ref is below refs");
    barrier.make_folder(&layout.common_dir, folder)?;
    let content = format!("{target}\n");
    let draft = LockDraft::write(&layout.state(), &path, content.as_bytes())?;
    barrier.files(&[draft.content()])?;
    draft.take(Duration::ZERO)?.commit()?;
    barrier.folder(folder)
}

/// Removes refs that nobody else moves. A packed one goes first, as `files_transaction_finish` in
/// `refs/files-backend.c` does it: when its file goes, it would be back.
fn remove(layout: &Layout, names: &[String], barrier: &Barrier) -> Result<(), StoreError> {
    let path = layout.common_dir.join("packed-refs");
    let before = refs::packed(&layout.common_dir)?.unwrap_or_default();
    let after = without(&before, names);
    if after != before {
        let draft = LockDraft::write(&layout.state(), &path, &after)?;
        // Of all refs that are packed, so never half.
        barrier.files(&[draft.content()])?;
        let lock = draft.take(Duration::ZERO)?;
        if refs::packed(&layout.common_dir)?.unwrap_or_default() != before {
            return Err(StoreError::Locked { path });
        }
        lock.commit()?;
    }
    for name in names {
        let path = layout.common_dir.join(name);
        // Git packs a ref away together with the folder that it leaves empty.
        if !path.try_exists().at("look for", &path)? {
            continue;
        }
        let _lock = HeldLock::take(&layout.state(), &path, Duration::ZERO)?;
        remove_if_there(&path)?;
    }
    Ok(())
}

/// What is left of `packed-refs`, with what a tag points at as long as the tag stays.
fn without(refs: &[u8], names: &[String]) -> Vec<u8> {
    let mut goes = false;
    let lines = refs.split_inclusive(|byte| *byte == b'\n');
    let stays = lines.filter(|line| {
        if !line.starts_with(b"^") {
            goes = refs::packed_lines(line).any(|(_, name)| names.iter().any(|it| it.as_bytes() == name));
        }
        !goes
    });
    stays.flatten().copied().collect()
}

/// The time up to which a setting lets go (`parse_expiry_date` in git's `date.c`): `never`, `now`, or a time
/// before now, `90 days` or `2.weeks.1.day.ago`. What is written otherwise lets go of nothing.
pub(crate) fn expired_until(setting: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    if matches!(setting, "now" | "all") {
        return Some(now);
    }
    let words = setting.split(|it: char| it == '.' || it.is_whitespace()).filter(|word| !word.is_empty());
    let mut words = words.filter(|word| *word != "ago").peekable();
    words.peek()?;
    let mut until = now;
    while let Some(count) = words.next() {
        until = before(until, count.parse().ok()?, words.next()?)?;
    }
    Some(until)
}

fn before(time: DateTime<Utc>, count: u32, unit: &str) -> Option<DateTime<Utc>> {
    let seconds = match unit.to_ascii_lowercase().trim_end_matches('s') {
        "second" => 1,
        "minute" => 60,
        "hour" => 3_600,
        "day" => 86_400,
        "week" => 7 * 86_400,
        "month" => return time.checked_sub_months(Months::new(count)),
        "year" => return time.checked_sub_months(Months::new(count.checked_mul(12)?)),
        _ => return None,
    };
    time.checked_sub_signed(TimeDelta::seconds(i64::from(count) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_says_for_how_long() {
        let now: DateTime<Utc> = "2026-03-31T00:00:00Z".parse().unwrap();
        let until = |setting| expired_until(setting, now).map(|at| at.to_rfc3339());
        for (setting, date) in [
            ("90.days", "2025-12-31"),
            ("90 days", "2025-12-31"),
            ("2.weeks.1.day.ago", "2026-03-16"),
            ("1 Month ago", "2026-02-28"),
            ("1.year", "2025-03-31"),
            ("48 hours", "2026-03-29"),
            ("now", "2026-03-31"),
        ] {
            assert_eq!(until(setting), Some(format!("{date}T00:00:00+00:00")), "{setting}");
        }
        for setting in ["never", "false", "", "ninety days", "90", "5.fortnights"] {
            assert_eq!(until(setting), None, "{setting}");
        }
    }
}
