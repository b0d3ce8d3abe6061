//! CHANGE_NOTIFY: who watches which directory, and what they are told (MS-SMB2 3.3.5.19). Changes of REST are told to
//! nobody, as the service has it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use contract::names::fold;
use engine::GroupId;
use partition::record::FileId;
use tokio::sync::Notify;

use crate::connection::lock;
use crate::wire::{Put, utf16};

pub mod action {
    pub const ADDED: u32 = 1;
    pub const REMOVED: u32 = 2;
    pub const MODIFIED: u32 = 3;
    pub const RENAMED_FROM: u32 = 4;
    pub const RENAMED_TO: u32 = 5;
}

pub mod filter {
    pub const FILE_NAME: u32 = 0x1;
    pub const DIRECTORY_NAME: u32 = 0x2;
    pub const ATTRIBUTES: u32 = 0x4;
    pub const SIZE: u32 = 0x8;
    pub const LAST_WRITE: u32 = 0x10;
    pub const CREATION: u32 = 0x40;
    pub const SECURITY: u32 = 0x100;
}

/// Changes that are kept for a watcher that does not ask, and what they take as they are told; more are told as "look again".
const CHANGES_MAX: usize = 1000;
const CHANGES_BYTES_MAX: usize = 64 << 10;
/// The same for all watchers together.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// One open of a directory that is watched.
pub struct Watch {
    file: FileId,
    /// Where it is now: in upper case, from the root; empty for the root.
    directory: Mutex<String>,
    is_recursive: bool,
    filter: u32,
    /// As the first who asked would have it; what is more is lost for all.
    bytes_max: usize,
    changes: Mutex<Changes>,
    /// What is kept for all watchers.
    kept_bytes: Arc<AtomicUsize>,
    pub changed: Notify,
}

#[derive(Default)]
struct Changes {
    waiting: VecDeque<Change>,
    bytes: usize,
    /// More than could be kept.
    is_lost: bool,
    /// Those who wait, by their message ids: the first is told first.
    waiters: BTreeSet<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Change {
    action: u32,
    /// From the watched directory, with backslashes.
    name: String,
}

impl Change {
    /// What it takes as it is told.
    fn bytes(&self) -> usize {
        12 + (2 * self.name.encode_utf16().count()).next_multiple_of(4)
    }
}

/// What a watcher is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    Changes(Vec<u8>),
    /// It must look for itself.
    LookAgain,
    /// The directory is going away.
    Over,
}

impl Watch {
    /// From here on until it leaves, a request waits for its turn.
    pub fn enter(&self, message_id: u64) {
        lock(&self.changes).waiters.insert(message_id);
    }

    pub fn leave(&self, message_id: u64) {
        lock(&self.changes).waiters.remove(&message_id);
        self.changed.notify_waiters();
    }

    /// What there is to tell a request whose turn it is, if there is something. Where the directory is going away, nobody waits any longer.
    pub fn take(&self, message_id: u64, bytes_max: usize, is_going: bool) -> Option<Told> {
        let bytes_max = bytes_max.min(self.bytes_max);
        let mut changes = lock(&self.changes);
        if changes.waiters.first().is_some_and(|first| *first != message_id) && !is_going {
            return None;
        }
        if changes.waiting.is_empty() && !changes.is_lost {
            return is_going.then_some(Told::Over);
        }
        let waiting = self.take_kept(&mut changes);
        let is_lost = std::mem::take(&mut changes.is_lost);
        drop(changes);
        let mut out = Vec::new();
        let mut last = None;
        for change in &waiting {
            let name = utf16(&change.name);
            out.align(4);
            if let Some(last) = last {
                let next = (out.len() - last) as u32;
                out.set_u32(last, next);
            }
            last = Some(out.len());
            out.put_u32(0);
            out.put_u32(change.action);
            out.put_u32(name.len() as u32);
            out.put(&name);
        }
        if is_lost || out.len() > bytes_max { Some(Told::LookAgain) } else { Some(Told::Changes(out)) }
    }

