//! Azurite's command line: its flags, with its meaning, as flags of `serve`. What cannot be honoured is refused by name (docs/azurite.md).

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, ValueEnum};

/// Azurite's programs: `azurite-blob` and its like serve one service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Only {
    Blob,
    Queue,
    Table,
}

#[derive(Args, Clone, Debug, Default)]
#[command(disable_version_flag = true)]
pub struct AzuriteFlags {
    /// Address of the Blob service [default: 127.0.0.1]
    #[arg(long = "blobHost", value_name = "ADDR")]
    blob_host: Option<String>,
    /// Port of the Blob service [default: 10000]
    #[arg(long = "blobPort", value_name = "N")]
    blob_port: Option<u16>,
    /// Seconds a connection may wait for its next request
    #[arg(long = "blobKeepAliveTimeout", value_name = "SECONDS")]
    blob_keep_alive: Option<u64>,
    /// Address of the Queue service [default: 127.0.0.1]
    #[arg(long = "queueHost", value_name = "ADDR")]
    queue_host: Option<String>,
    /// Port of the Queue service [default: 10001]
    #[arg(long = "queuePort", value_name = "N")]
    queue_port: Option<u16>,
    /// Likewise
    #[arg(long = "queueKeepAliveTimeout", value_name = "SECONDS")]
    queue_keep_alive: Option<u64>,
    /// Address of the Table service [default: 127.0.0.1]
    #[arg(long = "tableHost", value_name = "ADDR")]
    table_host: Option<String>,
    /// Port of the Table service [default: 10002]
    #[arg(long = "tablePort", value_name = "N")]
    table_port: Option<u16>,
    /// Likewise
    #[arg(long = "tableKeepAliveTimeout", value_name = "SECONDS")]
    table_keep_alive: Option<u64>,
    /// Where the data lives: in lazuli-data below it [default: the working directory]
    #[arg(short = 'l', long, value_name = "DIR")]
    location: Option<PathBuf>,
    /// Say less
    #[arg(short = 's', long)]
    silent: bool,
    /// Write a detailed log to this file
    #[arg(short = 'd', long, value_name = "FILE")]
    debug: Option<PathBuf>,
    /// Nothing has to be loosened here: what Azurite does not know is known
    #[arg(short = 'L', long)]
    loose: bool,
    /// Take every version: always so here
    #[arg(long = "skipApiVersionCheck")]
    skip_api_version_check: bool,
    /// The account is always in the path, never in the host name
    #[arg(long = "disableProductStyleUrl")]
    disable_product_style_url: bool,
    /// Not here: tokens are verified (docs/tokens.md)
    #[arg(long, value_name = "LEVEL")]
    oauth: Option<String>,
    /// The certificate chain (PEM), for https
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Not here: it opens a PFX file, and certificates are PEM
    #[arg(long, value_name = "PASSWORD")]
    pwd: Option<String>,
    /// Keep the data in a directory that is gone at the end
    #[arg(long = "inMemoryPersistence")]
    in_memory: bool,
    /// Not here: no body is held in memory
    #[arg(long = "extentMemoryLimit", value_name = "MIB")]
    extent_memory_limit: Option<f64>,
    /// Nothing is told to anybody: always so here
    #[arg(long = "disableTelemetry")]
    disable_telemetry: bool,
    /// Serve only this: what azurite-blob, azurite-queue and azurite-table do
    #[arg(long, value_name = "SERVICE")]
    only: Option<Only>,
    /// Print the version
    #[arg(short = 'v', long, action = ArgAction::SetTrue)]
    version: bool,
}

/// What of Azurite's flags is no setting of `serve`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AsAzurite {
    /// The data directory, to be made at the start and removed at the end.
    pub scratch: Option<PathBuf>,
    pub debug_log: Option<PathBuf>,
    pub is_path_style_only: bool,
    /// Azurite's own data, which is there and is not read.
    pub left_alone: Option<PathBuf>,
}

