//! Notifies siblings after each push, so that they need not wait for their next poll. This is best effort, and never
//! waited for.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};
use uuid::Uuid;

use crate::domain::Revision;
use crate::http::{Clock, NoticeSecret};

/// How long the notification of one sibling may take.
const NOTICE_TIME_MAX: Duration = Duration::from_secs(5);

/// Starts a thread for each sibling, so that one that hangs delays no other; they end with the senders.
pub(crate) fn start(urls: &[String], secret: Option<NoticeSecret>) -> io::Result<Vec<Sender<Revision>>> {
    let secret = Arc::new(secret);
    let start = |url: &String| {
        let (sender, pushed) = channel();
        let peer = Peer { url: url.clone(), secret: Arc::clone(&secret) };
        thread::Builder::new().name("peer".into()).spawn(move || peer.run(&pushed))?;
        Ok(sender)
    };
    urls.iter().map(start).collect()
}

/// One of the siblings to be notified.
struct Peer {
    url: String,
    secret: Arc<Option<NoticeSecret>>,
}

impl Peer {
    fn run(&self, pushed: &Receiver<Revision>) {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config =
            Agent::config_builder().tls_config(tls).timeout_global(Some(NOTICE_TIME_MAX)).max_redirects(0);
        let agent: Agent = config.build().into();
        while let Ok(first) = pushed.recv() {
            // Only the last of several revisions is needed.
            let newest = pushed.try_iter().last().unwrap_or(first);
            self.notify(&agent, newest);
        }
    }

    fn notify(&self, agent: &Agent, revision: Revision) {
        let url = format!("{}/remote/notices", self.url.trim_end_matches('/'));
        let body = format!(r#"{{"revision":"{revision}"}}"#);
        let mut request = agent.post(&url).header("Content-Type", "application/json");
        if let Some(secret) = &*self.secret {
            for (name, value) in
                secret.sign(&Uuid::now_v7().to_string(), Clock::system().now(), body.as_bytes())
            {
                request = request.header(name, value);
            }
        }
        if let Err(error) = request.send(body) {
            tracing::debug!(url, %error, "a sibling could not be notified of a push; it polls");
        }
    }
}
