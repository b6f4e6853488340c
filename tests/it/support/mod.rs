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
mod proxy;
mod raw;
mod repo;
mod schema;
mod server;
mod stream;

pub(crate) use answer::{Answer, Good};
pub(crate) use chosen::{chosen, story_seeds};
pub(crate) use client::{ATOMIC, Client, JSON_API};
pub(crate) use documents::{add, document, media, remove, restoring, update};
pub(crate) use fixtures::{fixture, request_fixture};
pub(crate) use git_servers::{
    AUTHORIZATION, Daemon, Hosted, TOKEN, git_daemon, serve_head, serve_http, sshd,
};
pub(crate) use patience::{DEADLINE, eventually, eventually_is, eventually_sync};
pub(crate) use proxy::{Line, Proxy};
pub(crate) use raw::{RawRequest, raw_exchange};
pub(crate) use repo::{PERSON, Repo, copy_folder, git_command};
pub(crate) use rustix::process::Signal;
pub(crate) use schema::openapi;
pub(crate) use server::{Auth, Finished, Setup, TestServer, program, run_to_end};
pub(crate) use stream::{Heard, Stream};
