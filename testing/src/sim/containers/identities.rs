//! Who is who: which ETag each value has. Every answer that shows a value beside an ETag says so; they must all say the same.

use std::collections::HashMap;

use super::{BLOBS, CONTAINERS, Reply, Said, What, asked, heard};
use crate::sim::check::{Kind, Violation};
use crate::sim::history::{Call, History, Value};

pub struct Identities {
    /// By value; as far as anybody saw them.
    pub etags: Vec<Option<u64>>,
    /// By value; 0 for what is no blob's.
    pub lengths: Vec<u64>,
}

/// What a value belongs to: a container, or a blob of it.
type Resource = (usize, Option<usize>);

struct Gathering<'a> {
    history: &'a History,
    etags: Vec<Option<u64>>,
    values: HashMap<(Resource, u64), Value>,
}

impl Identities {
    pub fn gather(history: &History) -> Result<Identities, Violation> {
        let length = |call: &Call| match asked(call) {
            Some((_, What::Put { bytes, .. })) => *bytes,
            _ => 0,
        };
        let lengths = std::iter::once(0).chain(history.calls().iter().map(length)).collect();
        let etags = vec![None; history.calls().len() + 1];
        let mut gathering = Gathering { history, etags, values: HashMap::new() };
        history.calls().iter().try_for_each(|call| gathering.take(call))?;
        Ok(Identities { etags: gathering.etags, lengths })
    }
}

impl Gathering<'_> {
    fn take(&mut self, call: &Call) -> Result<(), Violation> {
        let (Some((container, what)), Some(Reply { said, etag })) = (asked(call), heard(call)) else { return Ok(()) };
        let here = (container, what.blob());
        match (said, *etag) {
            (Said::Done, Some(etag)) => self.seen(call, here, call.id, etag),
            (Said::Shown(value), Some(etag)) => self.seen(call, here, *value, etag),
            (Said::Listed(listed), _) => listed
                .rows
                .iter()
                .try_for_each(|row| self.seen(call, (container, Some(row.index)), row.value, row.etag)),
            (Said::ContainersListed(rows), _) => {
                rows.iter().try_for_each(|row| self.seen(call, (row.index, None), row.value, row.etag))
            }
            _ => Ok(()),
        }
    }

    fn seen(&mut self, by: &Call, on: Resource, value: Value, etag: u64) -> Result<(), Violation> {
        let wrote = self.history.call(value).and_then(asked).is_some_and(|(container, what)| match what {
            What::Put { blob, .. } => on == (container, Some(*blob)),
            What::CreateContainer | What::SetContainerMetadata(_) => on == (container, None),
            _ => false,
        });
        if !wrote {
            return Err(violation(Kind::UnknownValue, by, &format!("#{value} was never written to {}", name(on))));
        }
        let known = self.etags[value as usize].get_or_insert(etag);
        if *known != etag {
            let what = format!("#{value} had 0x{known:X}, now 0x{etag:X}");
            return Err(violation(Kind::EtagChanged, by, &what));
        }
        let first = *self.values.entry((on, etag)).or_insert(value);
        if first != value {
            let what = format!("0x{etag:X} of {} is #{first} and #{value}", name(on));
            return Err(violation(Kind::EtagRepeated, by, &what));
        }
        Ok(())
    }
}

fn name((container, blob): Resource) -> String {
    let container = CONTAINERS[container];
    blob.map_or(container.to_string(), |blob| format!("{container}/{}", BLOBS[blob]))
}

fn violation(kind: Kind, call: &Call, why: &str) -> Violation {
    Violation { kind, what: format!("{why}, says {call}"), before: Vec::new() }
}
