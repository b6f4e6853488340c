//! What whoever runs the service for others meets.

mod access_log;
mod backup;
mod commands;
mod doctor;
pub(crate) mod metrics;
mod supervised;
mod tls;
mod upgrade;
mod webhooks;
