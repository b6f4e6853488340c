//! Answers and log messages for submissions that the repository can't take.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use crate::engine::signal::Job;
use crate::engine::submission::error::SubmitError;
use crate::store::StoreError;
use crate::store::remote::RemoteError;
use crate::telemetry::error_chain;

/// Refuses a whole batch that the repository could not take, and logs each request within its own span.
pub(crate) fn refuse(jobs: Vec<Job>, error: &StoreError) {
    for job in jobs {
        let answer = job.span.in_scope(|| refusal(error));
        job.answer(Err(answer));
    }
}

/// Returns the answer to the client when the repository fails, and logs the failure for the operator.
pub(crate) fn refusal(error: &StoreError) -> SubmitError {
    match error {
        StoreError::Locked { path } => {
            tracing::warn!(path = %path.display(), "{error}");
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            unavailable(&format!("another git process holds the lock file `{name}`, try again"))
        }
        StoreError::CheckedOutElsewhere { branch, .. } => {
            tracing::warn!("{error}");
            let branch = branch.strip_prefix("refs/heads/").unwrap_or(branch);
            unavailable(&format!(
                "the branch `{branch}` is checked out in another work tree, whose next commit would revert this"
            ))
        }
        StoreError::Remote(error) => of_remote(error),
        StoreError::HeadMoved { .. }
        | StoreError::Served { .. }
        | StoreError::Unsuitable { .. }
        | StoreError::Misnamed(_)
        | StoreError::Sign(_)
        | StoreError::Path { .. }
        | StoreError::Damaged { .. }
        | StoreError::Collision { .. }
        | StoreError::Git { .. } => {
            let hint = hint_for(error);
            tracing::error!(error = %error_chain(error), hint, "the repository could not be written");
            unavailable("the repository cannot be written at the moment")
        }
    }
}

/// Returns the answer to the client when the remote prevents a write; the reason has been logged before.
fn of_remote(error: &RemoteError) -> SubmitError {
    match error {
        RemoteError::Unreachable(_)
        | RemoteError::Unsound(_)
        | RemoteError::Lagging
        | RemoteError::Pending => SubmitError::RemoteUnreachable,
        RemoteError::Refused(why) => SubmitError::RemoteRefused { why: why.clone() },
        RemoteError::OutcomeUnknown => SubmitError::OutcomeUnknown { events: Vec::new() },
        RemoteError::Stopped(why) => unavailable(why),
        RemoteError::FarAhead { .. } | RemoteError::LostRaces => unavailable(&error.to_string()),
    }
}

/// Returns why the repository can't be read, without any path of the machine; the log has the full text.
pub(crate) fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Path { action, path, source } => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            format!("cannot {action} `{name}`: {}", io_reason(source))
        }
        StoreError::Unsuitable { why, .. } => why.clone(),
        StoreError::Locked { path } => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            format!("another git process holds the lock file `{name}`")
        }
        StoreError::Served { .. } => "another service serves it".to_owned(),
        StoreError::CheckedOutElsewhere { .. } => "another work tree shows its branch".to_owned(),
        // The text may contain paths of that machine; the log has it.
        StoreError::Remote(RemoteError::Unreachable(_)) => "the remote cannot be reached".to_owned(),
        StoreError::Remote(error) => error.to_string(),
        StoreError::HeadMoved { found: None, .. } => "its branch is gone".to_owned(),
        StoreError::HeadMoved { .. }
        | StoreError::Misnamed(_)
        | StoreError::Sign(_)
        | StoreError::Damaged { .. }
        | StoreError::Collision { .. }
        | StoreError::Git { .. } => error.to_string(),
    }
}

/// Returns what the system says about an error, such as "Input/output error": only text of its own, which has no paths.
fn io_reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => error.to_string().replace(&format!(" (os error {number})"), ""),
        None => error.kind().to_string(),
    }
}

/// Returns what the operator can do about the error.
fn hint_for(error: &StoreError) -> &'static str {
    use std::io::ErrorKind;
    if matches!(error, StoreError::HeadMoved { found: None, .. }) {
        return "`git branch NAME REVISION`, with what the branch had, brings it back; writes go on by themselves then";
    }
    let mut causes = std::iter::successors(error.source(), |&cause| cause.source());
    match causes.find_map(|cause| cause.downcast_ref()).map(std::io::Error::kind) {
        Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            "make room on the disk; writes go on by themselves then"
        }
        Some(ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied) => {
            "let the service's user write to the repository; writes go on by themselves then"
        }
        _ => "run `git fsck --full` in the repository; writes go on by themselves once the cause is gone",
    }
}

pub(crate) fn unavailable(reason: &str) -> SubmitError {
    SubmitError::Unavailable { reason: reason.to_owned(), retry_after: RETRY_AFTER }
}

/// Time after which a client should retry when the repository could not be written.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_in_the_words_of_the_system_and_has_no_path() {
        let at =
            |source| reason(&StoreError::Path { action: "read", path: "/srv/settings/HEAD".into(), source });
        assert_eq!(at(io::Error::from_raw_os_error(5)), "cannot read `HEAD`: Input/output error");
        assert_eq!(at(io::Error::other("/srv/settings is odd")), "cannot read `HEAD`: other error");
        let locked = StoreError::Locked { path: "/srv/settings/HEAD.lock".into() };
        assert_eq!(reason(&locked), "another git process holds the lock file `HEAD.lock`");
    }

    #[test]
    fn who_has_removed_the_branch_is_told_how_it_comes_back() {
        let gone = StoreError::HeadMoved { expected: None, found: None };
        assert!(hint_for(&gone).contains("git branch"), "{}", hint_for(&gone));
    }
}
