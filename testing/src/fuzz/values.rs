//! Words that mean something wherever they stand: moments, security descriptors.

use env::Timestamp;
use http::table::json::{etag, parse_etag};
use partition::file::security::SecurityDescriptor;
use partition::table::value::{EdmDateTime, parse_date_time, parse_double, parse_guid};

/// A moment in one of the forms of the wire: what is read is written and read as the same.
pub fn moment(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(moment) = Timestamp::parse_http_date(text) {
        assert_eq!(Timestamp::parse_http_date(&moment.http_date()), Some(moment), "{text}");
    }
    if let Some(moment) = Timestamp::parse_iso8601(text) {
        assert_eq!(Timestamp::parse_iso8601(&moment.iso8601()), Some(moment), "{text}");
    }
    if let Some(moment) = parse_date_time(text) {
        assert_eq!(parse_date_time(&EdmDateTime(moment).to_string()), Some(moment), "{text}");
        assert_eq!(parse_etag(&etag(moment)), Some(moment), "{text}");
    }
    if let Some(moment) = parse_etag(text) {
        assert_eq!(parse_etag(&etag(moment)), Some(moment), "{text}");
    }
    if let Some(guid) = parse_guid(text) {
        assert_eq!(parse_guid(&format!("{guid:032x}")), Some(guid), "{text}");
    }
    if let Some(double) = parse_double(text).filter(|double| !double.is_nan() && double.is_finite()) {
        assert_eq!(parse_double(&double.to_string()), Some(double), "{text}");
    }
}

/// A security descriptor, as text and as bytes: what is read is written, in both ways, and reads as the same.
pub fn security_descriptor(bytes: &[u8]) {
    let of_text = std::str::from_utf8(bytes).ok().and_then(SecurityDescriptor::parse_sddl);
    for descriptor in of_text.into_iter().chain(SecurityDescriptor::parse_binary(bytes)) {
        let (text, binary) = (descriptor.to_sddl(), descriptor.to_binary());
        assert_eq!(SecurityDescriptor::parse_sddl(&text).as_ref(), Some(&descriptor), "{text}");
        assert_eq!(SecurityDescriptor::parse_binary(&binary).as_ref(), Some(&descriptor), "{text}");
    }
}
