//! What whoever runs the service for others meets.

mod access_log;
mod backup;
mod commands;
mod metrics;
mod supervised;
mod tls;
mod webhooks;
