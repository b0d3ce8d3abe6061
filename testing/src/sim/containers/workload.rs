//! What a client does next. Few names and shared knowledge of ETags, so that clients get in each other's way.

use super::{BLOBS, CONTAINERS, Condition, Deed, What};
use crate::sim::chance::Chance;

/// The kinds of deeds, in the order of their weights: put, get, head, delete, list, and on containers create, get, set metadata,
/// delete, list.
pub const KINDS: usize = 10;
/// How often each is done before a plan changes it.
const USUAL: [u32; KINDS] = [30, 22, 8, 9, 8, 4, 4, 5, 2, 2];

/// What the clients know together.
#[derive(Default)]
pub struct Seen {
    /// The ETags seen lately, by container and blob (the container itself comes last).
    etags: [[Vec<u64>; BLOBS.len() + 1]; CONTAINERS.len()],
    /// The last answer said that there is such a container.
    is_there: [bool; CONTAINERS.len()],
}

const SEEN_MAX: usize = 4;

impl Seen {
    pub fn note(&mut self, container: usize, blob: Option<usize>, etag: u64) {
        let seen = &mut self.etags[container][blob.unwrap_or(BLOBS.len())];
        if seen.last() != Some(&etag) {
            if seen.len() == SEEN_MAX {
                seen.remove(0);
            }
            seen.push(etag);
        }
    }

    pub fn note_container(&mut self, container: usize, is_there: bool) {
        self.is_there[container] = is_there;
    }

    /// The newest, mostly; at times an older one, or another resource's.
    fn draw(&self, chance: &mut Chance, container: usize, blob: Option<usize>) -> u64 {
        let of = if chance.below(20) == 0 { chance.index(BLOBS.len() + 1) } else { blob.unwrap_or(BLOBS.len()) };
        let seen = &self.etags[container][of];
        match seen.last() {
            None => 1,
            Some(_) if chance.below(3) == 0 => *chance.pick(seen),
            Some(newest) => *newest,
        }
    }
}

pub fn choose(chance: &mut Chance, weights: &[u32; KINDS], long_bodies: u32, seen: &Seen) -> Deed {
    // Most of the crowd in one container, and in it on one blob.
    let container = usize::from(chance.below(4) == 0);
    let blob = if chance.below(3) == 0 { 0 } else { chance.index(BLOBS.len()) };
    if !seen.is_there[container] && chance.below(2) == 0 {
        return Deed { container, what: What::CreateContainer };
    }
    let weights: [u32; KINDS] = std::array::from_fn(|kind| USUAL[kind] * weights[kind]);
    let what = match chance.weighted(&weights) {
        0 => {
            let bytes = body_bytes(chance, long_bodies);
            What::Put { blob, bytes, condition: write_condition(chance, seen, container, Some(blob)) }
        }
        1 => {
            let range = (chance.below(3) == 0).then(|| {
                let first = *chance.pick(&[0, 1, 100, 8_000, 12_000]) + chance.below(50);
                (first, (chance.below(3) > 0).then(|| first + chance.below(9_000)))
            });
            What::Get { blob, range, condition: read_condition(chance, seen, container, blob) }
        }
        2 => What::Head { blob, condition: read_condition(chance, seen, container, blob) },
        3 => What::Delete { blob, condition: write_condition(chance, seen, container, Some(blob)) },
        4 => What::List {
            prefix: chance.pick::<&str>(&["", "", "", "b", "b/"]),
            delimiter: chance.below(3) == 0,
            page: *chance.pick(&[1, 2, 5, 5000]),
        },
        5 => What::CreateContainer,
        6 => What::GetContainer,
        7 => What::SetContainerMetadata(write_condition(chance, seen, container, None)),
        8 => What::DeleteContainer(write_condition(chance, seen, container, None)),
        _ => What::ListContainers { page: *chance.pick(&[1, 5000]) },
    };
    Deed { container, what }
}

fn body_bytes(chance: &mut Chance, long_bodies: u32) -> u64 {
    if chance.permille(long_bodies) {
        return chance.between(8_193, 24_000);
    }
    match chance.below(20) {
        0 => 0,
        1 => chance.between(8_190, 8_195), // where a body moves from the record to an extent
        _ => chance.between(1, 600),
    }
}

fn write_condition(chance: &mut Chance, seen: &Seen, container: usize, blob: Option<usize>) -> Condition {
    match chance.below(20) {
        0..=8 => Condition::None,
        9..=14 => Condition::IfMatch(seen.draw(chance, container, blob)),
        15 => Condition::IfMatchAny,
        16 => Condition::IfNoneMatch(seen.draw(chance, container, blob)),
        _ => Condition::IfNoneMatchAny,
    }
}

fn read_condition(chance: &mut Chance, seen: &Seen, container: usize, blob: usize) -> Condition {
    match chance.below(10) {
        0 => Condition::IfMatch(seen.draw(chance, container, Some(blob))),
        1 => Condition::IfNoneMatch(seen.draw(chance, container, Some(blob))),
        2 => Condition::IfMatchAny,
        _ => Condition::None,
    }
}