/// The arguments as ours: who calls the program `azurite` means the command.
pub fn as_command(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let called = arguments.first().map(|first| Path::new(first).file_name().unwrap_or_default().to_owned());
    let only: &[&str] = match called.as_deref().and_then(|name| name.to_str()) {
        Some("azurite") => &[],
        Some("azurite-blob") => &["--only=blob"],
        Some("azurite-queue") => &["--only=queue"],
        Some("azurite-table") => &["--only=table"],
        _ => return arguments,
    };
    let rest = arguments.split_off(1);
    ["lazuli", "azurite"].iter().chain(only).map(OsString::from).chain(rest).collect()
}

impl AzuriteFlags {
    pub fn asks_version(&self) -> bool {
        self.version
    }

    /// As arguments of `lazuli serve`, and what is left.
    pub fn translate(&self, azurite_db: Option<OsString>) -> Result<(Vec<OsString>, AsAzurite), String> {
        self.refuse(azurite_db)?;
        let mut arguments: Vec<OsString> =
            ["lazuli", "serve", "--file-port=off", "--smb-port=off", "--console-port=off"].map(OsString::from).into();
        let mut say = |flag: &str, value: &dyn AsRef<std::ffi::OsStr>| {
            arguments.push(flag.into());
            arguments.push(value.as_ref().into());
        };
        for (service, port, flag) in [
            (Only::Blob, self.blob_port, "--blob-port"),
            (Only::Queue, self.queue_port, "--queue-port"),
            (Only::Table, self.table_port, "--table-port"),
        ] {
            match port {
                _ if self.only.is_some_and(|only| only != service) => say(flag, &"off"),
                Some(port) => say(flag, &port.to_string()),
                None => {}
            }
        }
        if let Some(host) = self.host()? {
            say("--host", &host.to_string());
        }
        if let Some(seconds) = self.keep_alive()? {
            say("--idle-timeout", &seconds.to_string());
        }
        for (flag, file) in [("--tls-cert", &self.cert), ("--tls-key", &self.key)] {
            if let Some(file) = file {
                say(flag, file);
            }
        }
        let mut rest = AsAzurite { is_path_style_only: self.disable_product_style_url, ..AsAzurite::default() };
        if self.in_memory {
            let scratch = std::env::temp_dir().join(format!("lazuli-{}", std::process::id()));
            say("--data", &scratch);
            say("--durability", &"relaxed");
            rest.scratch = Some(scratch);
        } else {
            let location = self.location.clone().unwrap_or_default();
            say("--data", &location.join("lazuli-data"));
            let theirs = location.join("__azurite_db_blob__.json");
            rest.left_alone = theirs.exists().then_some(theirs);
        }
        match (&self.debug, self.silent) {
            (Some(file), _) => {
                say("--log", &"debug");
                rest.debug_log = Some(file.clone());
            }
            (None, true) => say("--log", &"warn"),
            (None, false) => {}
        }
        // Whoever gives Azurite an address of the network means it, and Azurite has no other key by default.
        arguments.push("--allow-published-key-on-network".into());
        Ok((arguments, rest))
    }

    /// What cannot be honoured.
    fn refuse(&self, azurite_db: Option<OsString>) -> Result<(), String> {
        let only = |service| self.only.is_some_and(|only| only != service);
        let of_queues = self.queue_host.is_some() || self.queue_port.is_some() || self.queue_keep_alive.is_some();
        let of_tables = self.table_host.is_some() || self.table_port.is_some() || self.table_keep_alive.is_some();
        let of_blobs = self.blob_host.is_some() || self.blob_port.is_some() || self.blob_keep_alive.is_some();
        for (service, name, is_given) in
            [(Only::Blob, "blob", of_blobs), (Only::Queue, "queue", of_queues), (Only::Table, "table", of_tables)]
        {
            if is_given && only(service) {
                return Err(format!(
                    "--{name}Host, --{name}Port and --{name}KeepAliveTimeout: the {name} service is not served by this program"
                ));
            }
        }
        if let Some(level) = &self.oauth {
            return Err(format!(
                "--oauth {level}: Azurite looks at bearer tokens and takes them without checking who signed them. Here they are verified: \
                 say in a file for --config whose are trusted, or have them given out here with --tls auto --dev-token-port 10004 \
                 (docs/tokens.md), and start `lazuli serve` so"
            ));
        }
        if self.pwd.is_some() {
            return Err("--pwd opens a PFX file, and certificates are PEM here: `openssl pkcs12 -in FILE -nodes` makes PEM of it, for --cert and --key".into());
        }
        if self.cert.is_some() != self.key.is_some() {
            return Err("--cert and --key go together: both are PEM".into());
        }
        if self.in_memory && self.location.is_some() {
            return Err("--inMemoryPersistence and --location contradict each other".into());
        }
        if self.extent_memory_limit.is_some() {
            return Err("--extentMemoryLimit bounds the bodies that Azurite holds in memory. Here none are: with --inMemoryPersistence they are in a \
                        directory that is gone at the end"
                .into());
        }
        if azurite_db.is_some_and(|text| !text.is_empty()) {
            return Err("AZURITE_DB names an SQL database for Azurite's records. Here records are in the data directory: unset it".into());
        }
        Ok(())
    }

