//! `$batch` bodies: one changeset of writes, or one query; and the answers to them.

use contract::Refusal;
use contract::limits::TABLE_BATCH_OPERATIONS_MAX;

pub use crate::multipart::Part;
use crate::multipart::{boundary, find, headers, invalid, media_type, part, put, put_answer, sections};
use crate::wire::Response;

/// What a batch holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Batch<'a> {
    Changes(Vec<Part<'a>>),
    Query(Part<'a>),
}

pub fn parse<'a>(content_type: &str, body: &'a [u8]) -> Result<Batch<'a>, Refusal> {
    let outer =
        boundary(content_type).ok_or_else(|| invalid("The body of a batch is multipart/mixed with a boundary."))?;
    let [section] = sections(body, &outer)[..] else {
        return Err(invalid("A batch has exactly one changeset, or exactly one query."));
    };
    let (its_headers, content) = headers(section)?;
    let content_type = find(&its_headers, "content-type").unwrap_or_default();
    if media_type(content_type) == "application/http" {
        return Ok(Batch::Query(part(content)?));
    }
    let inner = boundary(content_type).ok_or_else(|| invalid("A changeset is multipart/mixed with a boundary."))?;
    let mut parts = Vec::new();
    for section in sections(content, &inner) {
        // One more than is allowed is enough to refuse it.
        if parts.len() > TABLE_BATCH_OPERATIONS_MAX {
            break;
        }
        let (its_headers, content) = headers(section)?;
        if media_type(find(&its_headers, "content-type").unwrap_or_default()) != "application/http" {
            return Err(invalid("A part of a changeset is application/http."));
        }
        let mut part = part(content)?;
        // Some clients write it before the request, some inside it.
        if part.header("content-id").is_none() {
            part.headers.extend(its_headers.into_iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-id")));
        }
        parts.push(part);
    }
    if parts.is_empty() {
        return Err(invalid("The changeset is empty."));
    }
    Ok(Batch::Changes(parts))
}

/// The answer to a changeset: every part's answer, or the one of the part that was refused.
pub fn render_changes(batch: &str, changeset: &str, answers: &[(Option<String>, Response)]) -> Vec<u8> {
    let mut out = Vec::new();
    put(
        &mut out,
        &format!(
            "--batchresponse_{batch}\r\nContent-Type: multipart/mixed; boundary=changesetresponse_{changeset}\r\n\r\n"
        ),
    );
    for (content_id, response) in answers {
        put(&mut out, &format!("--changesetresponse_{changeset}\r\n"));
        put_answer(&mut out, content_id.as_deref(), response);
    }
    put(&mut out, &format!("--changesetresponse_{changeset}--\r\n--batchresponse_{batch}--\r\n"));
    out
}

/// The answer to a single query.
pub fn render_query(batch: &str, content_id: Option<&str>, response: &Response) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, &format!("--batchresponse_{batch}\r\n"));
    put_answer(&mut out, content_id, response);
    put(&mut out, &format!("--batchresponse_{batch}--\r\n"));
    out
}

#[cfg(test)]
mod tests;
