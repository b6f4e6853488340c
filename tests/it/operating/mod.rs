//! What whoever runs the service for others meets.

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
