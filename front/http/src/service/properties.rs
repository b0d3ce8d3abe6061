//! `<StorageServiceProperties>`: read and written. An element that is not sent keeps its value; one that is sent is complete.

use contract::limits::{
    CORS_BYTES_MAX, CORS_HEADERS_MAX, CORS_NAME_CHARS_MAX, CORS_ORIGINS_MAX, CORS_PREFIXED_HEADERS_MAX, CORS_RULES_MAX,
    RETENTION_DAYS_MAX,
};
use contract::{ApiVersion, ErrorCode, Refusal, Service};
use partition::record::service::{CorsRule, Logging, Metrics, ServiceProperties};
use partition::service::Changes;

use super::elements;
use crate::xml::XmlWriter;
use crate::xml::read::{self, Element, invalid};

pub fn parse(service: Service, body: &[u8]) -> Result<Changes, Refusal> {
    let root = read::parse(body)?;
    if root.name != "StorageServiceProperties" {
        return Err(invalid("The root element is not StorageServiceProperties."));
    }
    let mut changes = Changes::default();
    for (at, element) in root.children.iter().enumerate() {
        let name = element.name.as_str();
        if !elements(service).contains(&name) {
            return Err(invalid(format!("{name} is no property of this service.")));
        }
        if root.children[..at].iter().any(|other| other.name == name) {
            return Err(invalid(format!("{name} is given twice.")));
        }
        match name {
            "Logging" => changes.logging = Some(logging(element)?),
            "HourMetrics" => changes.hour_metrics = Some(metrics(element)?),
            "MinuteMetrics" => changes.minute_metrics = Some(metrics(element)?),
            "Cors" => changes.cors = Some(cors(element)?),
            "DefaultServiceVersion" => {
                let version = element.text.trim();
                ApiVersion::parse(version).ok_or_else(|| invalid("DefaultServiceVersion is not a version."))?;
                changes.default_version = Some(version.to_string());
            }
            _ => only_disabled(element)?,
        }
    }
    Ok(changes)
}

/// What is not built may be named as off, and is refused as on.
fn only_disabled(element: &Element) -> Result<(), Refusal> {
    match element.name.as_str() {
        "ProtocolSettings" => {}
        _ if boolean(element, "Enabled")? => {}
        "StaticWebsite" if element.children.len() > 1 => {
            return Err(invalid("Documents are named while the static website is not enabled."));
        }
        _ => return Ok(()),
    }
    Err(Refusal::from(ErrorCode::NotImplemented).with("XmlNodeName", element.name.clone()))
}

fn logging(element: &Element) -> Result<Logging, Refusal> {
    Ok(Logging {
        version: version(element)?,
        read: boolean(element, "Read")?,
        write: boolean(element, "Write")?,
        delete: boolean(element, "Delete")?,
        retention_days: retention(element)?,
    })
}

fn metrics(element: &Element) -> Result<Metrics, Refusal> {
    let enabled = boolean(element, "Enabled")?;
    Ok(Metrics {
        version: version(element)?,
        enabled,
        include_apis: enabled && boolean(element, "IncludeAPIs")?,
        retention_days: retention(element)?,
    })
}

fn version(element: &Element) -> Result<String, Refusal> {
    match element.value("Version") {
        Some(version @ ("1.0" | "2.0")) => Ok(version.to_string()),
        _ => Err(invalid(format!("Version of {} is neither 1.0 nor 2.0.", element.name))),
    }
}

fn boolean(element: &Element, name: &str) -> Result<bool, Refusal> {
    match element.value(name) {
        Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(invalid(format!("{name} of {} is neither true nor false.", element.name))),
    }
}

fn retention(element: &Element) -> Result<Option<u16>, Refusal> {
    let policy = element.child("RetentionPolicy");
    let policy = policy.ok_or_else(|| invalid(format!("{} has no RetentionPolicy.", element.name)))?;
    if !boolean(policy, "Enabled")? {
        return Ok(None);
    }
    let days = policy.value("Days").and_then(|text| text.parse().ok());
    let days = days.filter(|days| (1..=RETENTION_DAYS_MAX).contains(days));
    days.map(Some).ok_or_else(|| invalid(format!("Days is not from 1 to {RETENTION_DAYS_MAX}.")))
}

