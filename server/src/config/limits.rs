//! What strangers may cost: connections, requests under way, and how long they are waited for.

use std::time::Duration;

use clap::Args;
use door::{Door, Places};
use http::Doors;

#[derive(Args, Clone, Debug, Default)]
pub struct LimitFlags {
    /// Connections of all services together [default: 10000]
    #[arg(long, value_name = "N", env = "LAZULI_CONNECTIONS_MAX")]
    connections_max: Option<usize>,
    /// Connections from one address (of IPv6: from one network of 64 bits) [default: half of --connections-max]
    #[arg(long, value_name = "N", env = "LAZULI_CONNECTIONS_PER_ADDRESS_MAX")]
    connections_per_address_max: Option<usize>,
    /// Requests under way over HTTP; one more is answered 503 ServerBusy [default: 4096]
    #[arg(long, value_name = "N", env = "LAZULI_REQUESTS_MAX")]
    requests_max: Option<usize>,
    /// Requests under way from one address [default: half of --requests-max]
    #[arg(long, value_name = "N", env = "LAZULI_REQUESTS_PER_ADDRESS_MAX")]
    requests_per_address_max: Option<usize>,
    /// How long a connection over HTTP may wait for its next request [default: 120]
    #[arg(long, value_name = "SECONDS", env = "LAZULI_IDLE_TIMEOUT")]
    idle_timeout: Option<u64>,
    /// How long a connection over SMB may wait for its next request if its client has nothing open [default: 900]
    #[arg(long, value_name = "SECONDS", env = "LAZULI_SMB_IDLE_TIMEOUT")]
    smb_idle_timeout: Option<u64>,
    /// How long a client may stand still in the middle of something; for a head or a TLS handshake half of it is all there is [default: 60]
    #[arg(long, value_name = "SECONDS", env = "LAZULI_STALL_TIMEOUT")]
    stall_timeout: Option<u64>,
}

/// The same in the file.
#[derive(Clone, Copy, Default, Debug)]
pub struct LimitFile {
    pub connections_max: Option<usize>,
    pub connections_per_address_max: Option<usize>,
    pub requests_max: Option<usize>,
    pub requests_per_address_max: Option<usize>,
    pub idle_timeout: Option<u64>,
    pub smb_idle_timeout: Option<u64>,
    pub stall_timeout: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitSettings {
    pub connections: Places,
    pub requests: Places,
    idle: Duration,
    smb_idle: Duration,
    stall: Duration,
}

impl LimitSettings {
    pub fn merge(flags: &LimitFlags, file: LimitFile) -> Result<LimitSettings, String> {
        let places = |what: &str, all: Option<usize>, per_address: Option<usize>, default: usize| {
            let all = all.unwrap_or(default);
            let per_address = per_address.unwrap_or(all.div_ceil(2));
            if all == 0 || per_address == 0 {
                return Err(format!("--{what}-max and --{what}-per-address-max are at least 1"));
            }
            Ok(Places { all, per_address })
        };
        let seconds = |name: &str, said: Option<u64>, default: u64| match said.unwrap_or(default) {
            0 => Err(format!("--{name} is at least 1 second")),
            seconds => Ok(Duration::from_secs(seconds)),
        };
        Ok(LimitSettings {
            connections: places(
                "connections",
                flags.connections_max.or(file.connections_max),
                flags.connections_per_address_max.or(file.connections_per_address_max),
                10_000,
            )?,
            requests: places(
                "requests",
                flags.requests_max.or(file.requests_max),
                flags.requests_per_address_max.or(file.requests_per_address_max),
                4096,
            )?,
            idle: seconds("idle-timeout", flags.idle_timeout.or(file.idle_timeout), 120)?,
            smb_idle: seconds("smb-idle-timeout", flags.smb_idle_timeout.or(file.smb_idle_timeout), 900)?,
            stall: seconds("stall-timeout", flags.stall_timeout.or(file.stall_timeout), 60)?,
        })
    }

    /// For whoever comes from outside.
    pub fn doors(&self) -> Doors {
        Doors { connections: Door::new(self.connections), requests: Door::new(self.requests) }
    }

    /// For other gateways: each speaks for many clients, which were counted where they came in.
    pub fn doors_of_peers(&self) -> Doors {
        let alike = |places: Places| Door::new(Places { per_address: places.all, ..places });
        Doors { connections: alike(self.connections), requests: alike(self.requests) }
    }

    pub fn of_http(&self) -> http::wire::Limits {
        http::wire::Limits::new(self.idle, self.stall)
    }

    pub fn of_smb(&self) -> smb::connection::Limits {
        smb::connection::Limits { idle: self.smb_idle, stall: self.stall }
    }

    /// Every connection is a file to the operating system: as many as are allowed are asked for, and no more promised than are given.
    pub fn claim_files(&mut self) {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        /// What the program itself opens: the store, listeners, copies from outside.
        const OWN_FILES: usize = 1024;
        let limit = getrlimit(Resource::Nofile);
        let wanted = (self.connections.all + OWN_FILES) as u64;
        let to_be_had = limit.maximum.unwrap_or(u64::MAX).min(wanted);
        let mut given = limit.current.unwrap_or(u64::MAX);
        if given < to_be_had {
            let asked = Rlimit { current: Some(to_be_had), maximum: limit.maximum };
            given = if setrlimit(Resource::Nofile, asked).is_ok() { to_be_had } else { given };
        }
        if given < wanted {
            let left = usize::try_from(given).unwrap_or(usize::MAX).saturating_sub(OWN_FILES).max(64);
            tracing::warn!(
                files = given,
                connections = left,
                "the operating system gives fewer files than connections are allowed"
            );
            self.connections = Places { all: left, per_address: self.connections.per_address.min(left) };
        }
    }
}
