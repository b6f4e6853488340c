//! The policy file, and a running service.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use chrono::{DateTime, TimeDelta};

use crate::cli::doctor::Finding;
use crate::cli::healthcheck;
use crate::format;
use crate::http::Clock;
use crate::store::remote::without_userinfo;

/// The maximum difference between two clocks.
const CLOCK_SLACK: TimeDelta = TimeDelta::minutes(1);

/// Checks the policy file: whether others may change or read it, and whether it is valid.
pub(super) fn policy(path: &Path, findings: &mut Vec<Finding>) {
    let shown = path.display();
    let (mode, bytes) = match fs::metadata(path)
        .and_then(|file| Ok((file.permissions().mode(), fs::read(path)?)))
    {
        Ok(found) => found,
        Err(error) => {
            let what = format!("{shown} can't be read: {error}");
            let why = "without it no service starts, and a running one keeps to what it knows";
            return findings.push(Finding::wrong("policy", what, why, "let the user of the service read it"));
        }
    };
    if mode & 0o022 != 0 {
        let what = format!("others than its owner may change {shown} (mode {:o})", mode & 0o777);
        let why = "whoever changes it may do everything";
        findings.push(Finding::wrong("policy", what, why, format!("chmod go-w '{shown}'")));
    } else if mode & 0o004 != 0 {
        let what = format!("everybody on this machine may read {shown} (mode {:o})", mode & 0o777);
        let why = "it has no secrets, and tells names, addresses and rights";
        findings.push(Finding::hint("policy", what, why, format!("chmod o-r '{shown}'")));
    }
    if let Err(fault) = format::policy::read(&bytes) {
        let what = format!("{shown}:{fault}");
        let why = "a service that runs keeps the last good one, and none starts with it";
        findings.push(Finding::wrong("policy", what, why, "mend the line that is named"));
    }
}

/// Checks that a service answers, is ready, and has the same time.
pub(super) fn address(url: &str, findings: &mut Vec<Finding>) {
    match healthcheck::asked_at(url) {
        Err(error) => {
            let fix = "start the service, or look into its log";
            findings.push(Finding::wrong(
                "service",
                without_userinfo(&format!("{error:#}")),
                "it is not ready to answer requests",
                fix,
            ));
        }
        Ok(date) => {
            let there = date.and_then(|date| DateTime::parse_from_rfc2822(&date).ok());
            let here = Clock::system().now();
            if let Some(there) = there.filter(|there| (here - there.to_utc()).abs() > CLOCK_SLACK) {
                let what = format!("it is {} there and {} here", there.to_rfc3339(), here.to_rfc3339());
                let fix = "set the clocks by NTP";
                findings.push(Finding::wrong(
                    "clock",
                    what,
                    "times, `asOf` and the end of tokens are wrong",
                    fix,
                ));
            }
        }
    }
}
