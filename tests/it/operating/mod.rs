//! What whoever runs the service for others meets.

mod backup;
mod commands;
mod supervised;
mod tls;
mod webhooks;
