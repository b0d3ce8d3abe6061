//! How many may be inside at once: connections, requests under way, or bytes that are held for somebody; in all, and from one address.
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
    places: usize,
}

impl Door {
    pub fn new(places: Places) -> Arc<Door> {
        Arc::new(Door { places, inside: Mutex::default() })
    }

    pub fn enter(self: &Arc<Self>, client: IpAddr) -> Result<Entered, Full> {
        self.enter_as(1, client)
    }

    /// As many as `places` at once: all of them, or nobody.
    pub fn enter_as(self: &Arc<Self>, places: usize, client: IpAddr) -> Result<Entered, Full> {
        let address = counted_as(client);
        self.take(places, address)?;
        Ok(Entered { door: self.clone(), address, places })
    }

    fn take(&self, places: usize, address: IpAddr) -> Result<(), Full> {
        let mut inside = self.inside();
        let from_there = inside.by_address.get(&address).copied().unwrap_or(0);
        let for_address = places > self.places.per_address.saturating_sub(from_there);
        if for_address || places > self.places.all.saturating_sub(inside.all) {
            let is_news = !std::mem::replace(&mut inside.turned_away, true);
            inside.turned_away_in_all += 1;
            return Err(Full { for_address, is_news });
        }
        inside.turned_away = false;
        inside.all += places;
        inside.by_address.insert(address, from_there + places);
        Ok(())
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

impl Entered {
    /// Takes so many places more.
    pub fn grow(&mut self, places: usize) -> Result<(), Full> {
        self.door.take(places, self.address)?;
        self.places += places;
        Ok(())
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut inside = self.door.inside();
        inside.all -= self.places;
        let Entry::Occupied(mut count) = inside.by_address.entry(self.address) else { return };
        *count.get_mut() -= self.places;
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
    fn several_places_are_taken_at_once() {
        let door = Door::new(Places { all: 10, per_address: 6 });
        let (here, there) = (address("10.0.0.1"), address("10.0.0.2"));
        let mut first = door.enter_as(4, here).expect("places");
        assert_eq!(door.enter_as(3, here).err(), Some(Full { for_address: true, is_news: true }));
        assert!(door.enter_as(7, there).is_err(), "more than an address may ever have");
        first.grow(2).expect("places");
        assert_eq!(first.grow(1), Err(Full { for_address: true, is_news: true }));
        assert_eq!(door.enter_as(5, there).err(), Some(Full { for_address: false, is_news: false }));
        let second = door.enter_as(4, there).expect("places");
        assert_eq!(door.counts().0, 10);
        drop(first);
        assert_eq!(door.counts().0, 4);
        drop(second);
        assert!(door.inside().by_address.is_empty() && door.inside().all == 0, "all of them are given back");
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let door = Door::new(Places { all: 9, per_address: 1 });
        let _one = door.enter(address("2001:db8:1:2::1")).expect("a place");
        assert!(door.enter(address("2001:db8:1:2:ffff::9")).is_err());
        assert!(door.enter(address("2001:db8:1:3::1")).is_ok());
    }
}
