//! `<StorageServiceProperties>`: read and written. An element that is not sent keeps its value; one that is sent is complete.

use contract::limits::{
    CORS_BYTES_MAX, CORS_HEADERS_MAX, CORS_NAME_CHARS_MAX, CORS_ORIGINS_MAX, CORS_PREFIXED_HEADERS_MAX, CORS_RULES_MAX,
    RETENTION_DAYS_MAX, WEBSITE_PATH_CHARS_MAX,
};
use contract::names::BlobName;
use contract::{ApiVersion, Refusal, Service};
use partition::record::service::{
    CorsRule, DeleteRetention, Logging, Metrics, ProtocolSettings, ServiceProperties, StaticWebsite,
};
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
        if root.children[..at].iter().any(|other| other.name == name) {
            return Err(invalid(format!("{name} is given twice.")));
        }
        match name {
            _ if !elements(service).contains(&name) => return Err(no_property(name)),
            "Logging" => changes.logging = Some(logging(element)?),
            "HourMetrics" => changes.hour_metrics = Some(metrics(element)?),
            "MinuteMetrics" => changes.minute_metrics = Some(metrics(element)?),
            "Cors" => changes.cors = Some(cors(element)?),
            "DefaultServiceVersion" => {
                let version = element.text.trim();
                ApiVersion::parse(version).ok_or_else(|| invalid("DefaultServiceVersion is not a version."))?;
                changes.default_version = Some(version.to_string());
            }
            "DeleteRetentionPolicy" => changes.delete_retention = Some(delete_retention(element)?),
            "StaticWebsite" => changes.website = Some(website(element)?),
            "ProtocolSettings" => changes.protocols = Some(protocol_settings(element)?),
            _ => return Err(no_property(name)),
        }
    }
    Ok(changes)
}

fn no_property(name: &str) -> Refusal {
    invalid(format!("{name} is no property of this service."))
}

fn delete_retention(element: &Element) -> Result<Option<DeleteRetention>, Refusal> {
    only_children(element, &["Enabled", "Days", "AllowPermanentDelete"])?;
    let allow_permanent = element.child("AllowPermanentDelete").is_some() && boolean(element, "AllowPermanentDelete")?;
    Ok(days(element)?.map(|days| DeleteRetention { days, allow_permanent }))
}

fn website(element: &Element) -> Result<Option<StaticWebsite>, Refusal> {
    only_children(element, &["Enabled", "IndexDocument", "DefaultIndexDocumentPath", "ErrorDocument404Path"])?;
    let path = |name: &str| match element.value(name) {
        None => Ok(None),
        Some(path) if path.chars().count() > WEBSITE_PATH_CHARS_MAX || BlobName::parse(path).is_err() => {
            Err(invalid(format!("{name} is not the name of a blob of at most {WEBSITE_PATH_CHARS_MAX} characters.")))
        }
        Some(path) => Ok(Some(path.to_string())),
    };
    let website = StaticWebsite {
        index_document: path("IndexDocument")?,
        default_index_path: path("DefaultIndexDocumentPath")?,
        error_path: path("ErrorDocument404Path")?,
    };
    if !boolean(element, "Enabled")? {
        return match website == StaticWebsite::default() {
            true => Ok(None),
            false => Err(invalid("Documents are named while the static website is not enabled.")),
        };
    }
    if website.index_document.as_ref().is_some_and(|name| name.contains('/')) {
        return Err(invalid("IndexDocument is a name without a path."));
    }
    if website.index_document.is_some() && website.default_index_path.is_some() {
        return Err(invalid("IndexDocument and DefaultIndexDocumentPath exclude each other."));
    }
    Ok(Some(website))
}

/// Where each setting stands: its protocol, its part of it, and its name there.
const SMB_MULTICHANNEL: [&str; 3] = ["SMB", "Multichannel", "Enabled"];
const SMB_ENCRYPTION: [&str; 3] = ["SMB", "EncryptionInTransit", "Required"];
const NFS_ENCRYPTION: [&str; 3] = ["NFS", "EncryptionInTransit", "Required"];

fn protocol_settings(element: &Element) -> Result<ProtocolSettings, Refusal> {
    only_children(element, &["SMB", "NFS"])?;
    element.child("SMB").map_or(Ok(()), |smb| only_children(smb, &["Multichannel", "EncryptionInTransit"]))?;
    element.child("NFS").map_or(Ok(()), |nfs| only_children(nfs, &["EncryptionInTransit"]))?;
    let setting = |[protocol, part, name]: [&str; 3]| {
        let Some(part) = element.child(protocol).and_then(|protocol| protocol.child(part)) else { return Ok(None) };
        only_children(part, &[name])?;
        boolean(part, name).map(Some)
    };
    Ok(ProtocolSettings {
        smb_multichannel: setting(SMB_MULTICHANNEL)?,
        smb_encryption_required: setting(SMB_ENCRYPTION)?,
        nfs_encryption_required: setting(NFS_ENCRYPTION)?,
    })
}

