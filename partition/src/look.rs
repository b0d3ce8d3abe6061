//! What a person wants to see of an account: who holds which lease, which messages are hidden, which files are open. Reads of what is
//! committed, each bounded: so many records a call, and a marker to go on from. They change nothing and hold up nobody; two pages are of
//! two moments.

pub mod hidden;
pub mod leases;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use contract::Service;
use contract::names::AccountName;
use engine::GroupId;

use crate::directory;
use crate::execute::{Failure, Shell};
use crate::key;
use crate::list::{Entry, Listing};
use crate::record::ShareHead;

/// Names gone through for those of some groups.
const NAMES_MAX: usize = 5000;

/// What the shares of these groups are called. One that is not there any more, or stands behind too many others, is left out.
pub async fn share_names(
    shell: &Shell,
    account: &AccountName,
    mut groups: HashSet<GroupId>,
) -> Result<HashMap<GroupId, String>, Failure> {
    let mut names = HashMap::new();
    let mut listing = Listing { prefix: String::new(), delimiter: None, start: String::new(), results_max: 1000 };
    for _ in 0..NAMES_MAX / listing.results_max {
        if groups.is_empty() {
            break;
        }
        let listed = directory::list::<ShareHead>(shell, account, &listing).await?;
        for entry in listed.entries {
            let Entry::Item { name, head } = entry else { continue };
            let group = key::contents_group(Service::File, account, head.incarnation);
            if groups.remove(&group) {
                names.insert(group, name);
            }
        }
        match listed.next {
            Some(next) => listing.start = next,
            None => break,
        }
    }
    Ok(names)
}

/// A marker's parts as one text, in hexadecimal: names may have any character.
fn pack(parts: &[&[u8]]) -> String {
    let mut text = String::new();
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            text.push('.');
        }
        for byte in *part {
            let _ = write!(text, "{byte:02x}"); // text takes everything
        }
    }
    text
}

/// `None` if it is no marker of ours.
fn unpack<const N: usize>(text: &str) -> Option<[Vec<u8>; N]> {
    let parts: Vec<Vec<u8>> = text.split('.').map(bytes).collect::<Option<_>>()?;
    parts.try_into().ok()
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |at: usize| text.as_bytes().get(at).and_then(|byte| (*byte as char).to_digit(16));
    if !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| Some((digit(at)? * 16 + digit(at + 1)?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers() {
        for parts in [[&b""[..], b"", b""], [b"b", b"caf\xc3\xa9/.", b"\0\xff"]] {
            let unpacked: [Vec<u8>; 3] = unpack(&pack(&parts)).expect("a marker");
            assert_eq!(unpacked.each_ref().map(Vec::as_slice), parts);
        }
        for wrong in ["", "aa", "aa.bb", "a.b.c", "aa.bb.cc.dd", "zz.aa.bb", "é.aa.bb", "-1.aa.bb"] {
            assert!(unpack::<3>(wrong).is_none(), "{wrong}");
        }
    }
}
