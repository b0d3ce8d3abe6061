//! What the numbers mean that librados answers.

use std::ffi::c_int;

use rustix::io::Errno;

use crate::OpError;

/// Why an operation did not do its work; `code` is what librados returned, below zero.
///
/// A write is retried by librados when a connection breaks, and its OSDs recognise it then. So a refusal, from the list
/// below, says that nothing happened. Any other number may be of a later try than the one that succeeded, or of none: a
/// time-out, a client that is shut out or shut down, a disk that fails.
pub(crate) fn op_error(code: c_int) -> OpError {
    let errno = errno(code);
    match errno {
        Errno::NOENT => OpError::Missing,
        Errno::EXIST => OpError::Exists,
        // Of comparisons; of versions that are newer and older than the one asked for.
        Errno::CANCELED | Errno::RANGE | Errno::OVERFLOW => OpError::Guard,
        Errno::NOSPC | Errno::DQUOT => OpError::Full,
        _ if REFUSALS.contains(&errno) => OpError::Failed { why: words(code) },
        _ => OpError::Unknown { why: words(code) },
    }
}

/// What an OSD says before it does anything.
const REFUSALS: &[Errno] = &[
    Errno::PERM,
    Errno::ACCESS,
    Errno::INVAL,
    Errno::TOOBIG,
    Errno::FBIG,
    Errno::MSGSIZE,
    Errno::NAMETOOLONG,
    Errno::NODATA,
    Errno::OPNOTSUPP,
    Errno::ROFS,
    Errno::BUSY,
];

/// What librados returned, by its name; what is no error of Linux counts as one of the disk.
pub(crate) fn errno(code: c_int) -> Errno {
    let number = code.saturating_neg();
    if (1..4096).contains(&number) { Errno::from_raw_os_error(number) } else { Errno::IO }
}

pub(crate) fn words(code: c_int) -> String {
    // What Linux calls so in general means one thing here.
    match errno(code) {
        Errno::TIMEDOUT => "the cluster did not answer in time".to_owned(),
        Errno::SHUTDOWN => "the cluster has shut this client out (it is on the blocklist)".to_owned(),
        errno => std::io::Error::from(errno).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(error: OpError) -> &'static str {
        match error {
            OpError::Missing => "missing",
            OpError::Exists => "exists",
            OpError::Guard => "guard",
            OpError::Full => "full",
            OpError::Failed { .. } => "failed",
            OpError::Unknown { .. } => "unknown",
        }
    }

    #[test]
    fn every_number_is_a_refusal_or_unknown() {
        for (errno, expected) in [
            (Errno::NOENT, "missing"),
            (Errno::EXIST, "exists"),
            (Errno::CANCELED, "guard"),
            (Errno::RANGE, "guard"),
            (Errno::OVERFLOW, "guard"),
            (Errno::NOSPC, "full"),
            (Errno::DQUOT, "full"),
            (Errno::PERM, "failed"),
            (Errno::INVAL, "failed"),
            (Errno::MSGSIZE, "failed"),
            (Errno::OPNOTSUPP, "failed"),
            (Errno::TIMEDOUT, "unknown"),
            (Errno::SHUTDOWN, "unknown"),
            (Errno::NOTCONN, "unknown"),
            (Errno::IO, "unknown"),
            (Errno::AGAIN, "unknown"),
        ] {
            assert_eq!(kind(op_error(-errno.raw_os_error())), expected, "{errno:?}");
        }
        assert_eq!(kind(op_error(c_int::MIN)), "unknown");
        assert_eq!(kind(op_error(-5000)), "unknown");
    }
}
