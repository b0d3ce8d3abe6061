//! Small stores of files, there to prove the harness: one that is right, and some that are wrong in known ways and must
//! be caught. They have the same face as the server, so the same workload and the same judge run on them.
//!
//! A container is a directory, a blob a file in it: `operation` in a line of its own, then the body.

use crate::store::{Answer, Condition, Found, Listed, Store};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Habit {
    /// Writes a new file, syncs it, renames it into place and syncs the directory. Stops for good when a sync fails: from then
    /// on the page cache shows what the disk may never get, a renamed file above all.
    Careful,
    /// The same without any sync: loses what it acknowledged.
    NeverSyncs,
    /// Syncs, but writes over the old file in place: a cut in between leaves a mixture.
    InPlace,
    /// Acknowledges before it syncs: right nearly always.
    SyncsAfterwards,
    /// As careful, but takes no notice of a sync that fails.
    Shrugs,
    /// As careful, but takes a write that fails for done, and what cannot be read for absent.
    Deaf,
}

#[derive(Clone)]
pub struct Toy {
    root: PathBuf,
    habit: Habit,
    /// One operation at a time, so that conditions and effects cannot interleave.
    turn: Arc<Mutex<u64>>,
    is_stopped: Arc<AtomicBool>,
}

const STOPPED: &str = "500 a sync failed";

impl Toy {
    pub fn open(root: &Path, habit: Habit) -> std::io::Result<Toy> {
        let toy = Toy { root: root.to_path_buf(), habit, turn: Arc::default(), is_stopped: Arc::default() };
        // Containers half made or half deleted when the power went; nothing refers to them.
        match fs::remove_dir_all(root.join("dying")) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir_all(root.join("containers"))?;
        fs::create_dir_all(root.join("dying"))?;
        toy.sync_directory(root)?;
        if let Some(parent) = root.parent() {
            toy.sync_directory(parent)?;
        }
        Ok(toy)
    }

    fn container(&self, name: &str) -> PathBuf {
        self.root.join("containers").join(name)
    }

    /// Names may contain slashes, which a flat directory cannot hold.
    fn blob(&self, container: &str, name: &str) -> PathBuf {
        self.container(container).join(name.replace('/', "%"))
    }

    fn sync(&self, file: &File) -> std::io::Result<()> {
        match self.habit {
            Habit::NeverSyncs => Ok(()),
            Habit::Shrugs => file.sync_all().or(Ok(())),
            _ => file.sync_all().inspect_err(|_| self.is_stopped.store(true, Ordering::Relaxed)),
        }
    }

    /// One operation's turn, unless there are none any more.
    fn turn(&self) -> Result<MutexGuard<'_, u64>, &'static str> {
        let turn = self.turn.lock().expect("no holder panics");
        if self.is_stopped.load(Ordering::Relaxed) { Err(STOPPED) } else { Ok(turn) }
    }

    fn sync_directory(&self, directory: &Path) -> std::io::Result<()> {
        self.sync(&File::open(directory)?)
    }

    /// A refusal rests on what was read. Where the kernel failed to write a directory it may read an older one from the disk, and tells
    /// only who syncs.
    fn surely(&self, refusal: Answer) -> Answer {
        if self.habit != Habit::Careful {
            return refusal;
        }
        match self.sync_directory(&self.root.join("containers")) {
            Ok(()) => refusal,
            Err(error) => failed(&error.to_string()),
        }
    }

    fn write(&self, container: &str, name: &str, operation: usize, body: &[u8]) -> std::io::Result<()> {
        let place = self.blob(container, name);
        let mut content = format!("{operation}\n").into_bytes();
        content.extend_from_slice(body);
        match self.habit {
            Habit::InPlace => {
                let mut file = File::options().write(true).create(true).truncate(false).open(&place)?;
                // In two steps, so that any run has cuts in between.
                let (first, rest) = content.split_at(content.len() / 2);
                file.write_all(first)?;
                self.sync(&file)?;
                file.write_all(rest)?;
                let end = file.stream_position()?;
                file.set_len(end)?;
                self.sync(&file)?;
            }
            Habit::SyncsAfterwards => {
                let fresh = self.root.join("fresh");
                fs::write(&fresh, &content)?;
                fs::rename(&fresh, &place)?;
                let directory = self.container(container);
                std::thread::spawn(move || {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    File::open(place).and_then(|file| file.sync_all()).and_then(|()| File::open(directory)?.sync_all())
                });
                return Ok(());
            }
            Habit::Careful | Habit::NeverSyncs | Habit::Shrugs | Habit::Deaf => {
                let fresh = self.root.join("fresh");
                let mut file = File::create(&fresh)?;
                file.write_all(&content)?;
                self.sync(&file)?;
                fs::rename(&fresh, &place)?;
            }
        }
        self.sync_directory(&self.container(container))
    }

    fn etag(&self, container: &str, name: &str) -> Option<String> {
        self.read(container, name).ok().flatten().map(|found| found.etag)
    }

