//! `--tls auto`: a certificate authority of this data directory's own, and a certificate by it for the endpoints.
//!
//! 1. The authority stays: whoever trusted it once need not do so again. It is made anew only where it is near its end, or may not vouch
//!    for a name that was asked for, and that is said.
//! 2. It can vouch for this machine and the names that were asked for, and for nothing else (name constraints): who steals its key cannot
//!    pass for anybody else with those who trust it.
//! 3. A certificate is in use only if a client that trusts the authority would take it for every name, a month from now as well: the same
//!    verification decides.
//! 4. Keys are readable by their owner alone. The authority's is needed only to sign: it may be taken away.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::Service;
use env::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints, PKCS_ECDSA_P256_SHA256, date_time_ymd,
};
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::sign::CertifiedKey;

const CA_FILE: &str = "ca.pem";
const CA_KEY_FILE: &str = "ca.key";
const CERTIFICATE_FILE: &str = "server.pem";
const KEY_FILE: &str = "server.key";

const DAY_SECONDS: u64 = 86_400;
const CA_DAYS: u64 = 3650;
/// Some clients take no certificate that is valid for longer than 398 days.
const CERTIFICATE_DAYS: u64 = 397;
/// What ends sooner than this is made anew.
const RENEWED_DAYS: u64 = 30;

/// The directory, and whom the certificate is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AutoTls {
    directory: PathBuf,
    /// Every domain that is asked for: `localhost` and those that were named.
    domains: Vec<String>,
    addresses: Vec<IpAddr>,
    /// This machine's own name: taken along where the authority may vouch for it.
    machine: Option<String>,
}

impl AutoTls {
    /// `names` are domains and addresses beside those of this machine.
    pub fn new(directory: PathBuf, host: IpAddr, names: &[String]) -> Result<AutoTls, String> {
        let mut domains = vec!["localhost".to_string()];
        let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        addresses.push(host);
        for name in names {
            match (name.parse(), is_domain(name)) {
                (Ok(address), _) => addresses.push(address),
                (_, true) => domains.push(name.to_ascii_lowercase()),
                _ => return Err(format!("--tls-name {name}: it is neither a domain nor an address")),
            }
        }
        let machine = rustix::system::uname().nodename().to_str().ok().map(str::to_ascii_lowercase);
        let machine = machine.filter(|name| is_domain(name) && !domains.contains(name));
        addresses.retain(|address| !address.is_unspecified());
        domains.sort();
        domains.dedup();
        addresses.sort();
        addresses.dedup();
        Ok(AutoTls { directory, domains, addresses, machine })
    }

    /// Where the authority's certificate is.
    pub fn authority(&self) -> PathBuf {
        self.directory.join(CA_FILE)
    }

    /// Takes what is there, makes what is missing or near its end.
    pub fn load(&self, now: Timestamp) -> Result<CertifiedKey, String> {
        self.load_or_make(now).map_err(|error| {
            format!("--tls auto: no certificate could be made in {}: {error}", self.directory.display())
        })
    }

    fn load_or_make(&self, now: Timestamp) -> Result<CertifiedKey, String> {
        fs::create_dir_all(&self.directory).map_err(|error| error.to_string())?;
        let (required, all) = (self.names(None), self.names(self.machine.as_deref()));
        let soon = now.plus_seconds(RENEWED_DAYS * DAY_SECONDS);
        let mut why = None;
        if let Some(ca) = self.read_authority()? {
            let kept = self.read_certificate();
            let fits =
                |names: &[String]| kept.as_ref().filter(|kept| is_accepted(&ca, &kept.0, names, [now, soon]).is_ok());
            if ends(&ca)? <= soon {
                why = Some("the one before is near its end".to_string());
            } else if let Some((certificate, key)) = fits(&all) {
                return certified(certificate.clone(), key.clone_key());
            } else {
                let key = self.read_authority_key();
                let made = key.as_ref().ok().map(|key| Made::by(key, &all, now)).transpose()?;
                if let Some(made) = made.filter(|made| is_accepted(&ca, &made.certificate, &all, [now, soon]).is_ok()) {
                    return self.keep(made);
                }
                if let Some((certificate, key)) = fits(&required) {
                    return certified(certificate.clone(), key.clone_key());
                }
                let made = Made::by(&key?, &required, now)?;
                match is_accepted(&ca, &made.certificate, &required, [now, soon]) {
                    Ok(()) => return self.keep(made),
                    Err(error) => {
                        why = Some(format!("the one before cannot vouch for {}: {error}", required.join(", ")))
                    }
                }
            }
        }
        self.make_authority(now)?;
        let authority = self.authority();
        match why {
            Some(why) => {
                tracing::warn!(authority = %authority.display(), why, "a new development CA was made: it has to be trusted anew")
            }
            None => tracing::info!(authority = %authority.display(), "a development CA was made"),
        }
        let ca = self.read_authority()?.ok_or("the authority is gone again")?;
        let made = Made::by(&self.read_authority_key()?, &all, now)?;
        is_accepted(&ca, &made.certificate, &all, [now, soon])?;
        self.keep(made)
    }

