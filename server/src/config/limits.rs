//! What strangers may cost: connections, requests under way, and how long they are waited for.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use door::{Door, Places};
use http::Doors;
use smb::memory::{BUDGET_MIB_DEFAULT, BUDGET_MIB_LEAST, Budget};

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
    /// MiB of bodies and answers over HTTP that are held whole, such as listings, together; one client address may have half of it [default: 512]
    #[arg(long, value_name = "MIB", env = "LAZULI_BUFFERED_MIB_MAX")]
    buffered_mib_max: Option<usize>,
    /// MiB of requests and answers over SMB that all connections hold together; more of them wait [default: 512]
    #[arg(long, value_name = "MIB", env = "LAZULI_SMB_BUFFERED_MIB_MAX")]
    smb_buffered_mib_max: Option<usize>,
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
    pub buffered_mib_max: Option<usize>,
    pub smb_buffered_mib_max: Option<usize>,
    pub idle_timeout: Option<u64>,
    pub smb_idle_timeout: Option<u64>,
    pub stall_timeout: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitSettings {
    pub connections: Places,
    pub requests: Places,
    console: Places,
    /// In bytes.
    buffered: Places,
    smb_buffered_mib: usize,
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
        let buffered = flags.buffered_mib_max.or(file.buffered_mib_max).unwrap_or(512);
        if buffered < BUFFERED_MIB_LEAST {
            return Err(format!(
                "--buffered-mib-max is at least {BUFFERED_MIB_LEAST}: the longest listing takes as much"
            ));
        }
        let buffered = buffered.saturating_mul(1 << 20);
        let smb_buffered_mib = flags.smb_buffered_mib_max.or(file.smb_buffered_mib_max).unwrap_or(BUDGET_MIB_DEFAULT);
        if smb_buffered_mib < BUDGET_MIB_LEAST {
            return Err(format!(
                "--smb-buffered-mib-max is at least {BUDGET_MIB_LEAST}: the longest chain of requests may be answered with half of it"
            ));
        }
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
            console: Places { all: 512, per_address: 256 },
            buffered: Places { all: buffered, per_address: buffered / 2 },
            smb_buffered_mib,
            idle: seconds("idle-timeout", flags.idle_timeout.or(file.idle_timeout), 120)?,
            smb_idle: seconds("smb-idle-timeout", flags.smb_idle_timeout.or(file.smb_idle_timeout), 900)?,
            stall: seconds("stall-timeout", flags.stall_timeout.or(file.stall_timeout), 60)?,
        })
    }

    /// For whoever comes from outside.
    pub fn doors(&self) -> Doors {
        Doors::new(self.connections, self.requests, Door::new(self.buffered))
    }

    /// For other gateways: each speaks for many clients, which were counted where they came in.
    pub fn doors_of_peers(&self) -> Doors {
        let alike = |places: Places| Places { per_address: places.all, ..places };
        Doors::new(alike(self.connections), alike(self.requests), Door::new(alike(self.buffered)))
    }

    /// The console has doors of its own: whoever fills those of the services does not keep its people, or a monitor, out.
    pub fn doors_of_console(&self) -> Doors {
        Doors::new(self.console, self.console, Door::new(self.buffered))
    }

    pub fn of_http(&self) -> http::wire::Limits {
        http::wire::Limits::new(self.idle, self.stall)
    }

    pub fn of_smb(&self) -> smb::connection::Limits {
        smb::connection::Limits { idle: self.smb_idle, stall: self.stall }
    }

    pub fn budget_of_smb(&self) -> Arc<Budget> {
        Budget::new(self.smb_buffered_mib)
    }

    /// Every connection is a file to the operating system: all that it gives are taken, and no more promised than that. `has_peers`: other
    /// gateways come in by doors like those of the clients.
    pub fn claim_files(&mut self, has_peers: bool) {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        let asked = Rlimit { current: limit.maximum, maximum: limit.maximum };
        let is_given = setrlimit(Resource::Nofile, asked).is_ok();
        let files = if is_given { limit.maximum } else { limit.current };
        let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
        if self.fit(files, has_peers) {
            let connections = self.connections.all;
            tracing::warn!(files, connections, "the operating system gives fewer files than connections are allowed");
        }
    }

    /// Allows no more connections than there are files for, beside those of the program itself; whether that is fewer than were allowed.
    fn fit(&mut self, files: usize, has_peers: bool) -> bool {
        let alike = if has_peers { 2 } else { 1 };
        let told = Doors::AWAY.all * (alike + 1);
        let left = files.saturating_sub(OWN_FILES + told);
        if self.connections.all.saturating_mul(alike).saturating_add(self.console.all) <= left {
            return false;
        }
        let at_most = |places: Places, all: usize| {
            let all = places.all.min(all);
            Places { all, per_address: places.per_address.min(all) }
        };
        // What a server is of use with.
        self.console = at_most(self.console, (left / 8).max(32));
        self.connections = at_most(self.connections, (left.saturating_sub(self.console.all) / alike).max(64));
        true
    }
}

/// An address has half of it, and a page of 5,000 blobs with long names and all the metadata they may have is some 50 MiB.
const BUFFERED_MIB_LEAST: usize = 128;

/// What the program itself opens: the store, which has 512 for reading and others while it writes tables and journals, listeners, copies from
/// outside. Without a file for its next journal the store would stop, so nobody at a door may have one of these.
const OWN_FILES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_there_are_files_for() {
        for (files, has_peers, allowed, connections, console) in [
            (usize::MAX, false, (10_000, 5000), (10_000, 5000), 512),
            (1024 + 128 + 512 + 10_000, false, (10_000, 5000), (10_000, 5000), 512),
            (1024 + 128 + 512 + 9999, false, (10_000, 5000), (9999, 5000), 512),
            (1024 + 128 + 512 + 10_000, true, (10_000, 5000), (4968, 4968), 512),
            (4096, false, (10_000, 5000), (2576, 2576), 368),
            (4096, false, (100, 50), (100, 50), 512),
            (1024, false, (10_000, 5000), (64, 64), 32),
            (0, true, (10_000, 5000), (64, 64), 32),
            (0, false, (4, 2), (4, 2), 32),
        ] {
            let flags = LimitFlags {
                connections_max: Some(allowed.0),
                connections_per_address_max: Some(allowed.1),
                ..LimitFlags::default()
            };
            let mut limits = LimitSettings::merge(&flags, LimitFile::default()).expect("right");
            limits.fit(files, has_peers);
            let found = (limits.connections.all, limits.connections.per_address);
            assert_eq!((found, limits.console.all), (connections, console), "{files} files");
            let doors = limits.connections.all * (1 + usize::from(has_peers)) + limits.console.all;
            assert!(files < 2048 || doors + 128 + OWN_FILES <= files, "{files} files");
        }
    }
}
