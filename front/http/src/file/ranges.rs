//! List Ranges on the wire.

use contract::operations::Operation;
use contract::{ErrorCode, Refusal, limits};
use partition::file::ranges::{self as model, RangeQuery};
use partition::file::share;
use partition::file::versions::At;
use partition::{Failure, Shell};

use super::read::share;
use super::wait::settle;
use crate::content::range;
use crate::request::Request;
use crate::respond::{document, stamp};
use crate::wire::Response;
use crate::xml::XmlWriter;

pub async fn list(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    let (path, expectation, range) = (request.file_path()?, request.expectation(row)?, range(request)?);
    let may_be_renamed = request.flag("x-ms-file-support-rename")?;
    let (results_max, from) = (results_max(request)?, from(request)?);
    let share = share(shell, request).await?;
    let since = previous(shell, request).await?;
    let query = RangeQuery { range, since, may_be_renamed, from, results_max };
    let listed = settle(shell, request, &share, || model::list(shell, &share, &path, &expectation, query)).await?;
    let mut xml = XmlWriter::new();
    match listed.listed.is_empty() {
        true => drop(xml.element("Ranges", "")),
        false => {
            xml.open("Ranges");
            for range in &listed.listed {
                let name = if range.is_clear { "ClearRange" } else { "Range" };
                xml.open(name).element("Start", &range.part.first.to_string());
                xml.element("End", &range.part.last.to_string()).close(name);
            }
            if let Some(next) = listed.next {
                xml.element("NextMarker", &next.to_string());
            }
            xml.close("Ranges");
        }
    }
    let mut response = document(request, row, xml.finish());
    stamp(&mut response, listed.node.etag, listed.node.last_modified);
    response.header("x-ms-content-length", listed.node.bytes().to_string());
    Ok(response)
}

/// The generation that `prevsharesnapshot` saw.
async fn previous(shell: &Shell, request: &Request<'_>) -> Result<Option<u64>, Failure> {
    const NAME: &str = "prevsharesnapshot";
    let Some(taken) = request.moment(NAME)? else { return Ok(None) };
    if request.share_snapshot()?.is_some_and(|snapshot| snapshot < taken) {
        return Err(ErrorCode::PreviousSnapshotCannotBeNewer.into());
    }
    match share::find(shell, &request.account.name, &request.share()?, Some(taken)).await {
        Ok(share::Found { at: At::Generation(generation), .. }) => Ok(Some(generation)),
        Ok(_) => Ok(None),
        Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::ShareSnapshotNotFound => {
            Err(ErrorCode::PreviousSnapshotNotFound.into())
        }
        Err(failure) => Err(failure),
    }
}

/// Everything, unless pages are asked for.
fn results_max(request: &Request<'_>) -> Result<usize, Refusal> {
    let Some(text) = request.query.get("maxresults") else { return Ok(usize::MAX) };
    match text.parse::<i64>() {
        Ok(number) if number >= 1 => Ok((number as usize).min(limits::PAGE_RANGES_MAX)),
        Ok(_) => Err(Refusal::out_of_range("maxresults", text, 1, limits::PAGE_RANGES_MAX as u64)),
        Err(_) => Err(Refusal::bad_query("maxresults", text, "Not a number.")),
    }
}

fn from(request: &Request<'_>) -> Result<u64, Refusal> {
    let Some(text) = request.query.get("marker") else { return Ok(0) };
    text.parse().map_err(|_| Refusal::bad_query("marker", text, "Not a marker of this service."))
}
