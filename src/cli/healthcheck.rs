//! `collectory healthcheck`: reports by its exit code whether a service answers and is ready.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

use crate::cli::{Done, Failure};
use crate::config::{ListenAddress, listen_default};

/// The timeout for the service's answer.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);

/// Ask a service whether it is ready; for containers and supervisors
#[derive(Debug, clap::Args)]
#[command(long_about = "\
Ask a service whether it is ready, and say why not. Exit code 0 means that it is, 1 that it is not or was \
not reached within 5 seconds. For the health check of a container, which has the variables of the service.")]
pub(crate) struct Healthcheck {
    /// The address of the service, its base path included, or of its `/livez` or `/readyz`; by default the address is
    /// derived from --listen and --tls-cert.
    #[arg(value_name = "URL")]
    url: Option<String>,

    /// Where the service listens.
    #[arg(long, env = "COLLECTORY_LISTEN", value_name = "HOST:PORT|:PORT|unix:PATH",
          default_value_t = listen_default())]
    listen: ListenAddress,

    /// The certificate of the service, if it has one; the service is then asked over TLS. The certificate is not
    /// verified, because it is for another name than the local one that is used here.
    #[arg(long, env = "COLLECTORY_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
}

/// How to reach the service.
enum ServiceTarget {
    /// At this URL.
    Url(String),
    /// At this URL of this machine; the certificate need not match it.
    Own(String),
    /// At this Unix socket.
    Socket(PathBuf),
}

impl Healthcheck {
    pub(crate) fn run(&self) -> Result<Done, Failure> {
        self.target()?.ask()?;
        Ok(Done::Well)
    }

    fn target(&self) -> Result<ServiceTarget, Failure> {
        let Some(url) = &self.url else { return Ok(target_at(&self.listen, self.tls_cert.is_some())) };
        if !["unix:", "http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(Failure::Usage(
                "write the address as http://HOST:PORT/, https://HOST/ or unix:PATH".into(),
            ));
        }
        Ok(ServiceTarget::of(url))
    }
}

impl ServiceTarget {
    /// Takes an address as people write it: with the path of a probe or without.
    fn of(url: &str) -> Self {
        if let Some(path) = url.strip_prefix("unix:") {
            return Self::Socket(path.into());
        }
        let url = url.trim_end_matches('/');
        let is_whole = ["/livez", "/readyz"].iter().any(|path| url.ends_with(path));
        Self::Url(if is_whole { url.to_owned() } else { format!("{url}/readyz") })
    }

    /// Asks the service whether it is ready; returns its `Date`, if it sends one.
    fn ask(&self) -> anyhow::Result<Option<String>> {
        match self {
            Self::Url(url) => get(url, false),
            Self::Own(url) => get(url, true),
            Self::Socket(path) => get_from_socket(path)
                .map(|()| None)
                .with_context(|| format!("cannot ask at unix:{}", path.display())),
        }
    }
}

/// Returns how to reach a service of this machine that listens there.
fn target_at(listen: &ListenAddress, is_secured: bool) -> ServiceTarget {
    let place = match listen {
        ListenAddress::Unix(path) => return ServiceTarget::Socket(path.clone()),
        ListenAddress::Address(address) => {
            SocketAddr::new(reachable_ip(address.ip()), address.port()).to_string()
        }
        ListenAddress::Port(port) => format!("localhost:{port}"),
        ListenAddress::Name(host, port) => format!("{host}:{port}"),
    };
    let scheme = if is_secured { "https" } else { "http" };
    ServiceTarget::Own(format!("{scheme}://{place}/readyz"))
}

/// A service that listens on all addresses is reached at the loopback address.
fn reachable_ip(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// Asks a service whether it is ready; returns its `Date`, if it sends one.
pub(crate) fn asked_at(url: &str) -> anyhow::Result<Option<String>> {
    ServiceTarget::of(url).ask()
}

fn get(url: &str, is_own: bool) -> anyhow::Result<Option<String>> {
    let tls =
        TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).disable_verification(is_own).build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(ANSWER_WAIT_MAX))
        .max_redirects(0)
        .http_status_as_error(false)
        .build();
    let mut response = Agent::from(config).get(url).call().with_context(|| format!("cannot reach {url}"))?;
    let date = response.headers().get("date").and_then(|date| date.to_str().ok()).map(str::to_owned);
    match response.status().as_u16() {
        200 => Ok(date),
        status => {
            bail!("{url} answers {status}: {}", response.body_mut().read_to_string().unwrap_or_default())
        }
    }
}

/// Asks over a Unix socket. Only the status line matters, so no HTTP client with Unix sockets is needed.
fn get_from_socket(path: &Path) -> anyhow::Result<()> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(ANSWER_WAIT_MAX))?;
    stream.set_write_timeout(Some(ANSWER_WAIT_MAX))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    match line.split(' ').nth(1) {
        Some("200") => Ok(()),
        _ => Err(anyhow!("it answers {:?}", line.trim_end())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place_of(target: ServiceTarget) -> String {
        match target {
            ServiceTarget::Url(url) | ServiceTarget::Own(url) => url,
            ServiceTarget::Socket(path) => path.display().to_string(),
        }
    }

    #[test]
    fn a_service_of_this_machine_is_asked_where_it_listens() {
        for (listen, place) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080/readyz"),
            ("0.0.0.0:80", "http://127.0.0.1:80/readyz"),
            ("[::]:80", "http://[::1]:80/readyz"),
            (":80", "http://localhost:80/readyz"),
            ("example.org:80", "http://example.org:80/readyz"),
            ("unix:/run/collectory.sock", "/run/collectory.sock"),
        ] {
            assert_eq!(place_of(target_at(&listen.parse().unwrap(), false)), place);
        }
    }

    #[test]
    fn an_address_is_asked_for_the_probe_that_it_names_or_whether_it_is_ready() {
        for (url, place) in [
            ("http://h:1", "http://h:1/readyz"),
            ("https://h/base/", "https://h/base/readyz"),
            ("http://h/livez", "http://h/livez"),
            ("http://h/readyz/", "http://h/readyz"),
            ("unix:/run/c.sock", "/run/c.sock"),
        ] {
            assert_eq!(place_of(ServiceTarget::of(url)), place);
        }
    }
}
