//! Reads that several ask for at once.
//!
//! Whoever asks for what is just being read cannot have that: it may have been read before something the asker knows of. All who ask
//! meanwhile share the next read, which begins when that one is over. So one read of a thing is under way at a time, however many ask
//! for it, and each is answered by one that began after it had asked.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;

pub struct Gather<K, T>(Arc<Mutex<HashMap<K, Waiting<K, T>>>>)
where
    K: Hash + Eq + Clone;

type Waiting<K, T> = Vec<oneshot::Sender<Told<K, T>>>;

enum Told<K: Hash + Eq + Clone, T> {
    Found(T),
    /// To read next, for these as well.
    Read(Reading<K, T>, Waiting<K, T>),
}

/// What is read now; others wait for its end. Who reads next is told so when this is dropped.
struct Reading<K: Hash + Eq + Clone, T> {
    gather: Arc<Mutex<HashMap<K, Waiting<K, T>>>>,
    key: K,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl<K: Hash + Eq + Clone, T> Default for Gather<K, T> {
    fn default() -> Self {
        Gather(Arc::default())
    }
}

impl<K: Hash + Eq + Clone, T: Clone> Gather<K, T> {
    /// What a read that begins from now on finds: the caller's own, or that of another who asked.
    pub async fn read(&self, key: K, read: impl AsyncFnOnce() -> T) -> T {
        let (reading, others) = loop {
            let told = {
                let mut gather = lock(&self.0);
                match gather.get_mut(&key) {
                    Some(waiting) => {
                        let (tell, told) = oneshot::channel();
                        waiting.push(tell);
                        told
                    }
                    None => {
                        gather.insert(key.clone(), Vec::new());
                        break (Reading { gather: Arc::clone(&self.0), key: key.clone() }, Vec::new());
                    }
                }
            };
            match told.await {
                Ok(Told::Found(found)) => return found,
                Ok(Told::Read(reading, others)) => break (reading, others),
                Err(_) => {} // whoever was to read went away
            }
        };
        let found = read().await;
        drop(reading);
        for other in others {
            let _ = other.send(Told::Found(found.clone())); // whoever left needs nothing
        }
        found
    }
}

impl<K: Hash + Eq + Clone, T> Drop for Reading<K, T> {
    fn drop(&mut self) {
        let mut waiting = {
            let mut gather = lock(&self.gather);
            let waiting = gather.get_mut(&self.key).map(std::mem::take).unwrap_or_default();
            if waiting.is_empty() {
                gather.remove(&self.key);
                return;
            }
            waiting
        };
        // Outside the lock: what is not taken comes back, and is dropped here again.
        let mut reading = Reading { gather: Arc::clone(&self.gather), key: self.key.clone() };
        while let Some(next) = waiting.pop() {
            match next.send(Told::Read(reading, waiting)) {
                Err(Told::Read(same, rest)) => (reading, waiting) = (same, rest),
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::sync::Semaphore;
    use tokio::task::JoinHandle;

    use super::*;

    struct World {
        gather: Gather<&'static str, u64>,
        begun: AtomicU64,
        /// Reads that may end.
        gate: Semaphore,
    }

    async fn ask(world: &Arc<World>, key: &'static str) -> JoinHandle<u64> {
        let world = Arc::clone(world);
        let asked = tokio::spawn(async move {
            let read = async || {
                let number = world.begun.fetch_add(1, Ordering::SeqCst);
                world.gate.acquire().await.expect("open").forget();
                number
            };
            world.gather.read(key, read).await
        });
        settle().await;
        asked
    }

    async fn settle() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    fn world() -> Arc<World> {
        Arc::new(World { gather: Gather::default(), begun: AtomicU64::new(0), gate: Semaphore::new(0) })
    }

    async fn allow(world: &World, reads: usize) {
        world.gate.add_permits(reads);
        settle().await;
    }

    #[tokio::test]
    async fn those_who_ask_during_a_read_share_the_next() {
        let world = world();
        let first = ask(&world, "a").await;
        let others = [ask(&world, "a").await, ask(&world, "a").await, ask(&world, "a").await];
        let elsewhere = ask(&world, "b").await;
        assert_eq!(world.begun.load(Ordering::SeqCst), 2, "one for each key");
        allow(&world, 2).await;
        assert_eq!((first.await.expect("read"), elsewhere.await.expect("read")), (0, 1));
        let late = ask(&world, "a").await;
        assert!(others.iter().all(|other| !other.is_finished()));
        allow(&world, 2).await;
        for other in others {
            assert_eq!(other.await.expect("read"), 2);
        }
        assert_eq!(late.await.expect("read"), 3, "the read under way began before it asked");
        assert!(lock(&world.gather.0).is_empty());
    }

    /// Whoever goes away, those who wait are served.
    #[tokio::test]
    async fn nobody_waits_for_who_has_gone() {
        for gone in [&[0][..], &[1], &[3], &[0, 1], &[2, 3], &[1, 2, 3], &[0, 1, 2, 3]] {
            let world = world();
            let mut asked = Vec::new();
            for _ in 0..4 {
                asked.push(ask(&world, "a").await);
            }
            // Some before they are told to read, some after.
            for one in gone {
                asked[*one].abort();
            }
            settle().await;
            let last = ask(&world, "a").await;
            allow(&world, 9).await;
            for (number, one) in asked.into_iter().enumerate() {
                assert_eq!(one.await.is_ok(), !gone.contains(&number), "{gone:?}");
            }
            last.await.expect("read");
            assert!(lock(&world.gather.0).is_empty());
        }
    }

    #[tokio::test]
    async fn who_goes_away_while_reading_for_others_leaves_the_read_to_them() {
        let world = world();
        let first = ask(&world, "a").await;
        let others = [ask(&world, "a").await, ask(&world, "a").await, ask(&world, "a").await];
        allow(&world, 1).await;
        first.await.expect("read");
        // One of them reads now; it is the last that asked.
        others[2].abort();
        settle().await;
        allow(&world, 9).await;
        let [one, other, gone] = others;
        assert!(one.await.expect("read") >= 2 && other.await.expect("read") >= 2);
        assert!(gone.await.is_err());
    }
}
