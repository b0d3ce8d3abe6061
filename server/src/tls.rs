//! The certificate that is shown to clients: given, or made here (`development`); and replaced while connections go on.
//!
//! A connection keeps what it was shown. What cannot be used replaces nothing.

mod development;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use env::Timestamp;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

pub use development::{AutoTls, trust};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TlsSettings {
    Files(TlsFiles),
    Auto(AutoTls),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl TlsSettings {
    fn load(&self, now: Timestamp) -> Result<CertifiedKey, String> {
        match self {
            TlsSettings::Files(files) => files.load(),
            TlsSettings::Auto(auto) => auto.load(now),
        }
    }
}

impl TlsFiles {
    pub fn load(&self) -> Result<CertifiedKey, String> {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(|certificates| certificates.collect())
            .map_err(|error| format!("cannot read the certificate {certificate}: {error}"))?;
        if chain.is_empty() {
            return Err(format!("there is no certificate in {certificate} (PEM is expected)"));
        }
        let private =
            PrivateKeyDer::from_pem_file(&self.key).map_err(|error| format!("cannot read the key {key}: {error}"))?;
        CertifiedKey::from_der(chain, private, &ring::default_provider())
            .map_err(|error| format!("the certificate {certificate} and the key {key} cannot be used: {error}"))
    }
}

/// What new connections are shown.
pub struct Tls {
    shown: Arc<Shown>,
    acceptor: TlsAcceptor,
}

struct Shown(RwLock<Arc<CertifiedKey>>);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shown")
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Tls {
    pub fn open(settings: &TlsSettings, now: Timestamp) -> Result<Tls, String> {
        let shown = Arc::new(Shown(RwLock::new(Arc::new(settings.load(now)?))));
        let mut config = ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?
            .with_no_client_auth()
            .with_cert_resolver(shown.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls { shown, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    pub fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }

    /// True if it is another one from here on.
    pub fn replace(&self, settings: &TlsSettings, now: Timestamp) -> Result<bool, String> {
        let loaded = settings.load(now)?;
        let mut shown = self.shown.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = shown.cert != loaded.cert;
        *shown = Arc::new(loaded);
        Ok(is_new)
    }
}

#[cfg(test)]
mod tests;
