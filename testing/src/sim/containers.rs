//! Containers and the values of their blobs: put, get, delete under conditions, listings, the container's own life.

pub mod client;
mod identities;
pub mod model;
pub mod workload;

use super::check::{Atom, Violation, search};
use super::history::{self, Call, History, Outcome, Value};
use identities::Identities;
use model::{Model, State};

pub const CONTAINERS: [&str; 2] = ["alpha", "beta"];
/// In the order of listings. Two of them share a prefix.
pub const BLOBS: [&str; 5] = ["a", "b/1", "b/2", "c", "d"];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Condition {
    None,
    IfMatch(u64),
    IfMatchAny,
    IfNoneMatch(u64),
    IfNoneMatchAny,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Deed {
    /// Its place in `CONTAINERS`; without meaning for List Containers.
    pub container: usize,
    pub what: What,
}

/// Blobs by their place in `BLOBS`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum What {
    CreateContainer,
    GetContainer,
    SetContainerMetadata(Condition),
    DeleteContainer(Condition),
    Put {
        blob: usize,
        bytes: u64,
        condition: Condition,
    },
    Get {
        blob: usize,
        range: Option<(u64, Option<u64>)>,
        condition: Condition,
    },
    Head {
        blob: usize,
        condition: Condition,
    },
    Delete {
        blob: usize,
        condition: Condition,
    },
    /// All pages, one after another.
    List {
        prefix: &'static str,
        delimiter: bool,
        page: u64,
    },
    ListContainers {
        page: u64,
    },
}

impl What {
    pub fn writes(&self) -> bool {
        use What::*;
        matches!(self, CreateContainer | SetContainerMetadata(_) | DeleteContainer(_) | Put { .. } | Delete { .. })
    }

    pub fn blob(&self) -> Option<usize> {
        match self {
            What::Put { blob, .. } | What::Get { blob, .. } | What::Head { blob, .. } | What::Delete { blob, .. } => {
                Some(*blob)
            }
            _ => None,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reply {
    pub said: Said,
    pub etag: Option<u64>,
}

/// What an answer says, ETags apart.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Said {
    Done,
    Shown(Value),
    NotModified,
    ConditionNotMet,
    BlobNotFound,
    ContainerNotFound,
    BlobAlreadyExists,
    ContainerAlreadyExists,
    InvalidRange,
    Listed(Listed),
    ContainersListed(Vec<Row>),
}

/// What the pages of one listing showed together.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Listed {
    pub rows: Vec<Row>,
    pub prefixes: Vec<String>,
}

/// A blob or container in a listing, by its place in `BLOBS` or `CONTAINERS`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Row {
    pub index: usize,
    pub value: Value,
    pub etag: u64,
}

/// What the call asked of which container, if it is one of these.
pub fn asked(call: &Call) -> Option<(usize, &What)> {
    if let history::Deed::Container(deed) = &call.deed { Some((deed.container, &deed.what)) } else { None }
}

pub fn heard(call: &Call) -> Option<&Reply> {
    if let Outcome::Answered(history::Reply::Container(reply)) = &call.outcome { Some(reply) } else { None }
}

/// Each container name is searched by itself; calls on different ones commute.
pub fn check(history: &History) -> Result<(), Violation> {
    let identities = Identities::gather(history)?;
    let model = Model { etags: &identities.etags, lengths: &identities.lengths };
    (0..CONTAINERS.len()).try_for_each(|container| {
        let atoms = history.calls().iter().flat_map(|call| atoms(call, container)).collect();
        search(&model, State::default(), atoms)
    })
}

/// One thing that a call says about a container.
pub enum Claim {
    /// The call had this answer.
    Answered(Said),
    /// The call, done or not.
    Perhaps,
    /// A listing showed the blob with this value, or did not show it.
    Blob { blob: usize, shown: Option<Value> },
    /// A listing showed the prefix of these.
    OneOf(Vec<usize>),
    /// A listing found the container.
    Found,
    /// A listing of containers showed this one, or did not.
    Container(Option<Value>),
}

/// What a call claims about this container. A listing promises no common moment for its rows: it is one question per name ("was it
/// there, and as this value?"), each answered at some moment of the listing.
fn atoms(call: &Call, container: usize) -> Vec<Atom<'_, Claim>> {
    let Some((asked, what)) = asked(call) else { return Vec::new() };
    let claims = match (heard(call).map(|reply| &reply.said), what) {
        (Some(Said::ContainersListed(rows)), _) => {
            let row = rows.iter().find(|row| row.index == container);
            vec![Claim::Container(row.map(|row| row.value))]
        }
        _ if asked != container => Vec::new(),
        (Some(Said::Listed(listed)), What::List { prefix, delimiter, .. }) => {
            listing_claims(listed, prefix, *delimiter)
        }
        (Some(said), _) => vec![Claim::Answered(said.clone())],
        (None, _) if call.is_unknown() => vec![Claim::Perhaps],
        _ => Vec::new(),
    };
    let atom = |claim| match claim {
        Claim::Perhaps => Atom::perhaps(call, claim),
        Claim::Answered(Said::Done) if what.writes() => Atom::effect(call, claim),
        claim => Atom::look(call, claim),
    };
    claims.into_iter().map(atom).collect()
}

fn listing_claims(listed: &Listed, prefix: &str, delimiter: bool) -> Vec<Claim> {
    let mut claims = vec![Claim::Found];
    let below = |prefix: &str| (0..BLOBS.len()).filter(|blob| BLOBS[*blob].starts_with(prefix)).collect::<Vec<_>>();
    for shown in &listed.prefixes {
        claims.push(Claim::OneOf(below(shown)));
    }
    for blob in below(prefix) {
        let collapsed = delimiter && BLOBS[blob][prefix.len()..].contains('/');
        let row = listed.rows.iter().find(|row| row.index == blob);
        let hidden = collapsed && listed.prefixes.iter().any(|shown| BLOBS[blob].starts_with(shown.as_str()));
        if !hidden {
            claims.push(Claim::Blob { blob, shown: row.map(|row| row.value) });
        }
    }
    claims
}

#[cfg(test)]
mod tests;
