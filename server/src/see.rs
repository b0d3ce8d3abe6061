//! What is seen of the server: the console's listener, and what the program knows of itself.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use console::{Console, ConsoleHost, Metric, Program, Text};
use contract::Service;
use embedded::Embedded;
use env::Timestamp;
use http::{App, Doors, Listener};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::config::{Port, Settings};
use crate::storage::Storage;

/// What the program around the console is made of.
struct Around {
    /// `None` with a cluster.
    engine: Option<Arc<Embedded>>,
    doors: Doors,
    console: Doors,
    smb: Option<Arc<smb::Server>>,
    draining: watch::Receiver<bool>,
    started: Timestamp,
}

/// Binds the console's socket, unless it is off.
pub async fn listen(
    settings: &Settings,
    app: &Arc<App>,
    storage: &Storage,
    (doors, smb): (Doors, Option<Arc<smb::Server>>),
    acceptor: Option<TlsAcceptor>,
    draining: watch::Receiver<bool>,
) -> Result<Option<Listener<ConsoleHost>>, String> {
    let Port::On(port) = settings.console_port else { return Ok(None) };
    let engine = match storage {
        Storage::Embedded { engine, .. } => Some(engine.clone()),
        Storage::Cluster(_) => None,
    };
    let own = settings.limits.doors_of_console();
    let has_smb = smb.is_some();
    let started = app.shell.clock.now();
    let around = Arc::new(Around { engine, doors, console: own.clone(), smb, draining, started });
    let console = Console::new(app.clone(), app.listening().iter().map(reachable).collect(), has_smb, around);
    let address = (settings.host, port).into();
    let bound = Listener::of(ConsoleHost(console.clone()), address, acceptor, own, settings.limits.of_http()).await;
    let listener = bound.map_err(|error| error.to_string())?;
    console.set_address(listener.address().map_err(|error| format!("cannot tell where it listens: {error}"))?);
    Ok(Some(listener))
}

/// An address that stands for all of them is none to ask at.
fn reachable((service, address): &(Service, SocketAddr)) -> (Service, SocketAddr) {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    (*service, (ip, address.port()).into())
}

impl Program for Around {
    fn measure(&self, text: &mut Text) {
        let doors = [("services", &self.doors), ("console", &self.console)];
        let connections = doors.map(|(name, doors)| (name, doors.connections.counts()));
        let requests = doors.map(|(name, doors)| (name, doors.requests.counts()));
        for (inside, refused, counts) in [
            (Metric::Connections, Metric::RefusedConnections, connections),
            (Metric::InFlight, Metric::RefusedRequests, requests),
        ] {
            text.begin(inside);
            counts.into_iter().for_each(|(name, (inside, _))| text.line(&[("door", name)], inside));
            text.begin(refused);
            counts.into_iter().for_each(|(name, (_, refused))| text.line(&[("door", name)], refused));
        }
        if let Some(engine) = &self.engine {
            let measures = engine.measures();
            text.begin(Metric::CommitDuration);
            text.durations(&[], measures.commits);
            text.begin(Metric::CommitGroup);
            text.sizes(&[], measures.group_sizes);
            text.begin(Metric::SegmentSync);
            text.durations(&[], measures.segment_syncs);
            text.single(Metric::Segments, measures.segments);
            text.single(Metric::SegmentBytes, measures.segment_bytes);
            text.single(Metric::SegmentDeadBytes, measures.dead_bytes);
            if let Some(bytes) = measures.record_bytes {
                text.single(Metric::RecordBytes, bytes);
            }
            text.single(Metric::DiskFree, measures.free_bytes);
            text.single(Metric::DiskReserve, measures.reserve_bytes);
        }
        if let Some(smb) = &self.smb {
            let (connections, sessions) = smb.counts();
            text.single(Metric::SmbConnections, connections);
            text.single(Metric::SmbSessions, sessions);
        }
        self.measure_process(text);
    }

    fn check(&self) -> Result<(), String> {
        if *self.draining.borrow() {
            return Err("the server is stopping".to_string());
        }
        self.engine.as_ref().map_or(Ok(()), |engine| engine.check()).map_err(|fault| fault.to_string())
    }

    fn is_one_of_many(&self) -> bool {
        self.engine.is_none()
    }
}

impl Around {
    /// As the system tells it; what it does not tell is left out.
    fn measure_process(&self, text: &mut Text) {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let status = read("/proc/self/status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = resident.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        if let Some(kibibytes) = kibibytes {
            text.single(Metric::Memory, kibibytes * 1024);
        }
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            text.single(Metric::Files, files.count());
        }
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        if let Some(limit) = limit.current {
            text.single(Metric::FilesMax, limit);
        }
        if let Some(seconds) = processor_seconds(&read("/proc/self/stat")) {
            text.single(Metric::Cpu, seconds);
        }
        let since = self.started.seconds().saturating_sub(Timestamp::UNIX_EPOCH.seconds());
        text.single(Metric::Start, since);
    }
}

/// User and system time, the 14th and 15th field; the second one is a name in brackets that may have anything in it. Linux tells them in
/// hundredths whatever the kernel's own ticks are.
fn processor_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) as f64 / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 50 1 1 20 0";
        assert_eq!(processor_seconds(stat), Some(3.0));
        assert_eq!(processor_seconds("nonsense"), None);
    }

    #[test]
    fn addresses_to_ask_at() {
        for (bound, asked) in [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("10.0.0.1:2", "10.0.0.1:2")] {
            let bound = (Service::Blob, bound.parse().expect("an address"));
            assert_eq!(reachable(&bound).1.to_string(), asked);
        }
    }
}
