//! What the segments ask of a disk, and the real one.
//!
//! The trait is thin on purpose: tests put a disk under the segments that forgets what was not synced, or that fails.
//! fjall has no such seam; its files are tried from outside, on a block device that loses its cache.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};

/// A directory of segment files.
pub trait Disk: Send + Sync {
    /// Makes a new empty file; it must not exist.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Names and lengths of all files.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;
    /// Makes the existence of files durable.
    fn sync(&self) -> io::Result<()>;
    /// For messages.
    fn path(&self, name: &str) -> String;
}

/// One segment file.
pub trait DiskFile: Send + Sync {
    /// Writes all parts one after another from `offset` on.
    fn write_at(&self, offset: u64, parts: &[Bytes]) -> io::Result<()>;
    /// Fills the buffer or fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// As many bytes in a buffer of their own.
    fn read_new(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        self.read_at(offset, &mut buffer)?;
        Ok(buffer)
    }
    /// Fills the buffer if that needs no waiting for the device; `false` if it would.
    fn read_at_once(&self, offset: u64, buffer: &mut [u8]) -> io::Result<bool>;
    /// Makes everything written durable.
    fn sync(&self) -> io::Result<()>;
    /// Gives the blocks of a range back; it reads as zeros afterwards. `false` if the file system cannot.
    fn punch(&self, offset: u64, bytes: u64) -> io::Result<bool>;
}

/// Makes a directory, and those it lies in, if they are not there: for nobody else on the machine to look into.
pub fn make_private(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// A directory of the file system.
pub struct Directory {
    path: PathBuf,
    is_read_only: bool,
}

impl Directory {
    /// Opens the directory, making it where it is missing.
    pub fn open(path: &Path) -> io::Result<Self> {
        match std::fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        Ok(Directory { path: path.to_owned(), is_read_only: false })
    }

    /// A directory that may be another process's: nothing in it can be changed.
    pub fn read_only(path: &Path) -> Self {
        Directory { path: path.to_owned(), is_read_only: true }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.is_read_only { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }
}

impl Disk for Directory {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.check_writable()?;
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(self.path.join(name))?;
        Ok(Box::new(Plain(file)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(Plain(OpenOptions::new().read(true).write(!self.is_read_only).open(self.path.join(name))?)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check_writable()?;
        std::fs::remove_file(self.path.join(name))
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name().into_string().map_err(|name| {
                io::Error::other(format!("{} has a name that is none of ours: {name:?}", self.path.display()))
            })?;
            found.push((name, entry.metadata()?.len()));
        }
        Ok(found)
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn path(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

struct Plain(File);

/// The most parts one call takes (IOV_MAX on Linux).
const PARTS_MAX: usize = 1024;

impl DiskFile for Plain {
    fn write_at(&self, mut offset: u64, parts: &[Bytes]) -> io::Result<()> {
        for parts in parts.chunks(PARTS_MAX) {
            let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let mut left = slices.as_mut_slice();
            while !left.is_empty() {
                match rustix::io::pwritev(&self.0, left, offset) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => {
                        offset += written as u64;
                        IoSlice::advance_slices(&mut left, written);
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    /// Without filling the buffer with zeros first.
    fn read_new(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut buffer = Vec::with_capacity(bytes);
        while buffer.len() < bytes {
            let at = offset + buffer.len() as u64;
            match rustix::io::pread(&self.0, spare_capacity(&mut buffer), at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The allocator may have given more room than was asked for.
        buffer.truncate(bytes);
        Ok(buffer)
    }

    fn read_at_once(&self, mut offset: u64, buffer: &mut [u8]) -> io::Result<bool> {
        let mut left = buffer;
        while !left.is_empty() {
            let mut into = [IoSliceMut::new(left)];
            match rustix::io::preadv2(&self.0, &mut into, offset, ReadWriteFlags::NOWAIT) {
                // The end of the file: the plain read will say so in its own words.
                Ok(0) => return Ok(false),
                Ok(read) => {
                    offset += read as u64;
                    left = &mut left[read..];
                }
                Err(Errno::INTR) => {}
                // Not in the page cache, or a file system that does not know the flag: read it the plain way.
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn punch(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.0, how, offset, bytes) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
