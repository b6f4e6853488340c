//! Changes of a repository that no service serves.

use anyhow::anyhow;

use crate::cli::Failure;
use crate::cli::flags::repository::{FolderArgs, Signing};
use crate::config::ServeConfig;
use crate::service::{Offline, StartError};
use crate::store::StoreError;

/// Applies a command's flags to the configuration.
pub(super) fn configured(
    mut config: ServeConfig,
    branch: Option<String>,
    folder: &FolderArgs,
    signing: &Signing,
) -> ServeConfig {
    config.repository.branch = branch;
    config.repository.folder.clone_from(&folder.path);
    config.commits.signing_key.clone_from(&signing.key);
    config
}

/// Opens the repository, changes it, and closes it.
pub(super) fn change<T>(
    config: &ServeConfig,
    change: impl AsyncFnOnce(&Offline) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let offline = Offline::open(config).await.map_err(served)?;
        let changed = change(&offline).await;
        offline.close().await;
        changed
    })
}

/// Suggests `--to` if a service has the repository open.
fn served(error: StartError) -> anyhow::Error {
    match error {
        StartError::Repository(StoreError::Served { .. }) => anyhow!(
            "a service serves this repository; go through it: --to http://HOST:PORT/ (and --token-file FILE)"
        ),
        error => error.into(),
    }
}