    /// Keeps a change, unless there are too many: then they are all lost.
    fn keep(&self, changes: &mut Changes, change: Change) {
        if changes.is_lost {
            return;
        }
        let bytes = change.bytes();
        let is_too_much = changes.waiting.len() >= CHANGES_MAX || changes.bytes + bytes > CHANGES_BYTES_MAX;
        if is_too_much || self.kept_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > KEPT_BYTES_MAX {
            if !is_too_much {
                self.kept_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            self.take_kept(changes);
            changes.is_lost = true;
            return;
        }
        changes.bytes += bytes;
        changes.waiting.push_back(change);
    }

    fn take_kept(&self, changes: &mut Changes) -> VecDeque<Change> {
        self.kept_bytes.fetch_sub(std::mem::take(&mut changes.bytes), Ordering::Relaxed);
        std::mem::take(&mut changes.waiting)
    }

    /// Names, and what was done to them in one step: whoever is told of one is told of all.
    fn hear<'a>(&self, what: u32, done: impl IntoIterator<Item = (&'a str, u32)>) {
        if self.filter & what == 0 {
            return;
        }
        let mut changes = lock(&self.changes);
        let mut is_news = false;
        for (name, action) in done {
            let change = Change { action, name: name.replace('/', "\\") };
            // The same once more tells nothing new.
            if change.action == action::MODIFIED && changes.waiting.back() == Some(&change) {
                continue;
            }
            is_news = true;
            self.keep(&mut changes, change);
        }
        drop(changes);
        if is_news {
            self.changed.notify_waiters();
        }
    }

    /// The name that a watcher of this directory knows something by, if it concerns it at all.
    fn name_of<'a>(&self, path: &'a str, folded: &str) -> Option<&'a str> {
        let directory = lock(&self.directory);
        let depth = directory.split('/').filter(|name| !name.is_empty()).count();
        let is_below = match depth {
            0 => !path.is_empty(),
            _ => folded.strip_prefix(directory.as_str()).is_some_and(|rest| rest.starts_with('/')),
        };
        let name = if depth == 0 { path } else { path.splitn(depth + 1, '/').nth(depth)? };
        (is_below && (self.is_recursive || !name.contains('/'))).then_some(name)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut changes = std::mem::take(&mut *lock(&self.changes));
        self.take_kept(&mut changes);
    }
}

/// The watchers of all shares.
#[derive(Default)]
pub struct Watches {
    shares: Mutex<HashMap<GroupId, Vec<Arc<Watch>>>>,
    kept_bytes: Arc<AtomicUsize>,
}

impl Watches {
    pub fn add(
        &self,
        share: &GroupId,
        file: FileId,
        path: &str,
        is_recursive: bool,
        filter: u32,
        bytes_max: usize,
    ) -> Arc<Watch> {
        let watch = Arc::new(Watch {
            file,
            directory: Mutex::new(fold(path)),
            is_recursive,
            filter,
            bytes_max,
            changes: Mutex::default(),
            kept_bytes: self.kept_bytes.clone(),
            changed: Notify::new(),
        });
        lock(&self.shares).entry(share.clone()).or_default().push(watch.clone());
        watch
    }

    pub fn remove(&self, share: &GroupId, watch: &Arc<Watch>) {
        let mut shares = lock(&self.shares);
        if let Some(watches) = shares.get_mut(share) {
            watches.retain(|other| !Arc::ptr_eq(other, watch));
            if watches.is_empty() {
                shares.remove(share);
            }
        }
        drop(shares);
        watch.changed.notify_waiters();
    }

    /// Does anybody watch in a share? If not, nobody needs to know where something happened.
    pub fn is_any(&self, share: &GroupId) -> bool {
        lock(&self.shares).contains_key(share)
    }

    /// Something happened to what is at a path.
    pub fn tell(&self, share: &GroupId, path: &str, action: u32, what: u32) {
        self.tell_together(share, &[(path, action)], what);
    }

    /// Something happened at several paths in one step: a rename.
    pub fn tell_together(&self, share: &GroupId, done: &[(&str, u32)], what: u32) {
        let shares = lock(&self.shares);
        let Some(watches) = shares.get(share) else { return };
        let folded: Vec<String> = done.iter().map(|(path, _)| fold(path)).collect();
        for watch in watches {
            let named = done.iter().zip(&folded);
            watch
                .hear(what, named.filter_map(|((path, action), folded)| Some((watch.name_of(path, folded)?, *action))));
        }
    }

    /// A directory was renamed: those who watch it go with it. Nobody watches anything below it, for nothing may be open there.
    pub fn moved(&self, share: &GroupId, file: FileId, path: &str) {
        let shares = lock(&self.shares);
        for watch in shares.get(share).into_iter().flatten().filter(|watch| watch.file == file) {
            *lock(&watch.directory) = fold(path);
        }
    }

