//! A custom authorization hook: every caller may read, and one token may write.
//!
//! ```text
//! cargo run --example bearer_token secret
//! curl http://127.0.0.1:8080/collections
//! curl -X DELETE -H 'Authorization: Bearer secret' http://127.0.0.1:8080/collections/posts
//! ```
//!
//! To keep tokens in a file, use the built-in hook: `collectory serve --auth policy.yaml`.

#![expect(clippy::print_stderr, reason = "an example talks to whoever runs it")]

use std::future::ready;

use collectory::{
    Action, Actor, Allowed, Authorizer, Authorizing, Denied, Identifying, Identity, RequestHead, Service,
};
use sha2::{Digest as _, Sha256};

struct OneWriter {
    secret_hash: [u8; 32],
}

impl Authorizer for OneWriter {
    /// Identifies the caller. Called before the request body is read; `/capabilities` shows the result.
    /// A wrong token is rejected here; a request without a token may read.
    fn identify<'a>(&'a self, head: &'a RequestHead<'a>) -> Identifying<'a> {
        let is_silent = !head.headers.contains_key("authorization");
        let writer = || self.write(head).map(|allowed| Identity::new(allowed.actor().clone(), []));
        Box::pin(ready(if is_silent { Ok(Identity::anonymous()) } else { writer() }))
    }

    /// Decides whether the caller may perform the action.
    fn authorize<'a>(&'a self, head: &'a RequestHead<'a>, action: Action<'a>) -> Authorizing<'a> {
        Box::pin(ready(match action {
            Action::Create { .. } | Action::Update { .. } | Action::Delete { .. } => self.write(head),
            Action::List | Action::Read { .. } | Action::ReadCapabilities => Ok(Allowed::anonymous()),
            // A hook should refuse any action that it does not know.
            _ => Err(Denied::forbidden()),
        }))
    }
}

impl OneWriter {
    fn write(&self, head: &RequestHead<'_>) -> Result<Allowed, Denied> {
        let sent =
            head.headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        match sent {
            // Comparing hashes keeps the timing from revealing anything about the secret.
            Some(secret) if self.secret_hash == <[u8; 32]>::from(Sha256::digest(secret)) => {
                // The author of the commits.
                Ok(Allowed::by(Actor::new("The editor", "editor@example.org")))
            }
            Some(_) => Err(Denied::unauthenticated("This token is not known here.")),
            None => Err(Denied::unauthenticated("Send the token that may write.")),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let secret = std::env::args().nth(1).ok_or("give the token as the argument")?;
    let hook = OneWriter { secret_hash: Sha256::digest(secret).into() };
    let service = Service::builder("./settings").authorizer(hook).start().await?;
    eprintln!("readable by everybody at http://{}/collections", service.address());
    tokio::signal::ctrl_c().await?;
    service.shutdown().await?;
    Ok(())
}