/// Each of these at most once, and nothing else.
fn only_children(element: &Element, names: &[&str]) -> Result<(), Refusal> {
    for (at, child) in element.children.iter().enumerate() {
        let is_twice = element.children[..at].iter().any(|other| other.name == child.name);
        if is_twice || !names.contains(&child.name.as_str()) {
            return Err(invalid(format!("{} of {} is unknown or given twice.", child.name, element.name)));
        }
    }
    Ok(())
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
    days(policy)
}

/// `Days` of a policy that is enabled.
fn days(policy: &Element) -> Result<Option<u16>, Refusal> {
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
            "DeleteRetentionPolicy" => put_delete_retention(&mut xml, properties.delete_retention),
            "StaticWebsite" => put_website(&mut xml, properties.website.as_ref()),
            "ProtocolSettings" => put_protocol_settings(&mut xml, &properties.protocols),
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

fn put_delete_retention(xml: &mut XmlWriter, retention: Option<DeleteRetention>) {
    xml.open("DeleteRetentionPolicy").element("Enabled", word(retention.is_some()));
    if let Some(DeleteRetention { days, allow_permanent }) = retention {
        xml.element("Days", &days.to_string()).element("AllowPermanentDelete", word(allow_permanent));
    }
    xml.close("DeleteRetentionPolicy");
}

fn put_website(xml: &mut XmlWriter, website: Option<&StaticWebsite>) {
    xml.open("StaticWebsite").element("Enabled", word(website.is_some()));
    if let Some(website) = website {
        xml.optional("IndexDocument", website.index_document.as_deref());
        xml.optional("DefaultIndexDocumentPath", website.default_index_path.as_deref());
        xml.optional("ErrorDocument404Path", website.error_path.as_deref());
    }
    xml.close("StaticWebsite");
}

/// What was never set is not told.
fn put_protocol_settings(xml: &mut XmlWriter, settings: &ProtocolSettings) {
    let smb = [(SMB_MULTICHANNEL, settings.smb_multichannel), (SMB_ENCRYPTION, settings.smb_encryption_required)];
    let nfs = [(NFS_ENCRYPTION, settings.nfs_encryption_required)];
    if *settings == ProtocolSettings::default() {
        return;
    }
    xml.open("ProtocolSettings");
    for (protocol, parts) in [("SMB", &smb[..]), ("NFS", &nfs[..])] {
        if parts.iter().all(|(_, value)| value.is_none()) {
            continue;
        }
        xml.open(protocol);
        for ([_, part, name], value) in parts {
            if let Some(value) = value {
                xml.open(part).element(name, word(*value)).close(part);
            }
        }
        xml.close(protocol);
    }
    xml.close("ProtocolSettings");
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
    use contract::ErrorCode;

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
             <Cors>{RULE}</Cors><DeleteRetentionPolicy><Enabled>true</Enabled><Days>365</Days></DeleteRetentionPolicy>\
             <StaticWebsite><Enabled>true</Enabled><IndexDocument>i.html</IndexDocument>\
             <ErrorDocument404Path>errors/404.html</ErrorDocument404Path></StaticWebsite>\
             <DefaultServiceVersion>2020-10-02</DefaultServiceVersion>"
        ));
        let first = parse(Service::Blob, sent.as_bytes()).expect("right").applied_to(ServiceProperties::default());
        let shown = render(Service::Blob, &first);
        for part in [
            "<Logging><Version>1.0</Version><Read>true</Read><Write>false</Write><Delete>false</Delete><RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></Logging>",
            "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>false</IncludeAPIs><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics>",
            "<MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></MinuteMetrics>",
            RULE,
            "</Cors><DeleteRetentionPolicy><Enabled>true</Enabled><Days>365</Days><AllowPermanentDelete>false</AllowPermanentDelete></DeleteRetentionPolicy><StaticWebsite><Enabled>true</Enabled><IndexDocument>i.html</IndexDocument><ErrorDocument404Path>errors/404.html</ErrorDocument404Path></StaticWebsite><DefaultServiceVersion>",
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
            (Service::Blob, document("<ProtocolSettings />"), ErrorCode::InvalidXmlDocument),
        ] {
            assert_eq!(parse(service, text.as_bytes()).err().map(|refusal| refusal.code), Some(code), "{text}");
        }
    }

    #[test]
    fn deleted_blobs_and_the_website() {
        let retention = |inner: &str| document(&format!("<DeleteRetentionPolicy>{inner}</DeleteRetentionPolicy>"));
        let website = |inner: &str| document(&format!("<StaticWebsite>{inner}</StaticWebsite>"));
        let long = "i".repeat(256);
        for text in [
            retention(""),
            retention("<Enabled>true</Enabled>"),
            retention("<Enabled>true</Enabled><Days>0</Days>"),
            retention("<Enabled>true</Enabled><Days>366</Days>"),
            retention("<Enabled>true</Enabled><Days>-1</Days>"),
            retention("<Enabled>true</Enabled><Days>1</Days><Days>2</Days>"),
            retention("<Enabled>true</Enabled><Days>1</Days><AllowPermanentDelete>maybe</AllowPermanentDelete>"),
            retention("<Enabled>true</Enabled><Days>1</Days><Months>1</Months>"),
            website(""),
            website("<Enabled>false</Enabled><IndexDocument>i</IndexDocument>"),
            website("<Enabled>false</Enabled><ErrorDocument404Path>e</ErrorDocument404Path>"),
            website("<Enabled>true</Enabled><IndexDocument>a/i</IndexDocument>"),
            website(&format!("<Enabled>true</Enabled><IndexDocument>{long}</IndexDocument>")),
            website(
                "<Enabled>true</Enabled><IndexDocument>i</IndexDocument><DefaultIndexDocumentPath>a</DefaultIndexDocumentPath>",
            ),
            website("<Enabled>true</Enabled><Index>i</Index>"),
        ] {
            let refused = parse(Service::Blob, text.as_bytes()).err().map(|refusal| refusal.code);
            assert_eq!(refused, Some(ErrorCode::InvalidXmlDocument), "{text}");
        }

        let on = ServiceProperties {
            delete_retention: Some(DeleteRetention { days: 7, allow_permanent: true }),
            website: Some(StaticWebsite {
                default_index_path: Some("app/index.html".into()),
                ..StaticWebsite::default()
            }),
            ..ServiceProperties::default()
        };
        let shown = render(Service::Blob, &on);
        assert_eq!(parse(Service::Blob, shown.as_bytes()).expect("ours").applied_to(Default::default()), on);
        // What is not named stays, what is named as off goes.
        let changed =
            |inner: &str| parse(Service::Blob, document(inner).as_bytes()).expect("right").applied_to(on.clone());
        assert_eq!(changed("<Cors />"), on);
        let kept = changed("<DeleteRetentionPolicy><Enabled>false</Enabled><Days>9</Days></DeleteRetentionPolicy>");
        assert_eq!(kept, ServiceProperties { delete_retention: None, ..on.clone() });
        let kept = changed("<StaticWebsite><Enabled>false</Enabled></StaticWebsite>");
        assert_eq!(kept, ServiceProperties { website: None, ..on.clone() });
        let bare = changed("<StaticWebsite><Enabled>true</Enabled><IndexDocument /></StaticWebsite>");
        assert_eq!(bare.website, Some(StaticWebsite::default()));
    }

    #[test]
    fn protocol_settings() {
        let parse = |inner: &str| {
            let text = document(&format!("<ProtocolSettings>{inner}</ProtocolSettings>"));
            super::parse(Service::File, text.as_bytes()).map(|changes| changes.applied_to(Default::default()))
        };
        for inner in [
            "<SMB><Multichannel><Enabled>true</Enabled></Multichannel></SMB>",
            "<SMB><EncryptionInTransit><Required>false</Required></EncryptionInTransit></SMB>",
            "<NFS><EncryptionInTransit><Required>true</Required></EncryptionInTransit></NFS>",
            "<SMB><Multichannel><Enabled>false</Enabled></Multichannel><EncryptionInTransit><Required>true</Required>\
             </EncryptionInTransit></SMB><NFS><EncryptionInTransit><Required>false</Required></EncryptionInTransit></NFS>",
        ] {
            let shown = render(Service::File, &parse(inner).expect("right"));
            assert!(shown.contains(&format!("<ProtocolSettings>{inner}</ProtocolSettings>")), "{inner} in {shown}");
        }
        for nothing in ["", "<SMB />", "<SMB /><NFS />"] {
            assert_eq!(parse(nothing).expect("right"), ServiceProperties::default());
        }
        assert!(!render(Service::File, &ServiceProperties::default()).contains("ProtocolSettings"));
        for inner in [
            "<Smb />",
            "<SMB /><SMB />",
            "<SMB><Versions>SMB3.1.1</Versions></SMB>",
            "<SMB><Multichannel /></SMB>",
            "<SMB><Multichannel><Enabled>perhaps</Enabled></Multichannel></SMB>",
            "<SMB><Multichannel><Enabled>true</Enabled><Channels>4</Channels></Multichannel></SMB>",
            "<NFS><Multichannel><Enabled>true</Enabled></Multichannel></NFS>",
        ] {
            assert_eq!(parse(inner).err().map(|refusal| refusal.code), Some(ErrorCode::InvalidXmlDocument), "{inner}");
        }
    }
}