fn cors(element: &Element) -> Result<Vec<CorsRule>, Refusal> {
    if element.children.len() > CORS_RULES_MAX {
        return Err(invalid(format!("There are more than {CORS_RULES_MAX} CORS rules.")));
    }
    let rules: Vec<CorsRule> = element.children.iter().map(cors_rule).collect::<Result<_, _>>()?;
    let bytes = rules
        .iter()
        .flat_map(|rule| [&rule.origins, &rule.methods, &rule.allowed_headers, &rule.exposed_headers])
        .flatten()
        .map(String::len)
        .sum::<usize>();
    if bytes > CORS_BYTES_MAX {
        return Err(invalid(format!("The CORS rules are larger than {CORS_BYTES_MAX} bytes.")));
    }
    Ok(rules)
}

fn cors_rule(element: &Element) -> Result<CorsRule, Refusal> {
    const METHODS: [&str; 8] = ["DELETE", "GET", "HEAD", "MERGE", "POST", "PATCH", "OPTIONS", "PUT"];
    if element.name != "CorsRule" {
        return Err(invalid("An element of Cors is not CorsRule."));
    }
    let list = |name: &str| {
        let child = element.child(name).ok_or_else(|| invalid(format!("A CorsRule has no {name}.")))?;
        let values = child.text.split(',').map(str::trim).filter(|value| !value.is_empty());
        Ok::<Vec<String>, Refusal>(values.map(String::from).collect())
    };
    let max_age = element.value("MaxAgeInSeconds").and_then(|text| text.parse::<u32>().ok());
    let rule = CorsRule {
        origins: list("AllowedOrigins")?,
        methods: list("AllowedMethods")?,
        allowed_headers: list("AllowedHeaders")?,
        exposed_headers: list("ExposedHeaders")?,
        max_age_seconds: max_age.ok_or_else(|| invalid("MaxAgeInSeconds is not a number."))?,
    };
    if rule.origins.is_empty() || rule.origins.len() > CORS_ORIGINS_MAX {
        return Err(invalid(format!("A CorsRule has 1 to {CORS_ORIGINS_MAX} origins.")));
    }
    if rule.methods.is_empty() || rule.methods.iter().any(|method| !METHODS.contains(&method.as_str())) {
        return Err(invalid(format!("AllowedMethods are some of {}.", METHODS.join(", "))));
    }
    for names in [&rule.allowed_headers, &rule.exposed_headers] {
        let prefixed = names.iter().filter(|name| name.ends_with('*')).count();
        if prefixed > CORS_PREFIXED_HEADERS_MAX || names.len() - prefixed > CORS_HEADERS_MAX {
            return Err(invalid(format!(
                "A CorsRule has at most {CORS_HEADERS_MAX} headers and {CORS_PREFIXED_HEADERS_MAX} prefixes of headers."
            )));
        }
    }
    let mut names = rule.origins.iter().chain(&rule.allowed_headers).chain(&rule.exposed_headers);
    if names.any(|name| name.chars().count() > CORS_NAME_CHARS_MAX || name.chars().any(char::is_control)) {
        return Err(invalid(format!(
            "An origin or header of a CorsRule has at most {CORS_NAME_CHARS_MAX} characters."
        )));
    }
    Ok(rule)
}

pub fn render(service: Service, properties: &ServiceProperties) -> String {
    let mut xml = XmlWriter::new();
    xml.open("StorageServiceProperties");
    for element in elements(service) {
        match *element {
            "Logging" => put_logging(&mut xml, &properties.logging),
            "HourMetrics" => put_metrics(&mut xml, "HourMetrics", &properties.hour_metrics),
            "MinuteMetrics" => put_metrics(&mut xml, "MinuteMetrics", &properties.minute_metrics),
            "Cors" => put_cors(&mut xml, &properties.cors),
            "DefaultServiceVersion" => {
                xml.optional("DefaultServiceVersion", properties.default_version.as_deref());
            }
            // Not built, and so never on.
            "DeleteRetentionPolicy" | "StaticWebsite" => {
                xml.open(element).element("Enabled", "false").close(element);
            }
            _ => {}
        }
    }
    xml.close("StorageServiceProperties");
    xml.finish()
}