    /// Who the certificate is for, wildcards written as such. One below a top-level name itself would be taken by nobody, and is nobody's.
    fn names(&self, machine: Option<&str>) -> Vec<String> {
        let mut names: Vec<String> = self.addresses.iter().map(IpAddr::to_string).collect();
        for domain in self.domains.iter().map(String::as_str).chain(machine) {
            names.push(domain.to_string());
            let services = Service::ALL.map(Service::name);
            names.extend(services.into_iter().chain(["web"]).map(|service| format!("*.{service}.{domain}")));
        }
        names
    }

    fn keep(&self, made: Made) -> Result<CertifiedKey, String> {
        let private = PrivatePkcs8KeyDer::from(made.key.serialize_der());
        self.write(KEY_FILE, "PRIVATE KEY", private.secret_pkcs8_der(), 0o600)?;
        self.write(CERTIFICATE_FILE, "CERTIFICATE", &made.certificate, 0o644)?;
        tracing::info!(certificate = %self.directory.join(CERTIFICATE_FILE).display(), "a certificate was made");
        certified(made.certificate, private.into())
    }

    fn make_authority(&self, now: Timestamp) -> Result<(), String> {
        let key = KeyPair::generate().map_err(|error| error.to_string())?;
        let mut params = authority(&key);
        valid(&mut params, now, CA_DAYS);
        let of_machine = [(IpAddr::V4(Ipv4Addr::LOCALHOST), 8), (IpAddr::V6(Ipv6Addr::LOCALHOST), 128)];
        let others = self.addresses.iter().filter(|address| !address.is_loopback());
        let others = others.map(|address| (*address, if address.is_ipv4() { 32 } else { 128 }));
        let addresses = of_machine.into_iter().chain(others);
        let addresses =
            addresses.map(|(address, bits)| GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(address, bits)));
        let domains = self.domains.iter().chain(&self.machine).map(|domain| GeneralSubtree::DnsName(domain.clone()));
        let permitted_subtrees = domains.chain(addresses).collect();
        params.name_constraints = Some(NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() });
        let certificate = params.self_signed(&key).map_err(|error| error.to_string())?;
        self.write(CA_KEY_FILE, "PRIVATE KEY", key.serialized_der(), 0o600)?;
        self.write(CA_FILE, "CERTIFICATE", certificate.der(), 0o644)
    }

    /// `None` where there is none yet.
    fn read_authority(&self) -> Result<Option<CertificateDer<'static>>, String> {
        let path = self.authority();
        if !path.exists() {
            return Ok(None);
        }
        CertificateDer::from_pem_file(&path).map(Some).map_err(|error| damaged(&path, &error.to_string()))
    }

    fn read_authority_key(&self) -> Result<KeyPair, String> {
        let path = self.directory.join(CA_KEY_FILE);
        let key = PrivatePkcs8KeyDer::from_pem_file(&path).map_err(|error| damaged(&path, &error.to_string()))?;
        KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ECDSA_P256_SHA256)
            .map_err(|error| damaged(&path, &error.to_string()))
    }

    /// `None` if it is not there or of no use: it is made anew then.
    fn read_certificate(&self) -> Option<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
        let certificate = CertificateDer::from_pem_file(self.directory.join(CERTIFICATE_FILE)).ok()?;
        let key = PrivateKeyDer::from_pem_file(self.directory.join(KEY_FILE)).ok()?;
        certified(certificate.clone(), key.clone_key()).ok()?;
        Some((certificate, key))
    }

    /// All of it, or what was there.
    fn write(&self, name: &str, label: &str, der: &[u8], mode: u32) -> Result<(), String> {
        let (path, new) = (self.directory.join(name), self.directory.join(format!("{name}.new")));
        let written = || -> io::Result<()> {
            match fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
            file.write_all(pem(label, der).as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.directory)?.sync_all()
        };
        written().map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// How to trust the authority, for people.
pub fn trust(authority: &Path) -> [String; 3] {
    let authority = std::path::absolute(authority).unwrap_or_else(|_| authority.to_path_buf());
    let file = authority.display();
    [
        format!("tls       a development CA vouches for these names: {file}"),
        format!(
            "trust     curl --cacert {file}; or export SSL_CERT_FILE={file} REQUESTS_CA_BUNDLE={file} NODE_EXTRA_CA_CERTS={file}"
        ),
        format!(
            "          or for all programs: sudo cp {file} /usr/local/share/ca-certificates/lazuli.crt && sudo update-ca-certificates"
        ),
    ]
}

/// A certificate with its key.
struct Made {
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl Made {
    fn by(authority_key: &KeyPair, names: &[String], now: Timestamp) -> Result<Made, String> {
        let made = || -> Result<Made, rcgen::Error> {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new(names)?;
            params.distinguished_name = named("Lazuli".into());
            valid(&mut params, now, CERTIFICATE_DAYS);
            params.is_ca = IsCa::ExplicitNoCa;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.use_authority_key_identifier_extension = true;
            let issuer = Issuer::new(authority(authority_key), authority_key);
            let certificate = params.signed_by(&key, &issuer)?.into();
            Ok(Made { certificate, key })
        };
        made().map_err(|error| error.to_string())
    }
}

/// The authority by its key alone, as it is named in what it signs.
fn authority(key: &KeyPair) -> CertificateParams {
    let mark: String = key.public_key_raw().iter().skip(1).take(4).map(|byte| format!("{byte:02x}")).collect();
    let mut params = CertificateParams::default();
    params.distinguished_name = named(format!("Lazuli development CA {mark}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn named(name: String) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn certified(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Result<CertifiedKey, String> {
    CertifiedKey::from_der(vec![certificate], key, &ring::default_provider()).map_err(|error| error.to_string())
}

/// Would a client that trusts the authority take the certificate for all these names, at all these times?
fn is_accepted(
    ca: &CertificateDer<'_>,
    certificate: &CertificateDer<'_>,
    names: &[String],
    times: [Timestamp; 2],
) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone().into_owned()).map_err(|error| error.to_string())?;
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), ring::default_provider().into()).build();
    let verifier = verifier.map_err(|error| error.to_string())?;
    for time in times {
        let since = Duration::from_secs(time.seconds() - Timestamp::UNIX_EPOCH.seconds());
        for name in names {
            let one = ServerName::try_from(name.replace('*', "account")).map_err(|error| format!("{name}: {error}"))?;
            let verified = verifier.verify_server_cert(certificate, &[], &one, &[], UnixTime::since_unix_epoch(since));
            verified.map_err(|error| format!("{name}: {error}"))?;
        }
    }
    Ok(())
}

