//! The webhook receivers: the configuration, and the file that lists them.

use std::path::Path;
use std::sync::Arc;

use crate::config::{WebhookConfig, read_named};
use crate::engine::history::History;
use crate::format;
use crate::format::webhooks::Receiver;
use crate::http;
use crate::service::StartError;
use crate::shutdown::Shutdown;
use crate::store::Archive;
use crate::webhooks::{Options, Webhooks, check_actions};

/// Reads the receivers that the file lists.
///
/// # Errors
///
/// Fails with what is wrong in the file, and where.
pub(super) fn receivers(config: &WebhookConfig) -> Result<Option<Vec<Receiver>>, StartError> {
    let Some(path) = &config.file else { return Ok(None) };
    read(path).map(Some).map_err(StartError::Webhooks)
}

/// Starts to deliver to them.
pub(super) fn start(
    config: &WebhookConfig,
    receivers: Vec<Receiver>,
    history: History,
    archive: Arc<dyn Archive>,
    shutdown: &Shutdown,
) -> Arc<Webhooks> {
    let options = Options { allow_private: config.allow_private, retry_max: config.retry_max };
    let path = config.file.clone().unwrap_or_default();
    let again = Box::new(move || read(&path));
    let webhooks = Webhooks::new(history, archive, again, options, shutdown.clone());
    webhooks.deliver_to(receivers);
    Arc::new(webhooks)
}

/// Provides their status to the API.
pub(super) fn for_api(webhooks: Option<&Arc<Webhooks>>) -> http::ReceiverStatuses {
    let webhooks = webhooks.cloned();
    http::ReceiverStatuses(
        webhooks
            .map(|webhooks| -> Arc<dyn Fn() -> _ + Send + Sync> { Arc::new(move || webhooks.receivers()) }),
    )
}

fn read(path: &Path) -> Result<Vec<Receiver>, String> {
    let shown = path.display();
    let bytes = read_named(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let receivers = format::webhooks::read(&bytes).map_err(|fault| format!("{shown}:{fault}"))?;
    check_actions(&receivers).map_err(|fault| format!("{shown}: {fault}"))?;
    Ok(receivers)
}
