//! The other gateways of a cluster: where they reach this one, and whom they find there.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use http::{App, Listener, Served};

use crate::config::{EngineSettings, Port, Settings};
use crate::storage::Storage;

/// How other gateways reach this one, if they may.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerSettings {
    pub port: Port,
    pub address: Option<String>,
}

impl PeerSettings {
    /// `said` is port and address; `shares` the ports on which shares would be served.
    pub fn merge(
        engine: &EngineSettings,
        said: (Option<Port>, Option<String>),
        shares: [Port; 2],
    ) -> Result<Option<PeerSettings>, String> {
        match (engine, said) {
            (EngineSettings::Embedded { .. }, (None, None)) => Ok(None),
            (EngineSettings::Embedded { .. }, _) => Err(
                "--peer-port and --peer-address are about the gateways of a cluster: say --engine rados, too, or leave them out".into(),
            ),
            (EngineSettings::Rados(_), (Some(Port::Off), None)) if shares == [Port::Off; 2] => {
                Ok(Some(PeerSettings { port: Port::Off, address: None }))
            }
            (EngineSettings::Rados(_), (Some(Port::Off), _)) => Err(
                "--peer-port off: a gateway that the others cannot reach serves no shares; say --file-port off and --smb-port off, \
                 too, and no --peer-address"
                    .into(),
            ),
            (EngineSettings::Rados(_), (port, address)) => {
                Ok(Some(PeerSettings { port: port.unwrap_or(Port::On(0)), address }))
            }
        }
    }
}

/// Makes this gateway one of those that serve the shares of a cluster. Nothing happens where there can be no other.
pub async fn join(settings: &Settings, storage: &Storage, app: &Arc<App>) -> Result<Option<Listener>, String> {
    let (Some(peers), Storage::Cluster(cluster)) = (&settings.peers, storage) else { return Ok(None) };
    let joining = app.join_peers().await;
    joining.map_err(|failure| format!("the other gateways cannot be joined: {failure:?}"))?;
    let Port::On(port) = peers.port else { return Ok(None) };
    let (doors, limits) = (settings.limits.doors_of_peers(), settings.limits.of_http());
    let listener = Listener::bind(Served::Peers, (settings.host, port).into(), None, app.clone(), doors, limits);
    let listener = listener.await.map_err(|error| error.to_string())?;
    let bound = listener.address().map_err(|error| format!("cannot tell where it listens: {error}"))?;
    let address = address(peers.address.as_deref(), bound)?;
    tracing::info!(%address, "other gateways are told to find this one there");
    let shell = Arc::downgrade(&app.shell);
    cluster.introduce(address, move |group| {
        let shell = shell.upgrade();
        if let Some(tenures) = shell.as_ref().and_then(|shell| shell.tenures()) {
            tenures.lost(&group);
        }
    });
    Ok(Some(listener))
}

/// What others are told: what was said, with the port that was found if none was said; else where it listens.
fn address(said: Option<&str>, bound: SocketAddr) -> Result<String, String> {
    match said {
        None if bound.ip().is_unspecified() => Err(format!(
            "--host {} is every address of this machine: --peer-address HOST[:PORT] says by which one the other gateways reach it",
            bound.ip()
        )),
        None => Ok(bound.to_string()),
        Some(said) => {
            let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port != 0);
            let is_host = |host: &str| {
                let bytes = host.as_bytes();
                !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(byte))
            };
            let is_bracketed = |host: &str| {
                host.strip_prefix('[').and_then(|host| host.strip_suffix(']')?.parse::<Ipv6Addr>().ok()).is_some()
            };
            let port = bound.port();
            match (said.parse::<IpAddr>(), said.rsplit_once(':')) {
                (Ok(ip), _) => Ok(SocketAddr::new(ip, port).to_string()),
                (_, Some((host, told))) if is_port(told) && (is_host(host) || is_bracketed(host)) => {
                    Ok(said.to_string())
                }
                _ if is_host(said) || is_bracketed(said) => Ok(format!("{said}:{port}")),
                _ => Err(format!("--peer-address {said}: it is HOST or HOST:PORT")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_for_others() {
        for (said, bound, expected) in [
            (None, "10.0.0.1:7000", Some("10.0.0.1:7000")),
            (None, "[::1]:7000", Some("[::1]:7000")),
            (None, "0.0.0.0:7000", None),
            (None, "[::]:7000", None),
            (Some("gateway-1"), "0.0.0.0:7000", Some("gateway-1:7000")),
            (Some("gateway-1.example:8000"), "0.0.0.0:7000", Some("gateway-1.example:8000")),
            (Some("10.0.0.2"), "0.0.0.0:7000", Some("10.0.0.2:7000")),
            (Some("10.0.0.2:8000"), "0.0.0.0:7000", Some("10.0.0.2:8000")),
            (Some("::2"), "[::]:7000", Some("[::2]:7000")),
            (Some("[::2]"), "[::]:7000", Some("[::2]:7000")),
            (Some("[::2]:8000"), "[::]:7000", Some("[::2]:8000")),
            (Some(""), "0.0.0.0:7000", None),
            (Some(":8000"), "0.0.0.0:7000", None),
            (Some("h:0"), "0.0.0.0:7000", None),
            (Some("h:x"), "0.0.0.0:7000", None),
            (Some("http://h"), "0.0.0.0:7000", None),
            (Some("a b"), "0.0.0.0:7000", None),
        ] {
            let found = address(said, bound.parse().expect("an address"));
            assert_eq!(found.ok().as_deref(), expected, "{said:?} {bound}");
        }
    }
}