fn is_domain(name: &str) -> bool {
    matches!(ServerName::try_from(name), Ok(ServerName::DnsName(_)))
}

fn damaged(path: &Path, error: &str) -> String {
    let directory = path.parent().unwrap_or(path).display();
    format!("{} cannot be read ({error}); remove {directory} to have everything in it made anew", path.display())
}

/// From a day ago, for clocks that are behind. Days are enough.
fn valid(params: &mut CertificateParams, now: Timestamp, days: u64) {
    let day = |moment: Timestamp| {
        let text = moment.iso8601();
        let number = |part: &str| part.parse().unwrap_or(1);
        date_time_ymd(text[0..4].parse().unwrap_or(1970), number(&text[5..7]), number(&text[8..10]))
    };
    params.not_before = day(now.minus_seconds(DAY_SECONDS));
    params.not_after = day(now.plus_seconds((days - 1) * DAY_SECONDS));
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut lines = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        lines.extend(line.iter().map(|byte| char::from(*byte)));
        lines.push('\n');
    }
    lines + &format!("-----END {label}-----\n")
}

/// When a certificate ends. Verification does not look at what is trusted already, so this does: the second of the two times
/// (RFC 5280 section 4.1), which for what is made here is written in one of the two ways.
fn ends(certificate: &CertificateDer<'_>) -> Result<Timestamp, String> {
    let found = || {
        let (whole, _) = element(certificate)?;
        let (mut rest, _) = element(whole)?;
        // Version, serial number, algorithm, issuer; then the validity.
        for _ in 0..4 {
            rest = element(rest)?.1;
        }
        let (validity, _) = element(rest)?;
        let text = std::str::from_utf8(element(element(validity)?.1)?.0).ok()?;
        let text = if text.len() == 13 { format!("20{text}") } else { text.to_string() };
        let part = |at: usize| text.get(at..at + 2);
        let date = format!("{}-{}-{}", text.get(..4)?, part(4)?, part(6)?);
        Timestamp::parse_iso8601(&format!("{date}T{}:{}:{}Z", part(8)?, part(10)?, part(12)?))
    };
    found().ok_or_else(|| "the authority's certificate does not say when it ends".to_string())
}

/// The content of the first element of DER, and what follows it.
fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = match *der.get(1)? {
        short @ 0..=127 => (usize::from(short), der.get(2..)?),
        long => {
            let count = usize::from(long & 127);
            let bytes = der.get(2..2 + count).filter(|_| count <= 4)?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), der.get(2 + count..)?)
        }
    };
    (length <= rest.len()).then(|| rest.split_at(length))
}
