//! The certificate and key the operator gave.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, String> {
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(|certificates| certificates.collect())
        .map_err(|error| format!("cannot read the certificate {certificate}: {error}"))?;
    if chain.is_empty() {
        return Err(format!("there is no certificate in {certificate} (PEM is expected)"));
    }
    let private =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|error| format!("cannot read the key {key}: {error}"))?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| format!("the certificate {certificate} and the key {key} cannot be used: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
