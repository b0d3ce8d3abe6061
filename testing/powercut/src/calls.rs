//! A directory whose calls can be refused: FUSE shows another directory as it is, and fails the calls it is told to fail, with the
//! error it is told, once or for good. So what a program asks of its files fails one call at a time, which no failing disk below
//! a file system does.
//!
//! 1. A refused call has no effect, and a call that is not refused has its whole effect.
//! 2. Files are opened for direct I/O: every read and write of the program is a call, none is answered from the kernel's cache.

use crate::volume::note_connection;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    Read,
    Write,
    /// Space for a file, or its length.
    Allocate,
    /// A name that comes, changes or goes, or a file opened to be written to.
    Name,
    /// Of a file or a directory.
    Sync,
    /// A file opened, to whatever end, or made.
    Open,
}

/// Which calls fail, and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub calls: &'static [Call],
    pub errno: i32,
    /// So many of them go well first.
    pub ahead: usize,
    /// Only one fails.
    pub once: bool,
}

#[derive(Default)]
struct State {
    plan: Option<Plan>,
    /// Calls of the plan's kinds since it was made, and how many of them were refused.
    seen: usize,
    refused: usize,
    paths: HashMap<u64, PathBuf>,
    files: HashMap<u64, Arc<File>>,
    handles: u64,
}

/// The directory as it is served. Undone on drop.
pub struct Calls {
    state: Arc<Mutex<State>>,
    fuse: Option<BackgroundSession>,
    root: PathBuf,
    connection_note: Option<PathBuf>,
}

const ROOT: u64 = 1;
const NO_CACHE: Duration = Duration::ZERO;

impl Calls {
    /// Serves `backing` below `work`.
    pub fn serve(backing: &Path, work: &Path) -> Result<Calls, String> {
        let root = work.join("calls");
        fs::create_dir_all(&root).map_err(|e| format!("create {}: {e}", root.display()))?;
        let state = Arc::new(Mutex::new(State::default()));
        lock(&state).paths.insert(ROOT, backing.to_path_buf());
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("calls".into()), MountOption::RW];
        let fuse = fuser::spawn_mount(Face { state: state.clone() }, &root, &config);
        let fuse = fuse.map_err(|e| format!("FUSE mount of calls: {e}"))?;
        let connection_note = note_connection(&root).map_err(|e| format!("note of the FUSE connection: {e}"))?;
        Ok(Calls { state, fuse: Some(fuse), root, connection_note })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn refuse(&self, plan: Option<Plan>) {
        let mut state = lock(&self.state);
        (state.plan, state.seen, state.refused) = (plan, 0, 0);
    }

