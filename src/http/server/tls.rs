//! TLS with a certificate and key from two files, which are read again when they change.
//!
//! The first connection after [`CHECK_INTERVAL`] compares the files' metadata. A new pair is used from that
//! connection on. A pair that can't be used (only one of the files has been replaced, for instance) is logged, and
//! the last good one stays in use.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::config::{Stamp, read_named};
use crate::http::server::wire::Stream;
use crate::telemetry::error_chain;

/// Minimum time between two checks of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The protocol inside TLS, for ALPN.
const ALPN: &[u8] = b"http/1.1";

/// The current certificate and its key.
#[derive(Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    config: ArcSwap<ServerConfig>,
    last_reading: Mutex<LastReading>,
}

/// The state of the files when they were last read.
#[derive(Debug)]
struct LastReading {
    at: Instant,
    /// `None` if they could not be used, so that the next check reads them again.
    stamps: Option<[Stamp; 2]>,
    /// The fault that was last logged.
    fault: Option<String>,
}

/// Why a certificate can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Other users may read the key.
    #[error("others than its owner may read the key {0}, so it is no secret: chmod 600")]
    Exposed(PathBuf),
    /// A file does not contain what it should.
    #[error("{path} holds no {what} in PEM")]
    Pem {
        /// The file.
        path: PathBuf,
        /// What it should contain.
        what: &'static str,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// Certificate and key don't belong together, or are of an unknown kind.
    #[error("the certificate {certificate} and the key {key} can't be used together")]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
}

impl Tls {
    /// Reads a certificate with its chain, and its key.
    ///
    /// # Errors
    ///
    /// Fails if they can't be used, because serving without the requested TLS is no alternative.
    pub fn open(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let (certificate, key) = (certificate.into(), key.into());
        let stamps = file_stamps(&certificate, &key);
        let config = ArcSwap::from_pointee(read(&certificate, &key)?);
        let last_reading = Mutex::new(LastReading { at: Instant::now(), stamps, fault: None });
        Ok(Self { certificate, key, config, last_reading })
    }

    /// Reads the files now.
    pub fn reload(&self) {
        self.read_again(&mut self.last_reading.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Performs the TLS handshake. Returns `None` if it fails or takes too long.
    pub(crate) async fn accept<S: Stream>(&self, stream: S, wait_max: Duration) -> Option<TlsStream<S>> {
        self.reload_if_changed();
        let greeting = TlsAcceptor::from(self.config.load_full()).accept(stream);
        match tokio::time::timeout(wait_max, greeting).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a client could not be greeted by TLS");
                None
            }
            Err(_) => None,
        }
    }

    /// Reads the files again if they have changed. If another connection is checking already, the current pair is
    /// used.
    fn reload_if_changed(&self) {
        let Ok(mut last_reading) = self.last_reading.try_lock() else { return };
        if last_reading.at.elapsed() < CHECK_INTERVAL {
            return;
        }
        last_reading.at = Instant::now();
        if last_reading.stamps.is_none() || last_reading.stamps != file_stamps(&self.certificate, &self.key) {
            self.read_again(&mut last_reading);
        }
    }

    fn read_again(&self, last_reading: &mut LastReading) {
        // The stamps are taken first, so that a change during the reading is detected later.
        let stamps = file_stamps(&self.certificate, &self.key);
        match read(&self.certificate, &self.key) {
            Ok(config) => {
                self.config.store(Arc::new(config));
                (last_reading.stamps, last_reading.fault) = (stamps, None);
                tracing::info!(path = %self.certificate.display(), "took over the TLS certificate");
            }
            Err(error) => {
                let fault = error_chain(&error);
                if last_reading.fault.as_ref() != Some(&fault) {
                    tracing::warn!(fault, "kept the last good TLS certificate, the new one can't be used");
                }
                (last_reading.stamps, last_reading.fault) = (None, Some(fault));
            }
        }
    }
}

fn file_stamps(certificate: &Path, key: &Path) -> Option<[Stamp; 2]> {
    let stamp = |path| fs::metadata(path).ok().map(|metadata| Stamp::of(&metadata));
    Some([stamp(certificate)?, stamp(key)?])
}

fn read(certificate: &Path, key: &Path) -> Result<ServerConfig, TlsError> {
    let broken = |path: &Path, what| {
        let path = path.to_owned();
        move |source| TlsError::Pem { path, what, source }
    };
    let chain = read_file(certificate)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
    let some = |chain: Vec<_>| if chain.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(chain) };
    let chain = chain.and_then(some).map_err(broken(certificate, "certificate"))?;
    let secret = read_private_key(key)?;
    let secret = PrivateKeyDer::from_pem_slice(&secret).map_err(broken(key, "private key"))?;
    let unfit = |source| TlsError::Pair { certificate: certificate.to_owned(), key: key.to_owned(), source };
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(unfit)?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, secret).map_err(unfit)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

fn read_file(path: &Path) -> Result<Vec<u8>, TlsError> {
    read_named(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

/// Reads a key that is kept secret. A file of the service's own user must not be readable by anyone else. A file
/// of another user, such as a mounted secret, must not be readable by everyone.
fn read_private_key(key: &Path) -> Result<Vec<u8>, TlsError> {
    let metadata = fs::metadata(key).map_err(|source| TlsError::Read { path: key.to_owned(), source })?;
    if is_exposed(&metadata) {
        return Err(TlsError::Exposed(key.to_owned()));
    }
    read_file(key)
}

fn is_exposed(metadata: &Metadata) -> bool {
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    metadata.mode() & if is_ours { 0o077 } else { 0o007 } != 0
}
