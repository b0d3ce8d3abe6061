//! How many may be inside at once: connections, or requests under way; in all, and from one address.
//!
//! Every front end has the same doors, so that what one protocol lets in counts for the others. A place is given back when what
//! holds it is dropped, however that comes about.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many places a door has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Places {
    pub all: usize,
    pub per_address: usize,
}

#[derive(Debug)]
pub struct Door {
    places: Places,
    inside: Mutex<Inside>,
}

#[derive(Default, Debug)]
struct Inside {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
    /// Somebody was turned away since somebody last came in.
    turned_away: bool,
    turned_away_in_all: u64,
}

/// Nobody else comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full {
    /// Only for whoever comes from this address.
    pub for_address: bool,
    /// The first since somebody came in: worth a word in the log, where the thousandth is not.
    pub is_news: bool,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Entered {
    door: Arc<Door>,
    address: IpAddr,
}

impl Door {
    pub fn new(places: Places) -> Arc<Door> {
        Arc::new(Door { places, inside: Mutex::default() })
    }

    pub fn enter(self: &Arc<Self>, client: IpAddr) -> Result<Entered, Full> {
        let address = counted_as(client);
        let mut inside = self.inside();
        let from_there = inside.by_address.get(&address).copied().unwrap_or(0);
        let for_address = from_there >= self.places.per_address;
        if for_address || inside.all >= self.places.all {
            let is_news = !std::mem::replace(&mut inside.turned_away, true);
            inside.turned_away_in_all += 1;
            return Err(Full { for_address, is_news });
        }
        inside.turned_away = false;
        inside.all += 1;
        inside.by_address.insert(address, from_there + 1);
        Ok(Entered { door: self.clone(), address })
    }

    /// How many are inside, and how many were turned away since the start.
    pub fn counts(&self) -> (usize, u64) {
        let inside = self.inside();
        (inside.all, inside.turned_away_in_all)
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut inside = self.door.inside();
        inside.all -= 1;
        let Entry::Occupied(mut count) = inside.by_address.entry(self.address) else { return };
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

/// Whoever has one address of IPv6 has 2^64 of them: they count as one.
pub fn counted_as(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn places_are_taken_and_given_back() {
        let door = Door::new(Places { all: 3, per_address: 2 });
        let (here, there, elsewhere) = (address("10.0.0.1"), address("10.0.0.2"), address("10.0.0.3"));
        let first = door.enter(here).expect("a place");
        let second = door.enter(address("::ffff:10.0.0.1")).expect("the same in other words");
        assert_eq!(door.enter(here).err(), Some(Full { for_address: true, is_news: true }));
        assert_eq!(door.enter(here).err(), Some(Full { for_address: true, is_news: false }));
        let third = door.enter(there).expect("others have places");
        assert_eq!(door.enter(elsewhere).err(), Some(Full { for_address: false, is_news: true }));
        assert_eq!(door.counts(), (3, 3));
        drop(first);
        let fourth = door.enter(elsewhere).expect("a place that was given back");
        drop((second, third, fourth));
        assert!(door.inside().by_address.is_empty() && door.inside().all == 0, "nothing is remembered of who left");
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let door = Door::new(Places { all: 9, per_address: 1 });
        let _one = door.enter(address("2001:db8:1:2::1")).expect("a place");
        assert!(door.enter(address("2001:db8:1:2:ffff::9")).is_err());
        assert!(door.enter(address("2001:db8:1:3::1")).is_ok());
    }
}