    /// A directory is to be deleted: whoever watches it looks, and sees that.
    pub fn wake(&self, share: &GroupId, file: FileId) {
        let shares = lock(&self.shares);
        for watch in shares.get(share).into_iter().flatten().filter(|watch| watch.file == file) {
            watch.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(directory: &str, is_recursive: bool) -> Watch {
        Watch {
            file: FileId(1),
            directory: Mutex::new(fold(directory)),
            is_recursive,
            filter: filter::FILE_NAME,
            bytes_max: 2000,
            changes: Mutex::default(),
            kept_bytes: Arc::default(),
            changed: Notify::new(),
        }
    }

    #[test]
    fn a_watcher_hears_of_what_is_in_its_directory() {
        for (directory, is_recursive, path, expected) in [
            ("", false, "a", Some("a")),
            ("", false, "a/b", None),
            ("", true, "a/b", Some("a/b")),
            ("Dir", false, "dir/File", Some("File")),
            ("dir", false, "DIRECTORY/x", None),
            ("dir", false, "dir", None),
            ("dir/sub", false, "dir/sub/x", Some("x")),
            ("dir/sub", true, "dir/sub/x/y", Some("x/y")),
            ("dir/sub", true, "dir/other/x", None),
        ] {
            let heard = watch(directory, is_recursive).name_of(path, &fold(path)).map(str::to_owned);
            assert_eq!(heard.as_deref(), expected, "{directory} {path}");
        }
    }

    #[test]
    fn a_watcher_goes_with_its_directory() {
        let (watches, share) = (Watches::default(), GroupId(bytes::Bytes::from_static(b"share")));
        let watch = watches.add(&share, FileId(1), "old", false, filter::FILE_NAME, 1000);
        watches.moved(&share, FileId(2), "other");
        watches.moved(&share, FileId(1), "New/Name");
        watches.tell(&share, "old/a", action::ADDED, filter::FILE_NAME);
        assert_eq!(watch.take(1, 1000, false), None);
        watches.tell(&share, "new/name/b", action::ADDED, filter::FILE_NAME);
        assert!(matches!(watch.take(1, 1000, false), Some(Told::Changes(_))));
    }

    #[test]
    fn what_cannot_be_kept_or_told_is_to_be_looked_for() {
        let watch = watch("", false);
        assert_eq!(watch.take(1, 1000, false), None);
        assert_eq!(watch.take(1, 1000, true), Some(Told::Over));
        watch.hear(filter::FILE_NAME, [("a", action::ADDED)]);
        watch.hear(filter::ATTRIBUTES, [("b", action::MODIFIED)]);
        let Some(Told::Changes(bytes)) = watch.take(1, 1000, true) else { panic!("one change") };
        assert_eq!(bytes.len(), 14, "of which one was asked for");
        watch.hear(filter::FILE_NAME, [("long name", action::ADDED)]);
        assert_eq!(watch.take(1, 8, false), Some(Told::LookAgain));
        (0..=CHANGES_MAX).for_each(|n| watch.hear(filter::FILE_NAME, [(n.to_string().as_str(), action::ADDED)]));
        assert_eq!(watch.take(1, usize::MAX, false), Some(Told::LookAgain));
        let long = "x".repeat(255);
        (0..200).for_each(|_| watch.hear(filter::FILE_NAME, [(long.as_str(), action::ADDED)]));
        assert_eq!(watch.kept_bytes.load(Ordering::Relaxed), 0, "what is lost is not kept");
        assert_eq!(watch.take(1, usize::MAX, false), Some(Told::LookAgain));
    }

    #[test]
    fn what_is_kept_for_all_who_do_not_ask_has_a_limit() {
        let (watches, share) = (Watches::default(), GroupId(bytes::Bytes::from_static(b"share")));
        let watched: Vec<_> =
            (0..1200).map(|_| watches.add(&share, FileId(1), "", false, filter::FILE_NAME, 1 << 20)).collect();
        let long = "x".repeat(255);
        (0..120).for_each(|_| watches.tell(&share, &long, action::ADDED, filter::FILE_NAME));
        assert!(watches.kept_bytes.load(Ordering::Relaxed) <= KEPT_BYTES_MAX);
        let told: Vec<_> = watched.iter().filter_map(|watch| watch.take(1, usize::MAX, false)).collect();
        assert_eq!(told.len(), watched.len(), "all hear of it");
        assert!(told.contains(&Told::LookAgain) && told.iter().any(|told| matches!(told, Told::Changes(_))));
        assert_eq!(watches.kept_bytes.load(Ordering::Relaxed), 0);
        watches.tell(&share, "a", action::ADDED, filter::FILE_NAME);
        drop((watched, watches.shares));
    }
}