fn word(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

fn put_logging(xml: &mut XmlWriter, logging: &Logging) {
    xml.open("Logging").element("Version", &logging.version);
    xml.element("Read", word(logging.read)).element("Write", word(logging.write));
    xml.element("Delete", word(logging.delete));
    put_retention(xml, logging.retention_days);
    xml.close("Logging");
}

fn put_metrics(xml: &mut XmlWriter, name: &str, metrics: &Metrics) {
    xml.open(name).element("Version", &metrics.version).element("Enabled", word(metrics.enabled));
    xml.optional("IncludeAPIs", metrics.enabled.then(|| word(metrics.include_apis)));
    put_retention(xml, metrics.retention_days);
    xml.close(name);
}

fn put_retention(xml: &mut XmlWriter, days: Option<u16>) {
    xml.open("RetentionPolicy").element("Enabled", word(days.is_some()));
    xml.optional("Days", days.map(|days| days.to_string()).as_deref());
    xml.close("RetentionPolicy");
}

fn put_cors(xml: &mut XmlWriter, rules: &[CorsRule]) {
    if rules.is_empty() {
        xml.element("Cors", "");
        return;
    }
    xml.open("Cors");
    for rule in rules {
        xml.open("CorsRule");
        xml.element("AllowedMethods", &rule.methods.join(","));
        xml.element("AllowedOrigins", &rule.origins.join(","));
        xml.element("AllowedHeaders", &rule.allowed_headers.join(","));
        xml.element("ExposedHeaders", &rule.exposed_headers.join(","));
        xml.element("MaxAgeInSeconds", &rule.max_age_seconds.to_string());
        xml.close("CorsRule");
    }
    xml.close("Cors");
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "<CorsRule><AllowedMethods>GET,PUT</AllowedMethods><AllowedOrigins>http://a,*</AllowedOrigins>\
        <AllowedHeaders>x-ms-meta-*,accept</AllowedHeaders><ExposedHeaders /><MaxAgeInSeconds>5</MaxAgeInSeconds></CorsRule>";

    fn document(inner: &str) -> String {
        format!("<StorageServiceProperties>{inner}</StorageServiceProperties>")
    }

    #[test]
    fn what_is_not_sent_stays_and_what_is_sent_comes_back() {
        let sent = document(&format!(
            "<Logging><Version>1.0</Version><Read>True</Read><Write>false</Write><Delete>false</Delete>\
             <RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></Logging>\
             <HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>false</IncludeAPIs>\
             <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics>\
             <Cors>{RULE}</Cors><DefaultServiceVersion>2020-10-02</DefaultServiceVersion>"
        ));
        let first = parse(Service::Blob, sent.as_bytes()).expect("right").applied_to(ServiceProperties::default());
        let shown = render(Service::Blob, &first);
        for part in [
            "<Logging><Version>1.0</Version><Read>true</Read><Write>false</Write><Delete>false</Delete><RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></Logging>",
            "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>false</IncludeAPIs><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics>",
            "<MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></MinuteMetrics>",
            RULE,
            "<DefaultServiceVersion>2020-10-02</DefaultServiceVersion>",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert_eq!(parse(Service::Blob, shown.as_bytes()).expect("ours").applied_to(Default::default()), first);

        let removed = parse(Service::Blob, document("<Cors />").as_bytes()).expect("right").applied_to(first.clone());
        assert_eq!(removed, ServiceProperties { cors: Vec::new(), ..first });
    }

    #[test]
    fn what_is_refused() {
        let rule = |from: &str, to: &str| document(&format!("<Cors>{}</Cors>", RULE.replacen(from, to, 1)));
        let metrics = |inner: &str| document(&format!("<HourMetrics>{inner}</HourMetrics>"));
        for (service, text, code) in [
            (Service::Blob, "<Other />".to_string(), ErrorCode::InvalidXmlDocument),
            (Service::Blob, document("<Other />"), ErrorCode::InvalidXmlDocument),
            (Service::Blob, document("<Cors /><Cors />"), ErrorCode::InvalidXmlDocument),
            (Service::Queue, document("<StaticWebsite />"), ErrorCode::InvalidXmlDocument),
            (Service::File, document("<Logging />"), ErrorCode::InvalidXmlDocument),
            (Service::Blob, document("<Logging />"), ErrorCode::InvalidXmlDocument),
            (
                Service::Blob,
                metrics(
                    "<Version>1.0</Version><Enabled>true</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>",
                ),
                ErrorCode::InvalidXmlDocument,
            ),
            (Service::Blob, metrics("<Version>1.0</Version><Enabled>false</Enabled>"), ErrorCode::InvalidXmlDocument),
            (
                Service::Blob,
                metrics(
                    "<Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>true</Enabled><Days>366</Days></RetentionPolicy>",
                ),
                ErrorCode::InvalidXmlDocument,
            ),
            (
                Service::Blob,
                metrics(
                    "<Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>true</Enabled><Days>0</Days></RetentionPolicy>",
                ),
                ErrorCode::InvalidXmlDocument,
            ),
            (Service::Blob, document(&format!("<Cors>{}</Cors>", RULE.repeat(6))), ErrorCode::InvalidXmlDocument),
            (Service::Blob, rule("GET", "FETCH"), ErrorCode::InvalidXmlDocument),
            (Service::Blob, rule("GET,PUT", ""), ErrorCode::InvalidXmlDocument),
            (Service::Blob, rule("http://a,*", ""), ErrorCode::InvalidXmlDocument),
            (Service::Blob, rule("<ExposedHeaders />", ""), ErrorCode::InvalidXmlDocument),
            (Service::Blob, rule(">5<", ">soon<"), ErrorCode::InvalidXmlDocument),
            (Service::Blob, rule("accept", &"x".repeat(257)), ErrorCode::InvalidXmlDocument),
            (Service::Blob, rule("accept", "a*,b*"), ErrorCode::InvalidXmlDocument),
            (
                Service::Blob,
                rule("http://a", &(0..64).map(|n| format!("{n}")).collect::<Vec<_>>().join(",")),
                ErrorCode::InvalidXmlDocument,
            ),
            (Service::Blob, rule("accept", &vec!["x".repeat(250); 9].join(",")), ErrorCode::InvalidXmlDocument),
            (
                Service::Blob,
                document("<DefaultServiceVersion>soon</DefaultServiceVersion>"),
                ErrorCode::InvalidXmlDocument,
            ),
            (
                Service::Blob,
                document("<StaticWebsite><Enabled>true</Enabled></StaticWebsite>"),
                ErrorCode::NotImplemented,
            ),
            (
                Service::Blob,
                document("<StaticWebsite><Enabled>false</Enabled><IndexDocument>i</IndexDocument></StaticWebsite>"),
                ErrorCode::InvalidXmlDocument,
            ),
            (
                Service::Blob,
                document("<DeleteRetentionPolicy><Enabled>true</Enabled><Days>1</Days></DeleteRetentionPolicy>"),
                ErrorCode::NotImplemented,
            ),
            (Service::File, document("<ProtocolSettings><Smb /></ProtocolSettings>"), ErrorCode::NotImplemented),
        ] {
            assert_eq!(parse(service, text.as_bytes()).err().map(|refusal| refusal.code), Some(code), "{text}");
        }
        let off = document(
            "<StaticWebsite><Enabled>false</Enabled></StaticWebsite><DeleteRetentionPolicy><Enabled>false</Enabled></DeleteRetentionPolicy>",
        );
        assert_eq!(parse(Service::Blob, off.as_bytes()), Ok(Changes::default()));
    }
}
