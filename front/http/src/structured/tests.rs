use super::*;
use crate::request::scripted;
use contract::Service;

fn crc(bytes: &[u8]) -> [u8; 8] {
    let mut digest = Digest::new();
    digest.write(bytes);
    digest.sum64().to_le_bytes()
}

/// A message of these segments.
fn message(segments: &[&[u8]]) -> Vec<u8> {
    let content: usize = segments.iter().map(|segment| segment.len()).sum();
    let length = HEADER_BYTES + segments.len() * (SEGMENT_HEADER_BYTES + CRC_BYTES) + content + CRC_BYTES;
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&(length as u64).to_le_bytes());
    bytes.extend_from_slice(&FLAG_CRC64.to_le_bytes());
    bytes.extend_from_slice(&(segments.len() as u16).to_le_bytes());
    for (at, segment) in segments.iter().enumerate() {
        bytes.extend_from_slice(&(at as u16 + 1).to_le_bytes());
        bytes.extend_from_slice(&(segment.len() as u64).to_le_bytes());
        bytes.extend_from_slice(segment);
        bytes.extend_from_slice(&crc(segment));
    }
    bytes.extend_from_slice(&crc(&segments.concat()));
    assert_eq!(bytes.len(), length);
    bytes
}

/// Decodes a body whose bytes come so many at a time.
async fn decode(message: &[u8], content_bytes: u64, bytes_max: usize) -> Result<Vec<u8>, String> {
    let (mut transport, mut buffer) = (tokio::io::empty(), bytes::BytesMut::from(message));
    let kind = crate::wire::BodyKind::Length(message.len() as u64);
    let mut body = Body::new(&mut transport, &mut buffer, kind, false, std::time::Duration::ZERO);
    body.bytes_max = u64::MAX;
    let (mut decoder, mut content) = (Decoder::new(content_bytes), Vec::new());
    loop {
        match decoder.next(&mut body, bytes_max).await {
            Ok(Some(bytes)) => content.extend_from_slice(&bytes),
            Ok(None) => return Ok(content),
            Err(DecodeError::Refused(Refused(refusal))) => {
                return Err(format!("{}: {}", refusal.code.name(), refusal.message()));
            }
            Err(DecodeError::Body(error)) => return Err(error.to_string()),
        }
    }
}

#[tokio::test]
async fn what_is_right_comes_out() {
    let (long, short) = ([7; 300], [8; 1]);
    let cases: [Vec<&[u8]>; 5] = [vec![], vec![b""], vec![b"abc"], vec![b"ab", b"", b"cde"], vec![&long, &short]];
    for segments in cases {
        let (message, content) = (message(&segments), segments.concat());
        for bytes_max in [1, 2, 7, 1000] {
            let decoded = decode(&message, content.len() as u64, bytes_max).await;
            assert_eq!(decoded.as_ref(), Ok(&content), "{bytes_max}");
        }
    }
}

#[tokio::test]
async fn what_is_wrong_does_not() {
    let right = message(&[b"abc", b"defg"]);
    // Every flipped bit is found, and every cut.
    for at in 0..right.len() {
        let mut wrong = right.clone();
        wrong[at] ^= 1;
        assert!(decode(&wrong, 7, 100).await.is_err(), "byte {at}");
        assert!(decode(&right[..at], 7, 100).await.is_err(), "cut at {at}");
    }
    let data = HEADER_BYTES + SEGMENT_HEADER_BYTES;
    let changed = |at: usize, value: u8| {
        let mut wrong = right.clone();
        wrong[at] = value;
        wrong
    };
    for (message, content_bytes, expected) in [
        (changed(data, b'x'), 7, "Crc64Mismatch"),
        (changed(right.len() - 1, 0), 7, "Crc64Mismatch"),
        (changed(0, 2), 7, "version"),
        (changed(9, 0), 7, "flags"),
        (changed(11, 1), 7, "Crc64Mismatch"),
        (changed(HEADER_BYTES, 2), 7, "out of order"),
        (changed(1, 0), 7, "not as long"),
        (right.clone(), 6, "longer than its content"),
        (right.clone(), 8, "shorter than its content"),
        ([right.as_slice(), b"x"].concat(), 7, "something follows"),
        (changed(HEADER_BYTES + 9, 0xFF), 7, "longer than its content"),
    ] {
        let refused = decode(&message, content_bytes, 100).await.expect_err("wrong");
        assert!(refused.contains(expected), "{refused}: {expected}");
    }
}

#[test]
fn what_is_asked_for() {
    let header = "x-ms-structured-body: XSM/1.0; properties=crc64";
    for (headers, expected) in [
        (String::new(), Ok(None)),
        (format!("{header}\nx-ms-structured-content-length: 5"), Ok(Some(5))),
        ("x-ms-structured-body: xsm/1.0;properties=CRC64\nx-ms-structured-content-length: 0".into(), Ok(Some(0))),
        (header.to_string(), Err(ErrorCode::MissingRequiredHeader)),
        ("x-ms-structured-content-length: 5".into(), Err(ErrorCode::InvalidHeaderValue)),
        (format!("{header}\nx-ms-structured-content-length: -5"), Err(ErrorCode::InvalidHeaderValue)),
        ("x-ms-structured-body: XSM/1.0\nx-ms-structured-content-length: 5".into(), Err(ErrorCode::InvalidHeaderValue)),
        (
            "x-ms-structured-body: XSM/2.0; properties=crc64\nx-ms-structured-content-length: 5".into(),
            Err(ErrorCode::InvalidHeaderValue),
        ),
    ] {
        let newline = if headers.is_empty() { "" } else { "\n" };
        let head = format!("PUT /dev/c/b HTTP/1.1\nHost: h{newline}{headers}");
        let got = scripted(Service::Blob, &head, |request| {
            Framing::parse(request).map(|framing| framing.map(|framing| framing.content_bytes))
        });
        assert_eq!(got.map_err(|refusal| refusal.code), expected, "{headers}");
    }
}

#[test]
fn as_many_segments_as_fit_their_number() {
    for (content_bytes, expected) in [
        (0, (SEGMENT_BYTES, 1)),
        (1, (SEGMENT_BYTES, 1)),
        (SEGMENT_BYTES, (SEGMENT_BYTES, 1)),
        (SEGMENT_BYTES + 1, (SEGMENT_BYTES, 2)),
        (SEGMENT_BYTES * SEGMENTS_MAX, (SEGMENT_BYTES, SEGMENTS_MAX)),
    ] {
        assert_eq!(segmented(content_bytes), expected, "{content_bytes}");
    }
    let (segment_bytes, segments) = segmented(190 << 40);
    assert!(segments <= SEGMENTS_MAX && segment_bytes * segments >= 190 << 40);
    assert_eq!(framed_bytes(5), message(&[b"abcde"]).len() as u64);
}