    fn read(&self, container: &str, name: &str) -> Result<Option<Found>, String> {
        let mut content = Vec::new();
        match File::open(self.blob(container, name)).and_then(|mut file| file.read_to_end(&mut content)) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound || self.habit == Habit::Deaf => return Ok(None),
            Err(error) => return Err(format!("get {container}/{name}: 500 {error}")),
        }
        let line = content.iter().position(|b| *b == b'\n').unwrap_or(0);
        let operation = std::str::from_utf8(&content[..line]).ok().and_then(|n| n.parse().ok());
        let body = content.split_off((line + 1).min(content.len()));
        Ok(Some(Found { etag: operation.map_or(String::new(), |n: usize| format!("\"{n}\"")), operation, body }))
    }

    fn meets(&self, container: &str, name: &str, condition: &Condition) -> Result<(), Answer> {
        let refused = |status, code: &str| Err(Answer::Refused { status, code: code.into() });
        if !self.container(container).exists() {
            return refused(404, "ContainerNotFound");
        }
        match (condition, self.etag(container, name)) {
            (Condition::Absent, Some(_)) => refused(409, "BlobAlreadyExists"),
            (Condition::Is(wanted), found) if found.as_ref() != Some(wanted) => refused(412, "ConditionNotMet"),
            _ => Ok(()),
        }
    }
}

fn done(result: std::io::Result<String>) -> Answer {
    match result {
        Ok(etag) => Answer::Done { etag },
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(words: &str) -> Answer {
    Answer::Failed { status: 500, code: words.into() }
}

impl Store for Toy {
    fn create_container(&mut self, container: &str) -> Answer {
        let mut turn = match self.turn() {
            Ok(turn) => turn,
            Err(stopped) => return failed(stopped),
        };
        *turn += 1;
        // The incarnation is part of the directory's content, as an ETag is part of a container's record: made aside,
        // then renamed into place.
        let fresh = self.root.join("dying").join(format!("new{}-{}", *turn, std::process::id()));
        let etag = format!("\"c{}-{:?}\"", *turn, std::time::SystemTime::now());
        done(
            (|| {
                if self.container(container).exists() {
                    return Ok(None);
                }
                fs::create_dir(&fresh)?;
                fs::write(fresh.join(".etag"), &etag)?;
                self.sync(&File::open(fresh.join(".etag"))?)?;
                self.sync_directory(&fresh)?;
                fs::rename(&fresh, self.container(container))?;
                self.sync_directory(&self.root.join("containers"))?;
                Ok(Some(etag))
            })()
            .map(|made| made.unwrap_or_default()),
        )
        .refused_if_empty()
    }

    fn delete_container(&mut self, container: &str) -> Answer {
        let mut turn = match self.turn() {
            Ok(turn) => turn,
            Err(stopped) => return failed(stopped),
        };
        *turn += 1;
        if !self.container(container).exists() {
            return Answer::Refused { status: 404, code: "ContainerNotFound".into() };
        }
        let dying = self.root.join("dying").join(format!("{container}-{}-{:?}", *turn, std::time::SystemTime::now()));
        done((|| {
            fs::rename(self.container(container), &dying)?;
            self.sync_directory(&self.root.join("containers"))?;
            Ok("deleted".into())
        })())
    }

    fn put(&mut self, container: &str, name: &str, operation: usize, body: &[u8], condition: &Condition) -> Answer {
        let _turn = match self.turn() {
            Ok(turn) => turn,
            Err(stopped) => return failed(stopped),
        };
        if let Err(refusal) = self.meets(container, name, condition) {
            return self.surely(refusal);
        }
        let written = self.write(container, name, operation, body).map(|()| format!("\"{operation}\""));
        match self.habit {
            Habit::Deaf => Answer::Done { etag: format!("\"{operation}\"") },
            _ => done(written),
        }
    }

    fn delete(&mut self, container: &str, name: &str, condition: &Condition) -> Answer {
        let _turn = match self.turn() {
            Ok(turn) => turn,
            Err(stopped) => return failed(stopped),
        };
        if let Err(refusal) = self.meets(container, name, condition) {
            return self.surely(refusal);
        }
        match fs::remove_file(self.blob(container, name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.surely(Answer::Refused { status: 404, code: "BlobNotFound".into() })
            }
            result => {
                done(result.and_then(|()| self.sync_directory(&self.container(container))).map(|()| "deleted".into()))
            }
        }
    }

    fn get(&mut self, container: &str, name: &str) -> Result<Option<Found>, String> {
        // Reads take a turn as well, or they would see what is not yet synced.
        let _turn = self.turn().map_err(|stopped| format!("get: {stopped}"))?;
        self.read(container, name)
    }

    fn list_containers(&mut self) -> Result<Vec<Listed>, String> {
        let _turn = self.turn().map_err(|stopped| format!("list containers: {stopped}"))?;
        let mut listed = Vec::new();
        for entry in fs::read_dir(self.root.join("containers")).map_err(|e| e.to_string())? {
            let entry = entry.map_err(|e| e.to_string())?;
            let etag = fs::read_to_string(entry.path().join(".etag")).map_err(|e| e.to_string())?;
            listed.push(Listed { name: entry.file_name().to_string_lossy().into_owned(), etag, bytes: None });
        }
        Ok(listed)
    }

    fn list(&mut self, container: &str) -> Result<Vec<Listed>, String> {
        let _turn = self.turn().map_err(|stopped| format!("list: {stopped}"))?;
        let mut listed = Vec::new();
        for entry in fs::read_dir(self.container(container)).map_err(|e| e.to_string())? {
            let name = entry.map_err(|e| e.to_string())?.file_name().to_string_lossy().replace('%', "/");
            if name == ".etag" {
                continue;
            }
            let found = self.read(container, &name)?.ok_or("listed and gone")?;
            listed.push(Listed { name, etag: found.etag, bytes: Some(found.body.len() as u64) });
        }
        Ok(listed)
    }
}

impl Answer {
    fn refused_if_empty(self) -> Answer {
        match self {
            Answer::Done { etag } if etag.is_empty() => {
                Answer::Refused { status: 409, code: "ContainerAlreadyExists".into() }
            }
            answer => answer,
        }
    }
}
