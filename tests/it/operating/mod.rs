//! The service as its operators see it.

mod access_log;
mod backup;
mod commands;
mod doctor;
mod metrics;
mod supervised;
mod tls;
mod upgrade;
mod webhooks;

pub(crate) use metrics::samples;
