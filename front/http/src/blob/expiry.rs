//! Set Blob Expiry on the wire.

use contract::Refusal;
use contract::operations::Operation;
use env::Timestamp;
use partition::blob::change::{Change, Expiry};
use partition::{Failure, Shell};

use super::change::change;
use crate::request::Request;
use crate::wire::Response;

const OPTION: &str = "x-ms-expiry-option";
const TIME: &str = "x-ms-expiry-time";

pub async fn set(shell: &Shell, request: &Request<'_>, row: &'static Operation) -> Result<Response, Failure> {
    request.refuse_past()?;
    let expiry = sent(request)?;
    change(shell, request, row, Change::Expires(expiry)).await
}

fn sent(request: &Request<'_>) -> Result<Expiry, Refusal> {
    let option = request.header(OPTION).ok_or_else(|| Refusal::missing_header(OPTION))?;
    let time = request.header(TIME);
    if option.eq_ignore_ascii_case("NeverExpire") {
        return match time {
            None => Ok(Expiry::Never),
            Some(text) => Err(Refusal::bad_header(TIME, text)),
        };
    }
    let text = time.ok_or_else(|| Refusal::missing_header(TIME))?;
    let bad = || Refusal::bad_header(TIME, text);
    let milliseconds = || text.parse::<u64>().map_err(|_| bad());
    match option {
        option if option.eq_ignore_ascii_case("RelativeToNow") => Ok(Expiry::AfterNow(milliseconds()?)),
        option if option.eq_ignore_ascii_case("RelativeToCreation") => Ok(Expiry::AfterCreation(milliseconds()?)),
        option if option.eq_ignore_ascii_case("Absolute") => {
            Timestamp::parse_http_date(text).map(Expiry::At).ok_or_else(bad)
        }
        option => Err(Refusal::bad_header(OPTION, option)),
    }
}