    /// How many calls were refused since the plan was made.
    pub fn refused(&self) -> usize {
        lock(&self.state).refused
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        if let Some(fuse) = self.fuse.take() {
            let _ = fuse.umount_and_join();
        }
        if let Some(note) = &self.connection_note {
            let _ = fs::remove_file(note);
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no holder panics")
}

impl State {
    /// Whether this call is to fail, and with what.
    fn judge(&mut self, call: Call) -> Result<(), Errno> {
        let Some(plan) = self.plan.filter(|plan| plan.calls.contains(&call)) else { return Ok(()) };
        self.seen += 1;
        if self.seen <= plan.ahead || (plan.once && self.refused > 0) {
            return Ok(());
        }
        self.refused += 1;
        Err(Errno::from_i32(plan.errno))
    }

    fn path(&self, inode: INodeNo) -> Result<PathBuf, Errno> {
        self.paths.get(&inode.0).cloned().ok_or(Errno::ENOENT)
    }

    fn below(&self, parent: INodeNo, name: &OsStr) -> Result<PathBuf, Errno> {
        Ok(self.path(parent)?.join(name))
    }

    fn file(&self, handle: FileHandle) -> Result<Arc<File>, Errno> {
        self.files.get(&handle.0).cloned().ok_or(Errno::EBADF)
    }

    fn keep(&mut self, file: File) -> FileHandle {
        self.handles += 1;
        self.files.insert(self.handles, Arc::new(file));
        FileHandle(self.handles)
    }

    /// The attributes of what is there, remembered by its inode.
    fn look(&mut self, path: PathBuf) -> Result<FileAttr, Errno> {
        let found = attributes(&fs::symlink_metadata(&path).map_err(errno)?, false);
        self.paths.insert(found.ino.0, path);
        Ok(found)
    }

    /// What lies below a directory moves with it.
    fn moved(&mut self, from: &Path, to: &Path) {
        for path in self.paths.values_mut() {
            if let Ok(rest) = path.strip_prefix(from) {
                *path = if rest.as_os_str().is_empty() { to.to_path_buf() } else { to.join(rest) };
            }
        }
    }
}

fn errno(error: io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
}

fn attributes(found: &Metadata, is_root: bool) -> FileAttr {
    let moment = |seconds: i64, nanoseconds: i64| UNIX_EPOCH + Duration::new(seconds as u64, nanoseconds as u32);
    FileAttr {
        ino: INodeNo(if is_root { ROOT } else { found.ino() }),
        size: found.len(),
        blocks: found.blocks(),
        atime: moment(found.atime(), found.atime_nsec()),
        mtime: moment(found.mtime(), found.mtime_nsec()),
        ctime: moment(found.ctime(), found.ctime_nsec()),
        crtime: UNIX_EPOCH,
        kind: if found.is_dir() { FileType::Directory } else { FileType::RegularFile },
        perm: (found.mode() & 0o7777) as u16,
        nlink: found.nlink() as u32,
        uid: found.uid(),
        gid: found.gid(),
        rdev: 0,
        flags: 0,
        blksize: 4096,
    }
}

fn is_for_writing(flags: OpenFlags) -> bool {
    flags.0 & libc::O_ACCMODE != libc::O_RDONLY
}

/// As the program opened it; appending is left to the kernel, which tells the offset of each write.
fn open(path: &Path, flags: OpenFlags, creates: bool) -> io::Result<File> {
    let writes = is_for_writing(flags);
    let truncates = writes && flags.0 & libc::O_TRUNC != 0;
    OpenOptions::new().read(true).write(writes).create(creates).truncate(truncates).open(path)
}

struct Face {
    state: Arc<Mutex<State>>,
}

impl Face {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn attributes_of(&self, inode: INodeNo, handle: Option<FileHandle>) -> Result<FileAttr, Errno> {
        let state = self.state();
        let found = match handle.and_then(|handle| state.file(handle).ok()) {
            Some(file) => file.metadata(),
            None => fs::symlink_metadata(state.path(inode)?),
        };
        Ok(attributes(&found.map_err(errno)?, inode.0 == ROOT))
    }

    fn sync(&self, inode: INodeNo, handle: Option<FileHandle>) -> Result<(), Errno> {
        let (file, path) = {
            let mut state = self.state();
            state.judge(Call::Sync)?;
            (handle.and_then(|handle| state.file(handle).ok()), state.path(inode))
        };
        match file {
            Some(file) => file.sync_all(),
            None => File::open(path?).and_then(|directory| directory.sync_all()),
        }
        .map_err(errno)
    }
}

fn answer(reply: ReplyEmpty, outcome: Result<(), Errno>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Face {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut state = self.state();
        match state.below(parent, name).and_then(|path| state.look(path)) {
            Ok(found) => reply.entry(&NO_CACHE, &found, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes_of(inode, handle) {
            Ok(found) => reply.attr(&NO_CACHE, &found),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let resize = |size| {
            let mut state = self.state();
            state.judge(Call::Allocate)?;
            match handle.and_then(|handle| state.file(handle).ok()) {
                Some(file) => file.set_len(size).map_err(errno),
                None => {
                    let file = OpenOptions::new().write(true).open(state.path(inode)?).map_err(errno)?;
                    file.set_len(size).map_err(errno)
                }
            }
        };
        match size.map_or(Ok(()), resize).and_then(|()| self.attributes_of(inode, handle)) {
            Ok(found) => reply.attr(&NO_CACHE, &found),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let mut state = self.state();
        let made = state.judge(Call::Name).and_then(|()| state.below(parent, name)).and_then(|path| {
            fs::create_dir(&path).map_err(errno)?;
            state.look(path)
        });
        match made {
            Ok(found) => reply.entry(&NO_CACHE, &found, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.state();
        let outcome = state.judge(Call::Name).and_then(|()| state.below(parent, name));
        answer(reply, outcome.and_then(|path| fs::remove_file(path).map_err(errno)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.state();
        let outcome = state.judge(Call::Name).and_then(|()| state.below(parent, name));
        answer(reply, outcome.and_then(|path| fs::remove_dir(path).map_err(errno)));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL); // a file system may be without them
        }
        let mut state = self.state();
        let outcome = state.judge(Call::Name).and_then(|()| {
            let (from, to) = (state.below(parent, name)?, state.below(new_parent, new_name)?);
            fs::rename(&from, &to).map_err(errno)?;
            state.moved(&from, &to);
            Ok(())
        });
        answer(reply, outcome);
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mut state = self.state();
        let allowed = state.judge(Call::Open);
        let allowed = if is_for_writing(flags) { allowed.and_then(|()| state.judge(Call::Name)) } else { allowed };
        let opened = allowed.and_then(|()| open(&state.path(inode)?, flags, false).map_err(errno));
        match opened {
            Ok(file) => reply.opened(state.keep(file), FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(error),
        }
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, flags: i32, reply: ReplyCreate) {
        let mut state = self.state();
        let made = state.judge(Call::Open).and_then(|()| state.judge(Call::Name)).and_then(|()| {
            let path = state.below(parent, name)?;
            let file = open(&path, OpenFlags(flags), true).map_err(errno)?;
            Ok((state.look(path)?, state.keep(file)))
        });
        match made {
            Ok((found, handle)) => reply.created(&NO_CACHE, &found, Generation(0), handle, FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = {
            let mut state = self.state();
            state.judge(Call::Read).and_then(|()| state.file(handle))
        };
        let read = file.and_then(|file| {
            let mut bytes = vec![0; size as usize];
            let mut got = 0;
            while got < bytes.len() {
                match file.read_at(&mut bytes[got..], offset + got as u64).map_err(errno)? {
                    0 => break,
                    n => got += n,
                }
            }
            bytes.truncate(got);
            Ok(bytes)
        });
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let file = {
            let mut state = self.state();
            state.judge(Call::Write).and_then(|()| state.file(handle))
        };
        match file.and_then(|file| file.write_all_at(data, offset).map_err(errno)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.state().files.remove(&handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, inode: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.sync(inode, Some(handle)));
    }

    fn fsyncdir(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.sync(inode, None));
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let file = {
            let mut state = self.state();
            state.judge(Call::Allocate).and_then(|()| state.file(handle))
        };
        answer(
            reply,
            file.and_then(|file| {
                // SAFETY: the descriptor is open for the length of the call, which takes no pointer.
                match unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as i64, length as i64) } {
                    0 => Ok(()),
                    _ => Err(errno(io::Error::last_os_error())),
                }
            }),
        );
    }

    fn readdir(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let list = || -> io::Result<Vec<(u64, FileType, std::ffi::OsString)>> {
            let path = self.state().path(inode).map_err(|_| io::Error::from_raw_os_error(libc::ENOENT))?;
            let mut entries = Vec::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                let found = entry.metadata()?;
                let kind = if found.is_dir() { FileType::Directory } else { FileType::RegularFile };
                entries.push((found.ino(), kind, entry.file_name()));
            }
            entries.sort_by(|a, b| a.2.cmp(&b.2));
            Ok(entries)
        };
        match list() {
            Ok(entries) => {
                for (index, (inode, kind, name)) in entries.into_iter().enumerate().skip(offset as usize) {
                    if reply.add(INodeNo(inode), index as u64 + 1, kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    /// Room enough: a plan says when there is none.
    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = 1 << 24;
        reply.statfs(blocks, blocks / 2, blocks / 2, blocks, blocks / 2, 4096, 255, 4096);
    }
}

#[cfg(test)]
mod tests;
