//! What is said of traces, by flags, by the file, or by the variables that OpenTelemetry has for it.

use clap::Args;
use http::source::SourceUrl;
use partition::account::Secret;

use crate::otlp::OtlpSettings;

#[derive(Args, Clone, Debug, Default)]
pub(super) struct OtlpFlags {
    /// The OpenTelemetry collector that gets traces [default: none]
    ///
    /// OTLP over HTTP, as http://localhost:4318. OpenTelemetry's own variable OTEL_EXPORTER_OTLP_ENDPOINT is looked at as well, unless
    /// this is `off` (docs/tracing.md).
    #[arg(long, value_name = "URL", env = "LAZULI_OTLP_ENDPOINT")]
    otlp_endpoint: Option<String>,
    /// Which part of the traces that begin here is followed, from 0 to 1 [default: 1, all of them]
    ///
    /// Of those that a client began the client decides.
    #[arg(long, value_name = "RATIO", env = "LAZULI_TRACE_RATIO")]
    trace_ratio: Option<f64>,
}

/// OpenTelemetry's own variable for it.
pub(super) const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// `environment` is what OpenTelemetry's own variables are read from.
pub(super) fn merge(
    flags: OtlpFlags,
    (endpoint, ratio): (Option<String>, Option<f64>),
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Option<OtlpSettings>, String> {
    let environment = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
    let endpoint = flags.otlp_endpoint.or(endpoint).or_else(|| environment(ENDPOINT));
    let ratio = flags.trace_ratio.or(ratio);
    let Some(endpoint) = endpoint.filter(|endpoint| endpoint != "off") else {
        return match ratio {
            Some(_) => {
                Err("--trace-ratio is about the traces that --otlp-endpoint gets: say that, too, or leave it out"
                    .into())
            }
            None => Ok(None),
        };
    };
    let ratio = ratio.unwrap_or(1.0);
    if !(0.0..=1.0).contains(&ratio) {
        return Err(format!("--trace-ratio {ratio}: it is from 0 to 1"));
    }
    let base = endpoint.trim_end_matches('/');
    let url = if base.ends_with("/v1/traces") { base.to_string() } else { format!("{base}/v1/traces") };
    let url = SourceUrl::parse(&url).map_err(|_| {
        format!("--otlp-endpoint {endpoint}: it is http://HOST:PORT or https://HOST:PORT, as http://localhost:4318")
    })?;
    let mut resource = pairs("OTEL_RESOURCE_ATTRIBUTES", environment("OTEL_RESOURCE_ATTRIBUTES"))?;
    let named = resource.iter().position(|(name, _)| name == "service.name").map(|at| resource.remove(at).1);
    let service = environment("OTEL_SERVICE_NAME").or(named).unwrap_or_else(|| "lazuli".into());
    resource.insert(0, ("service.name".into(), service));
    if !resource.iter().any(|(name, _)| name == "service.version") {
        resource.push(("service.version".into(), env!("CARGO_PKG_VERSION").into()));
    }
    let headers = pairs("OTEL_EXPORTER_OTLP_HEADERS", environment("OTEL_EXPORTER_OTLP_HEADERS"))?;
    let headers = headers.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
    Ok(Some(OtlpSettings { url, ratio, headers, resource }))
}

/// `name=value,name=value`, values with escapes of URLs.
fn pairs(variable: &str, text: Option<String>) -> Result<Vec<(String, String)>, String> {
    let text = text.unwrap_or_default();
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let read = parts.map(|part| {
        let (name, value) = part.split_once('=')?;
        Some((name.trim().to_string(), http::percent_decode(value.trim())?)).filter(|(name, _)| !name.is_empty())
    });
    // What is wrong with it is not shown: it may be a secret.
    read.collect::<Option<_>>().ok_or_else(|| format!("{variable} is not of the form name=value,name=value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(flags: &[&str], variables: &[(&str, &str)]) -> Result<Option<OtlpSettings>, String> {
        let flag = |name: &str| flags.iter().find_map(|flag| flag.strip_prefix(name).map(String::from));
        let flags = OtlpFlags {
            otlp_endpoint: flag("endpoint="),
            trace_ratio: flag("ratio=").map(|text| text.parse().expect("a number")),
        };
        let variable =
            |name: &str| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value.to_string());
        merge(flags, (None, None), variable)
    }

    #[test]
    fn endpoints() {
        const OTEL: &str = ENDPOINT;
        for (flags, variables, expected) in [
            (&[][..], &[][..], Ok(None)),
            (&["endpoint=http://h:4318"], &[], Ok(Some("http://h:4318/v1/traces"))),
            (&["endpoint=http://h:4318/"], &[], Ok(Some("http://h:4318/v1/traces"))),
            (&["endpoint=https://h/otlp"], &[], Ok(Some("https://h/otlp/v1/traces"))),
            (&["endpoint=http://h/v1/traces"], &[], Ok(Some("http://h/v1/traces"))),
            (&[], &[(OTEL, "http://h:4318")], Ok(Some("http://h:4318/v1/traces"))),
            (&["endpoint=http://a"], &[(OTEL, "http://b")], Ok(Some("http://a/v1/traces"))),
            (&["endpoint=off"], &[(OTEL, "http://b")], Ok(None)),
            (&[], &[(OTEL, " ")], Ok(None)),
            (&["endpoint=h:4318"], &[], Err("http://HOST:PORT")),
            (&["endpoint=ftp://h"], &[], Err("http://HOST:PORT")),
            (&["ratio=0.5"], &[], Err("--otlp-endpoint")),
            (&["endpoint=http://h", "ratio=1.5"], &[], Err("from 0 to 1")),
            (&["endpoint=http://h", "ratio=NaN"], &[], Err("from 0 to 1")),
            (&["endpoint=http://h"], &[("OTEL_EXPORTER_OTLP_HEADERS", "secret")], Err("name=value")),
        ] {
            match (given(flags, variables), expected) {
                (Ok(found), Ok(expected)) => {
                    assert_eq!(found.as_ref().map(|found| found.url.as_str()), expected, "{flags:?}")
                }
                (Err(error), Err(words)) => assert!(error.contains(words) && !error.contains("secret"), "{error}"),
                (found, expected) => panic!("{flags:?}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn what_the_program_is_called() {
        let named =
            |variables: &[(&str, &str)]| given(&["endpoint=http://h"], variables).expect("right").expect("on").resource;
        let attribute = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(named(&[])[0], attribute("service.name", "lazuli"));
        let both = [("OTEL_SERVICE_NAME", "a"), ("OTEL_RESOURCE_ATTRIBUTES", "service.name=b,team=x%20y")];
        assert_eq!(named(&both)[..2], [attribute("service.name", "a"), attribute("team", "x y")]);
        assert_eq!(named(&both[1..])[0], attribute("service.name", "b"));
    }

    #[test]
    fn headers_are_not_shown() {
        let settings = given(&["endpoint=http://h"], &[("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret%21")])
            .expect("right")
            .expect("on");
        assert_eq!(settings.headers, [("api-key".to_string(), Secret::new("secret!"))]);
        assert!(!format!("{settings:?}").contains("secret"));
    }
}
