//! What is said of https.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::EngineSettings;
use crate::tls::{AutoTls, TlsFiles, TlsSettings};

#[derive(Args, Clone, Debug, Default)]
pub(super) struct TlsFlags {
    /// Https with a certificate that is made here: auto or off [default: off]
    ///
    /// `auto`: a development CA makes it, which is kept in the data directory (docs/tls.md). For one of your own say --tls-cert and --tls-key.
    #[arg(long, value_name = "WHICH", env = "LAZULI_TLS")]
    tls: Option<TlsFlag>,
    /// A domain or address, beside those of this machine, that the certificate of --tls auto is for [default: none]
    ///
    /// May be given several times; in the variable with commas between. It is for what the file lists as well.
    #[arg(long, value_name = "NAME", env = "LAZULI_TLS_NAME", value_delimiter = ',')]
    tls_name: Vec<String>,
    /// The certificate chain (PEM), for https [default: none]
    ///
    /// Read again at SIGHUP, and its key.
    #[arg(long, value_name = "FILE", env = "LAZULI_TLS_CERT")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM) [default: none]
    #[arg(long, value_name = "FILE", env = "LAZULI_TLS_KEY")]
    tls_key: Option<PathBuf>,
}

/// The same in the file.
#[derive(Debug, Default)]
pub(super) struct TlsFile {
    pub tls: Option<TlsFlag>,
    pub tls_name: Vec<String>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TlsFlag {
    Auto,
    Off,
}

/// Where `--tls auto` keeps what it makes, below the data directory.
const DIRECTORY: &str = "tls";

pub(super) fn merge(
    flags: TlsFlags,
    file: TlsFile,
    engine: &EngineSettings,
    host: IpAddr,
) -> Result<Option<TlsSettings>, String> {
    let names = [flags.tls_name, file.tls_name].concat();
    let files = (flags.tls_cert.or(file.tls_cert), flags.tls_key.or(file.tls_key));
    match (flags.tls.or(file.tls), files, engine) {
        (Some(TlsFlag::Auto), (None, None), EngineSettings::Embedded { data, .. }) => {
            AutoTls::new(data.join(DIRECTORY), host, &names).map(TlsSettings::Auto).map(Some)
        }
        (Some(TlsFlag::Auto), (None, None), EngineSettings::Rados(_)) => Err(
            "--tls auto keeps its CA in the data directory, and a cluster has none: give every gateway a certificate with \
             --tls-cert and --tls-key"
                .into(),
        ),
        (Some(TlsFlag::Auto), _, _) => {
            Err("--tls auto makes a certificate, --tls-cert and --tls-key give one: say one or the other".into())
        }
        (Some(TlsFlag::Off), (Some(_), _) | (_, Some(_)), _) => {
            Err("--tls off, and a certificate with --tls-cert and --tls-key: say one or the other".into())
        }
        _ if !names.is_empty() => Err("--tls-name is about the certificate of --tls auto: say that, too, or leave it out".into()),
        (_, (Some(certificate), Some(key)), _) => Ok(Some(TlsSettings::Files(TlsFiles { certificate, key }))),
        (_, (None, None), _) => Ok(None),
        _ => Err("--tls-cert and --tls-key go together".into()),
    }
}
