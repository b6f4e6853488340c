//! The signers that are trusted, as git is configured here.

use std::fs;
use std::path::Path;

use crate::store::git::signature_files;
use crate::store::signature::{AllowedSigners, SignatureChecker};

/// Returns the checker of commit signatures. If a list can't be read, that is logged, and nothing in it is trusted.
pub(super) fn checker(repository: &Path) -> SignatureChecker {
    let files = match signature_files(repository) {
        Ok(files) => files,
        Err(error) => {
            tracing::warn!(%error, "git's configuration of signatures can't be read");
            return SignatureChecker::default();
        }
    };
    let allowed = files.allowed_signers.as_deref().map(|path| AllowedSigners::parse(&read(path)).0);
    let mut checker = SignatureChecker::new(allowed);
    if let Some(path) = &files.revoked_keys
        && let Err(error) = checker.revoke(&read(path))
    {
        tracing::warn!(%error, path = %path.display(), "the revoked keys can't be taken");
    }
    checker
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| {
        tracing::warn!(%error, path = %path.display(), "a list of keys can't be read");
        Vec::new()
    })
}
