//! A mounted file system on a `Disk`: FUSE serves the disk as one file, a loop device makes it a block device, and ext4
//! (or another file system of the kernel) is mounted on that.
//!
//! 1. Everything is undone on drop, in reverse order. When the harness is killed, the mount namespace that the `run` script
//!    made for it takes the mounts along, and the loop device clears itself with its last user.
//! 2. This process both serves the disk and (as the toys, and the stirring thread) waits for it. Killed while it waits, it
//!    could not end: the waiting thread keeps the FUSE device open, and nobody answers it. So each connection's number is
//!    left in the directory POWERCUT_CONNECTIONS while it lives, and the `run` script aborts what it finds there.
//! 3. The FUSE file is opened for direct I/O, so that the kernel keeps no copy of it and a disk may be exchanged between
//!    two mounts of the file system.

use crate::disk::{Disk, Image};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Small enough that a large body is many points to cut at, large enough that recording stays quick.
const WRITE_BYTES_MAX: u32 = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Ext4,
    Xfs,
    Btrfs,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Ext4 => "ext4",
            Kind::Xfs => "xfs",
            Kind::Btrfs => "btrfs",
        }
    }

    pub fn parse(name: &str) -> Option<Kind> {
        [Kind::Ext4, Kind::Xfs, Kind::Btrfs].into_iter().find(|kind| kind.name() == name)
    }

    fn make(self, device: &Path) -> Result<(), String> {
        let mut command = Command::new(format!("mkfs.{}", self.name()));
        match self {
            // The smallest journal, so that it wraps and is checkpointed within a short workload; nothing left for a
            // kernel thread to initialise later, so that the recording holds the workload's writes alone.
            Kind::Ext4 => command.args([
                "-q",
                "-F",
                "-b",
                "4096",
                "-m",
                "0",
                "-J",
                "size=4",
                "-E",
                "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
            ]),
            Kind::Xfs | Kind::Btrfs => command.args(["-q", "-f"]),
        };
        run(command.arg(device))
    }

    fn options(self, discards: bool) -> &'static str {
        match self {
            // `discard` turns freed blocks into zeros soon after the commit that freed them: no luck with stale blocks.
            Kind::Ext4 if discards => "loop,noatime,discard",
            Kind::Ext4 | Kind::Btrfs => "loop,noatime",
            // Images of one recording have one UUID, and two lanes mount them at the same time.
            Kind::Xfs => "loop,noatime,nouuid",
        }
    }
}

pub struct Volume {
    kind: Kind,
    disk: Arc<Mutex<Disk>>,
    fuse: Option<BackgroundSession>,
    fuse_dir: PathBuf,
    root: PathBuf,
    is_mounted: bool,
    discards: bool,
    connection_note: Option<PathBuf>,
}

impl Volume {
    /// Serves an empty disk; `work` is a directory of its own.
    pub fn serve(work: &Path, kind: Kind, bytes: u64) -> Result<Volume, String> {
        let fuse_dir = work.join("disk");
        let root = work.join("root");
        for dir in [&fuse_dir, &root] {
            std::fs::create_dir_all(dir).map_err(|e| format!("create {}: {e}", dir.display()))?;
        }
        let disk = Arc::new(Mutex::new(Disk::new(Image::empty(bytes))));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("powercut".into()), MountOption::RW];
        let fuse = fuser::spawn_mount(Face { disk: disk.clone() }, &fuse_dir, &config)
            .map_err(|e| format!("FUSE mount: {e}"))?;
        let connection_note = note_connection(&fuse_dir).map_err(|e| format!("note of the FUSE connection: {e}"))?;
        Ok(Volume { connection_note, kind, disk, fuse: Some(fuse), fuse_dir, root, is_mounted: false, discards: true })
    }

    /// For a disk that will fail: ext4 discards what a transaction frees even when that transaction could not be committed,
    /// and so destroys files that are still there after the next mount.
    pub fn without_discards(mut self) -> Volume {
        self.discards = false;
        self
    }

    pub fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().expect("no holder of the disk panics")
    }

    pub fn shared_disk(&self) -> Arc<Mutex<Disk>> {
        self.disk.clone()
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn make_file_system(&self) -> Result<(), String> {
        self.kind.make(&self.fuse_dir.join("disk.img"))
    }

    /// Puts another disk's content in place of the present one; the file system must not be mounted.
    pub fn exchange(&self, image: Image) {
        assert!(!self.is_mounted, "a mounted file system has its disk in use");
        *self.disk() = Disk::new(image);
    }

    pub fn mount(&mut self) -> Result<(), String> {
        run(Command::new("mount")
            .args(["-t", self.kind.name(), "-o", self.kind.options(self.discards)])
            .arg(self.fuse_dir.join("disk.img"))
            .arg(&self.root))?;
        self.is_mounted = true;
        Ok(())
    }

    pub fn unmount(&mut self) -> Result<(), String> {
        if !self.is_mounted {
            return Ok(());
        }
        // A killed process may hold its files for a moment longer than its exit is announced.
        let mut last = String::new();
        for attempt in 0..50 {
            match run(Command::new("umount").arg(&self.root)) {
                Ok(()) => {
                    self.is_mounted = false;
                    return Ok(());
                }
                Err(error) => last = error,
            }
            std::thread::sleep(Duration::from_millis(5 + attempt * 5));
        }
        Err(last)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if self.unmount().is_err() {
            let _ = run(Command::new("umount").arg("-l").arg(&self.root));
        }
        if let Some(fuse) = self.fuse.take() {
            let _ = fuse.umount_and_join();
        }
        if let Some(note) = &self.connection_note {
            let _ = std::fs::remove_file(note);
        }
    }
}

/// For whoever has to end this process while it waits for a disk or directory that it serves itself.
pub fn note_connection(fuse_dir: &Path) -> std::io::Result<Option<PathBuf>> {
    let Some(directory) = std::env::var_os("POWERCUT_CONNECTIONS") else { return Ok(None) };
    // A connection has the number of the device that its mount shows.
    let note = PathBuf::from(directory).join(std::fs::metadata(fuse_dir)?.dev().to_string());
    std::fs::write(&note, "")?;
    Ok(Some(note))
}

pub fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{:?}: {e}", command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {} {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

/// The FUSE face: a directory (inode 1) with the one file `disk.img` (inode 2).
struct Face {
    disk: Arc<Mutex<Disk>>,
}

const NO_CACHE: Duration = Duration::ZERO;

impl Face {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().expect("no holder of the disk panics")
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (size, kind) = match inode.0 {
            1 => (0, FileType::Directory),
            2 => (self.disk().bytes(), FileType::RegularFile),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        })
    }

    fn reply_attributes(&self, inode: INodeNo, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&NO_CACHE, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }
}

impl Filesystem for Face {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        config
            .set_max_write(WRITE_BYTES_MAX)
            .map_err(|nearest| std::io::Error::other(format!("largest write is {nearest}")))?;
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match (name.to_str(), self.attributes(INodeNo(2))) {
            (Some("disk.img"), Some(attributes)) => reply.entry(&NO_CACHE, &attributes, Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.reply_attributes(inode, reply);
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.reply_attributes(inode, reply);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let data = self.disk().read(offset, size as usize);
        reply.data(&data);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.disk().write(offset, data) {
            true => reply.written(data.len() as u32),
            false => reply.error(Errno::EIO),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.disk().flush() {
            true => reply.ok(),
            false => reply.error(Errno::EIO),
        }
    }

    /// What the loop device makes of a discard or of writing zeros.
    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) == 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        self.disk().discard(offset, length);
        reply.ok();
    }
}
