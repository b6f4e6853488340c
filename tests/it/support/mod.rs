//! The harness of the tests: the real program on a real repository, and a client that checks every answer.
//!
//! Nothing here uses the code of the service. The harness starts it as a process, talks to it over a socket and
//! inspects the repository with the `git` command, so that a passing test is evidence of what a user gets.

mod answer;
mod chosen;
mod client;
mod documents;
mod fixtures;
mod git_servers;
mod patience;
mod policy;
mod process;
mod proxy;
mod raw;
mod repo;
mod schema;
mod server;
mod setup;
mod stream;

pub(crate) use answer::{Answer, CheckedAnswer};
pub(crate) use chosen::{env_or, story_seeds};
pub(crate) use client::{ATOMIC, Client, JSON_API};
pub(crate) use documents::{
    add_operation, document, media, remove_operation, restore_document, update_operation,
};
pub(crate) use fixtures::{fixture, request_fixture};
pub(crate) use git_servers::{
    AUTHORIZATION, Daemon, ServedFolders, TOKEN, git_daemon, serve_fixed_response, serve_http, sshd,
};
pub(crate) use patience::{DEADLINE, eventually, eventually_status, eventually_sync};
pub(crate) use policy::{policy_of, token_hash};
pub(crate) use process::{Process, ProgramOutput, collectory_command, run, run_to_end};
pub(crate) use proxy::{Proxy, ProxyMode};
pub(crate) use raw::{RawRequest, raw_exchange};
pub(crate) use repo::{PERSON, Repo, copy_folder, git_command};
pub(crate) use rustix::process::Signal;
pub(crate) use schema::openapi;
pub(crate) use server::TestServer;
pub(crate) use setup::{Auth, Setup};
pub(crate) use stream::{EventStream, StreamMessage};
