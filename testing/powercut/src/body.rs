//! Bodies that say what they are: every 64-byte line names the blob, the operation that wrote it and its own offset, so
//! that a torn, mixed or misplaced read is not only detected but explained.

const LINE_BYTES: usize = 64;

pub fn make(container: &str, name: &str, operation: usize, bytes: usize) -> Vec<u8> {
    let mut body = Vec::with_capacity(bytes + LINE_BYTES);
    let prefix = format!("{container}/{name} #{operation} @");
    while body.len() < bytes {
        let start = body.len();
        body.extend_from_slice(prefix.as_bytes());
        body.extend_from_slice(start.to_string().as_bytes());
        body.push(b' ');
        // Filler that differs in every line, so that no two sectors of any two bodies are alike.
        let mut filler = (start as u64 ^ (operation as u64) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        while body.len() < start + LINE_BYTES - 1 {
            body.push(b'a' + (filler % 26) as u8);
            filler = filler.rotate_right(5).wrapping_mul(0x2545_F491_4F6C_DD1D);
        }
        body.truncate(start + LINE_BYTES - 1);
        body.push(b'\n');
    }
    body.truncate(bytes);
    body
}

/// What is wrong with `found` where `wanted` was due, or nothing.
pub fn difference(wanted: &[u8], found: &[u8]) -> Option<String> {
    if wanted == found {
        return None;
    }
    if wanted.len() != found.len() {
        return Some(format!("{} bytes where {} were written", found.len(), wanted.len()));
    }
    let at = wanted.iter().zip(found).position(|(a, b)| a != b).expect("unequal slices of one length differ somewhere");
    let line = at / LINE_BYTES * LINE_BYTES;
    let shown = String::from_utf8_lossy(&found[line..found.len().min(line + LINE_BYTES)]);
    let differing = wanted.iter().zip(found).filter(|(a, b)| a != b).count();
    Some(format!("{differing} of {} bytes differ, first at {at}: {shown:?}", wanted.len()))
}
