//! fjall's journals, read before it opens them: to know afterwards what it cut off.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::batches;
use super::{DAMAGED_FILE, OpenError, RESTORE, damaged, sync_directory, write_durably};
use crate::note::Noted;

/// fjall's journals as they were before it opened them: to see afterwards how much it cut off, and to put it back.
///
/// fjall reads a journal up to the first entry it cannot decode and cuts the rest. Journals are made 64 MiB long and are
/// zeros behind their last entry, so cutting zeros is normal. A journal that was sealed ended with a whole entry; so did
/// the active one of an engine that was closed in order. If more than zeros was cut off these, entries in their middle
/// are damaged. (In the active journal after a crash a cut end is normal, and the durable note bounds it.)
pub struct Journals {
    found: Vec<Journal>,
}

struct Journal {
    path: PathBuf,
    file: File,
    /// Without the zeros at the end.
    content: Vec<u8>,
    bytes: u64,
}

impl Journals {
    pub fn read(dir: &Path) -> io::Result<Self> {
        let mut numbered = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
            if let (Some(number), Some("jnl")) = (number, path.extension().and_then(|of| of.to_str())) {
                numbered.push((number, path));
            }
        }
        numbered.sort();
        let mut found = Vec::new();
        for (_, path) in numbered {
            let file = File::open(&path)?;
            // The operating system may still hold bytes that the disk refused and show them as if they were written; appending
            // behind them would lose what is appended. So they are written now, or it is known that they cannot be, and then
            // read from the disk.
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
            let mut content = vec![0; usize::try_from(end_of_content(&file)?).map_err(io::Error::other)?];
            file.read_exact_at(&mut content, 0)?;
            let bytes = file.metadata()?.len();
            found.push(Journal { path, file, content, bytes });
        }
        Ok(Journals { found })
    }

    /// The name of the one that commits were last written to.
    pub fn newest(&self) -> String {
        self.found.last().map(|journal| journal.path.display().to_string()).unwrap_or_default()
    }

    /// Batches are numbered upwards, from one journal to the next.
    pub fn check_order(&self) -> Result<(), OpenError> {
        let mut last = None;
        for Journal { path, content, .. } in &self.found {
            for (at, number) in batches::sequence(content) {
                if last.is_some_and(|last| number <= last) {
                    return Err(damaged(format!(
                        "{} is damaged: the batch at byte {at} or the one before it has a wrong number; {RESTORE}",
                        path.display()
                    )));
                }
                last = Some(number);
            }
        }
        Ok(())
    }

    pub fn check_uncut(&self, noted: Noted) -> Result<(), OpenError> {
        let sealed = self.found.len().saturating_sub(usize::from(!noted.closed));
        for Journal { path, file, content, .. } in self.found.iter().take(sealed) {
            let left = file.metadata();
            let left = left.map_err(|source| OpenError::Io { doing: format!("reading {}", path.display()), source })?;
            if left.len() < content.len() as u64 {
                return Err(damaged(format!(
                    "{} is damaged after byte {}: {} bytes of commits that were acknowledged cannot be read; {RESTORE}",
                    path.display(),
                    left.len(),
                    content.len() as u64 - left.len(),
                )));
            }
        }
        Ok(())
    }

    /// Makes the journals what they were. If that fails the refusal is written down, for the next start would see no damage.
    pub fn put_back(&self, dir: &Path, refusal: OpenError) -> OpenError {
        let put = self.found.iter().try_for_each(|journal| {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(&journal.path)?;
            let mut now = Vec::new();
            let unchanged = file.metadata()?.len() == journal.bytes
                && File::open(&journal.path)?.take(journal.content.len() as u64).read_to_end(&mut now).is_ok()
                && now == journal.content;
            if unchanged {
                return Ok(());
            }
            file.write_all_at(&journal.content, 0)?;
            // What is behind the content was zeros, and is again.
            file.set_len(journal.content.len() as u64)?;
            file.set_len(journal.bytes)?;
            file.sync_all()
        });
        let Err(error) = put else { return refusal };
        let words = format!("{refusal} (and the journals could not be put back: {error})");
        let marked = write_durably(&dir.join(DAMAGED_FILE), words.as_bytes()).and_then(|()| sync_directory(dir));
        match marked {
            Ok(()) => damaged(words),
            Err(error) => damaged(format!("{words} (nor could this be noted: {error})")),
        }
    }
}

/// Where the zeros at the end of a file begin.
pub fn end_of_content(file: &File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let zeros = vec![0; 256 * 1024];
    let mut buffer = zeros.clone();
    while end > 0 {
        let from = end.saturating_sub(buffer.len() as u64);
        let part = &mut buffer[..(end - from) as usize];
        file.read_exact_at(part, from)?;
        // Compared as a whole first: a new journal is 64 MiB of zeros, and starting should not take long.
        if part[..] == zeros[..part.len()] {
            end = from;
            continue;
        }
        if let Some(last) = part.iter().rposition(|byte| *byte != 0) {
            return Ok(from + last as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::super::{FJALL_DIRECTORY, check_damaged};
    use super::*;

    #[test]
    fn a_sealed_journal_may_lose_zeros_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let fjall = dir.path().join(FJALL_DIRECTORY);
        std::fs::create_dir(&fjall).expect("made");
        let content = [vec![7; 300_000], vec![0; 700_000]].concat();
        let names = ["3.jnl", "4.jnl", "10.jnl"];
        let put_all = || names.iter().for_each(|name| std::fs::write(fjall.join(name), &content).expect("written"));
        put_all();
        let cut = |name: &str, to| {
            let file = OpenOptions::new().write(true).open(fjall.join(name)).expect("opened");
            file.set_len(to).expect("cut");
        };
        let open = Noted { number: 0, closed: false, relaxed: false };
        let read = || Journals::read(&fjall).expect("read");
        let before = read();
        cut("3.jnl", 300_000);
        before.check_uncut(open).expect("only zeros went");
        // After a crash the newest may end anywhere; after closing it may not.
        let before = read();
        cut("10.jnl", 299_000);
        before.check_uncut(open).expect("the end of the newest may be torn");
        let error = before.check_uncut(Noted { closed: true, ..open }).expect_err("cut after closing");
        assert!(error.to_string().contains("10.jnl is damaged after byte 299000"), "{error}");
        // A refusal leaves everything as it was, also what fjall removed.
        put_all();
        let before = read();
        cut("4.jnl", 299_999);
        std::fs::remove_file(fjall.join("3.jnl")).expect("removed");
        cut("10.jnl", 5);
        let refusal = before.check_uncut(open).expect_err("cut");
        assert!(before.put_back(dir.path(), refusal).to_string().contains("4.jnl"));
        for name in names {
            assert!(std::fs::read(fjall.join(name)).expect("there") == content, "{name}");
        }
        check_damaged(dir.path()).expect("nothing had to be marked");
    }
}