    /// The one address of all services that are served.
    fn host(&self) -> Result<Option<IpAddr>, String> {
        let mut hosts: Vec<(&str, Option<IpAddr>)> = Vec::new();
        for (service, flag, host) in [
            (Only::Blob, "--blobHost", &self.blob_host),
            (Only::Queue, "--queueHost", &self.queue_host),
            (Only::Table, "--tableHost", &self.table_host),
        ] {
            if self.only.is_none_or(|only| only == service) {
                hosts.push((flag, host.as_deref().map(|host| parse_host(flag, host)).transpose()?));
            }
        }
        let Some((given_by, host)) = hosts.iter().find_map(|(flag, host)| host.map(|host| (*flag, host))) else {
            return Ok(None);
        };
        let default = IpAddr::V4(Ipv4Addr::LOCALHOST);
        match hosts.iter().find(|(_, other)| other.unwrap_or(default) != host) {
            None => Ok(Some(host)),
            Some((flag, other)) => Err(format!(
                "{given_by} {host} and {flag} {}: all services listen on one address here. Give the others the same, or serve one alone with \
                 azurite-blob, azurite-queue or azurite-table",
                other.map_or("127.0.0.1, which is its default".to_owned(), |other| other.to_string())
            )),
        }
    }

    fn keep_alive(&self) -> Result<Option<u64>, String> {
        let given = [
            ("--blobKeepAliveTimeout", self.blob_keep_alive),
            ("--queueKeepAliveTimeout", self.queue_keep_alive),
            ("--tableKeepAliveTimeout", self.table_keep_alive),
        ];
        let mut given = given.into_iter().filter_map(|(flag, seconds)| seconds.map(|seconds| (flag, seconds)));
        let Some((first, seconds)) = given.next() else { return Ok(None) };
        match given.find(|(_, other)| *other != seconds) {
            Some((flag, other)) => {
                Err(format!("{first} {seconds} and {flag} {other}: there is one time for all services here"))
            }
            None => Ok(Some(seconds)),
        }
    }
}

fn parse_host(flag: &str, host: &str) -> Result<IpAddr, String> {
    match host {
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        _ => host.parse().map_err(|_| format!("{flag} {host}: it is an IP address, as 127.0.0.1 or 0.0.0.0")),
    }
}

/// What is said of our flags, said of Azurite's.
pub fn in_its_words(error: &str) -> String {
    const WORDS: [(&str, &str); 8] = [
        ("--blob-port", "--blobPort"),
        ("--queue-port", "--queuePort"),
        ("--table-port", "--tablePort"),
        ("--idle-timeout", "--blobKeepAliveTimeout"),
        ("--tls-cert", "--cert"),
        ("--tls-key", "--key"),
        ("--data", "--location"),
        ("--host", "--blobHost"),
    ];
    WORDS.iter().fold(error.to_owned(), |text, (ours, theirs)| text.replace(ours, theirs))
}

/// A directory that is there as long as this.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn make(path: &Path) -> Result<Scratch, String> {
        let made = std::fs::DirBuilder::new().mode(0o700).create(path);
        made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => format!("{} is there already: remove it", path.display()),
            _ => format!("cannot make {}: {error}", path.display()),
        })?;
        Ok(Scratch(path.to_owned()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "the directory cannot be removed");
        }
    }
}

#[cfg(test)]
mod tests;
