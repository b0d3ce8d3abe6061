//! Copy File of a source on this server: extents are named, holes stay holes, and the copy is there at once.
//!
//! A source in many runs is put together a bounded number of them at a time, as content that no file has yet; the last commit makes it the
//! file's. What is put together and never becomes a file's is swept: at once if the copy fails, by housekeeping if the server stopped.
//!
//! A file that is copied over itself keeps its content, so that nobody's write falls between reading and writing it.

use bytes::Bytes;
use contract::attributes::FileAttributes;
use contract::names::{AccountName, Metadata};
use contract::{ErrorCode, Refusal};
use engine::{BoxFuture, Family, Fault, GroupId, PartitionId, Write};
use env::Timestamp;

use super::body::body_key;
use super::create::{Made, NewFile, Site};
use super::security::SecurityDescriptor;
use super::settings::{Permission, Settings, When};
use super::tree;
use super::versions::Edit;
use crate::content::{Content, ContentReader, Stretch};
use crate::copying::of_source;
use crate::execute::{Command, Failure, Moment, Patience, Reader, Shell, patiently};
use crate::housekeeping::RowChore;
use crate::key::share;
use crate::record::blob::{ContentProperties, CopyState};
use crate::record::{FileId, Node, NodeKind, ShareState, corrupt};

/// Runs put together in one commit.
const RUNS_MAX: usize = 256;
/// Content that nobody added to for so long will be no file's.
const STAGED_SECONDS_MAX: u64 = 24 * 3600;

/// What a copy takes of the file it is a copy of, instead of what is usual or given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Inherited {
    pub attributes: bool,
    pub created: bool,
    pub written: bool,
    pub changed: bool,
    pub permission: bool,
    /// And group.
    pub owner: bool,
    pub mode: bool,
}

/// What is said of a copy beside its content.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CopySettings {
    pub given: Settings,
    pub inherited: Inherited,
    /// Whatever else is said of attributes.
    pub sets_archive: bool,
}

impl CopySettings {
    /// As they are for a copy of this file. Its permission need not be known unless it is to be the copy's.
    pub fn of(mut self, source: &Node, permission: Option<SecurityDescriptor>) -> CopySettings {
        let (given, inherited) = (&mut self.given, self.inherited);
        if inherited.attributes {
            given.attributes = Some(source.attributes);
        }
        for (is_inherited, time, theirs) in [
            (inherited.created, &mut given.created, source.created),
            (inherited.written, &mut given.written, source.written),
            (inherited.changed, &mut given.changed, source.changed),
        ] {
            if is_inherited {
                *time = When::At(theirs);
            }
        }
        if let Some(permission) = permission.filter(|_| inherited.permission) {
            given.permission = Permission::Given(permission);
        }
        if let Some(posix) = source.posix {
            if inherited.owner {
                (given.owner, given.group) = (Some(posix.owner), Some(posix.group));
            }
            if inherited.mode {
                given.mode = Some(posix.mode);
            }
        }
        self
    }

    pub fn settings(self) -> Settings {
        let archive = |attributes: FileAttributes| match self.sets_archive {
            true => attributes.with(FileAttributes::ARCHIVE),
            false => attributes,
        };
        Settings { attributes: self.given.attributes.map(archive), ..self.given }
    }
}

/// A source of this server, being read.
pub struct Source {
    pub reader: ContentReader,
    pub bytes: u64,
    pub properties: ContentProperties,
    pub metadata: Metadata,
    /// If it is a file as it is now: its share and its id.
    pub file: Option<(GroupId, FileId)>,
}

pub struct CopyFile {
    file: NewFile,
    /// If it is not the source's.
    metadata: Option<Metadata>,
    /// As it is shown.
    shown: String,
    from: From,
}

enum From {
    /// The file that is copied to.
    Itself(FileId),
    Elsewhere(Box<Taken>),
}

struct Taken {
    bytes: u64,
    properties: ContentProperties,
    metadata: Metadata,
    /// The last of its runs, each with its offset.
    runs: Vec<(u64, Content)>,
    /// The content in which the others are.
    staged: Option<u64>,
}

/// Copies a source to a file.
pub async fn copy(
    shell: &Shell,
    file: NewFile,
    metadata: Option<Metadata>,
    shown: String,
    source: Source,
    patience: &dyn Patience,
) -> Result<Made, Failure> {
    let Source { mut reader, bytes, properties, metadata: theirs, file: source } = source;
    let itself = source.filter(|(group, _)| group == file.target.group()).map(|(_, id)| id);
    let mut command = match itself {
        Some(id) if there(shell, &file).await? == Some(id) => {
            CopyFile { file, metadata, shown, from: From::Itself(id) }
        }
        _ => {
            let taken = Taken { bytes, properties, metadata: theirs, runs: Vec::new(), staged: None };
            CopyFile { file, metadata, shown, from: From::Elsewhere(Box::new(taken)) }
        }
    };
    patiently(patience, || shell.admit(&command)).await?;
    let done = async {
        if let From::Elsewhere(taken) = &mut command.from {
            taken.put_together(shell, command.file.target.partition(), &mut reader).await?;
        }
        patiently(patience, || shell.execute(&command)).await
    };
    let done = done.await;
    if let (Err(_), Some(body)) = (&done, command.staged()) {
        let abandon = Abandon { partition: command.file.target.partition().clone(), body, only_due: false };
        // Whatever becomes of this: housekeeping looks after it again.
        let _ = shell.execute(&abandon).await;
    }
    done
}

/// What is at the destination already.
async fn there(shell: &Shell, NewFile { target, .. }: &NewFile) -> Result<Option<FileId>, Failure> {
    let find = || async {
        let view = shell.engine.view(target.partition()).await?;
        tree::find(&Reader::committed(view.as_ref()), target.share(), &target.path).await
    };
    let place = shell.steadily(target.partition(), find).await?;
    Ok(place.node().map(|node| node.id))
}

impl Taken {
    /// Reads the source to its end; all runs but the last ones are content by then.
    async fn put_together(
        &mut self,
        shell: &Shell,
        partition: &PartitionId,
        reader: &mut ContentReader,
    ) -> Result<(), Failure> {
        let mut offset = 0;
        while let Some(Stretch { zeros, content }) = reader.next_stretch(1).await? {
            if self.runs.len() == RUNS_MAX {
                let runs = std::mem::take(&mut self.runs);
                let stage = Stage { partition: partition.clone(), body: self.staged, runs };
                self.staged = Some(shell.execute(&stage).await?);
            }
            let begin = offset + zeros;
            offset = begin + content.bytes();
            self.runs.push((begin, content));
        }
        Ok(())
    }
}

impl CopyFile {
    /// What was put together already.
    fn staged(&self) -> Option<u64> {
        match &self.from {
            From::Elsewhere(taken) => taken.staged,
            From::Itself(_) => None,
        }
    }

    /// What the copy is made of: size, properties, metadata.
    fn source<'a>(&'a self, site: &'a Site) -> Result<(u64, &'a ContentProperties, &'a Metadata), Refusal> {
        match (&self.from, site.around.place.node()) {
            (From::Elsewhere(taken), _) => Ok((taken.bytes, &taken.properties, &taken.metadata)),
            (From::Itself(id), Some(node)) if node.id == *id => Ok((node.bytes(), &node.properties, &node.metadata)),
            (From::Itself(_), _) => Err(of_source(&ErrorCode::ResourceNotFound.into())),
        }
    }
}

impl Command for CopyFile {
    /// And whether what was put together is there.
    type Records = (Site, bool);
    type Outcome = Made;

    fn partition(&self) -> &PartitionId {
        self.file.target.partition()
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let is_there = match self.staged() {
            Some(body) => touched(reader, body).await?.is_some(),
            None => true,
        };
        Ok((self.file.load(reader).await?, is_there))
    }

    fn check(&self, (site, is_there): &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        let (bytes, ..) = self.source(site)?;
        self.file.check(site, bytes, now)?;
        match is_there {
            true => Ok(()),
            false => Err(ErrorCode::OperationTimedOut.into()),
        }
    }

    fn decide(&self, records: Self::Records, moment: Moment) -> Result<(Vec<Write>, Made), Refusal> {
        self.check(&records, moment.now)?;
        let (site, _) = records;
        let (bytes, properties, metadata) = self.source(&site)?;
        let (properties, metadata) = (properties.clone(), self.metadata.as_ref().unwrap_or(metadata).clone());
        let kept = site.around.place.node().map(|node| node.kind.clone());
        self.file.make(site, moment, |node, edit| {
            (node.properties, node.metadata) = (properties, metadata);
            node.copy = Some(CopyState::success(moment.id, self.shown.clone(), bytes, moment.now));
            match (&self.from, kept) {
                (From::Itself(_), Some(kept)) => node.kind = kept,
                (From::Itself(_), None) => {}
                (From::Elsewhere(taken), _) => {
                    let body = taken.staged.unwrap_or(moment.tick);
                    node.kind = NodeKind::File { bytes, body };
                    taken.runs.iter().for_each(|(begin, content)| edit.write_content(body, *begin, content));
                    if taken.staged.is_some() {
                        edit.delete_plain(share::STAGED, body_key(body));
                    }
                }
            }
        })
    }
}

/// When content that is no file's yet was added to last; `None` if there is no such content.
async fn touched(reader: &Reader<'_>, body: u64) -> Result<Option<Timestamp>, Fault> {
    let record = reader.get(share::STAGED, &body_key(body)).await?;
    record.map(|record| read_touched(&record.value)).transpose()
}

fn read_touched(value: &[u8]) -> Result<Timestamp, Fault> {
    let ticks = value.try_into().map_err(|_| corrupt("the age of content", value))?;
    Ok(Timestamp::from_ticks(u64::from_be_bytes(ticks)))
}

fn is_due(touched: Timestamp, now: Timestamp) -> bool {
    now >= touched.plus_seconds(STAGED_SECONDS_MAX)
}

/// Puts runs where a file's content is being put together.
struct Stage {
    partition: PartitionId,
    /// `None` begins it.
    body: Option<u64>,
    runs: Vec<(u64, Content)>,
}

impl Command for Stage {
    type Records = (ShareState, bool);
    /// What names the content.
    type Outcome = u64;

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let is_there = match self.body {
            Some(body) => touched(reader, body).await?.is_some(),
            None => true,
        };
        Ok((tree::state(reader).await?, is_there))
    }

    fn check(&self, (_, is_there): &Self::Records, _now: Timestamp) -> Result<(), Refusal> {
        match is_there {
            true => Ok(()),
            false => Err(ErrorCode::OperationTimedOut.into()),
        }
    }

    fn decide(&self, records: Self::Records, moment: Moment) -> Result<(Vec<Write>, u64), Refusal> {
        self.check(&records, moment.now)?;
        let (state, _) = records;
        let mut edit = Edit::new(&state);
        let body = self.body.unwrap_or(moment.tick);
        self.runs.iter().for_each(|(begin, content)| edit.write_content(body, *begin, content));
        let now = Bytes::copy_from_slice(&moment.now.ticks().to_be_bytes());
        edit.put_plain(share::STAGED, body_key(body), now);
        Ok((edit.finish(), body))
    }
}

/// Leaves content that will be no file's to be swept.
struct Abandon {
    partition: PartitionId,
    body: u64,
    /// Only if nobody adds to it any more.
    only_due: bool,
}

impl Command for Abandon {
    type Records = (ShareState, Option<Timestamp>);
    type Outcome = ();

    fn partition(&self) -> &PartitionId {
        &self.partition
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        Ok((tree::state(reader).await?, touched(reader, self.body).await?))
    }

    fn check(&self, (_, touched): &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        match touched {
            Some(touched) if !self.only_due || is_due(*touched, now) => Ok(()),
            _ => Err(ErrorCode::ResourceNotFound.into()),
        }
    }

    fn decide(&self, records: Self::Records, moment: Moment) -> Result<(Vec<Write>, ()), Refusal> {
        self.check(&records, moment.now)?;
        let (state, _) = records;
        let mut edit = Edit::new(&state);
        edit.delete_plain(share::STAGED, body_key(self.body));
        edit.orphan(self.body);
        Ok((edit.finish(), ()))
    }
}

/// Content that was being put together when the server stopped.
pub(crate) struct StagedContents;

impl RowChore for StagedContents {
    fn family(&self) -> Family {
        share::STAGED
    }

    fn is_due(&self, _key: &[u8], value: &[u8], now: Timestamp) -> Result<bool, Fault> {
        Ok(is_due(read_touched(value)?, now))
    }

    fn clear<'a>(
        &'a self,
        shell: &'a Shell,
        _account: &'a AccountName,
        partition: &'a PartitionId,
        key: &'a Bytes,
    ) -> BoxFuture<'a, Result<bool, Failure>> {
        Box::pin(async move {
            let body = key.as_ref().try_into().map_err(|_| corrupt("the name of content", key))?;
            let abandon = Abandon { partition: partition.clone(), body: u64::from_be_bytes(body), only_due: true };
            shell.execute(&abandon).await.map(|()| false)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use engine::memory::MemoryEngine;
    use engine::{Engine, KeyRange};
    use env::{Id, ScriptedClock, ScriptedIds};

    use super::*;
    use crate::file::security::default_descriptor;
    use crate::key;
    use crate::record::node::Posix;

    fn source(posix: Option<Posix>) -> Node {
        let moment = Timestamp::from_ticks;
        Node {
            id: FileId(1),
            kind: NodeKind::File { bytes: 1, body: 2 },
            etag: crate::etag::ETag(3),
            last_modified: moment(4),
            attributes: FileAttributes::READ_ONLY,
            created: moment(5),
            written: moment(6),
            changed: moment(7),
            accessed: None,
            permission: None,
            properties: ContentProperties::default(),
            metadata: Metadata::default(),
            lease: None,
            copy: None,
            posix,
        }
    }

    #[test]
    fn what_is_inherited_is_the_sources_and_nothing_else_is() {
        let at = |ticks| When::At(Timestamp::from_ticks(ticks));
        let posix = Posix { owner: 8, group: 9, mode: 0o600, links: 2 };
        let given = Settings {
            attributes: Some(FileAttributes::NONE),
            created: at(15),
            written: When::Now,
            mode: Some(0o777),
            ..Settings::default()
        };
        let permission = Permission::Given(default_descriptor().clone());
        type Case = (fn(&mut Inherited), fn(&mut Settings));
        let cases: [Case; 7] = [
            (|inherited| inherited.attributes = true, |settings| settings.attributes = Some(FileAttributes::READ_ONLY)),
            (|inherited| inherited.created = true, |settings| settings.created = When::At(Timestamp::from_ticks(5))),
            (|inherited| inherited.written = true, |settings| settings.written = When::At(Timestamp::from_ticks(6))),
            (|inherited| inherited.changed = true, |settings| settings.changed = When::At(Timestamp::from_ticks(7))),
            (|inherited| inherited.owner = true, |settings| (settings.owner, settings.group) = (Some(8), Some(9))),
            (|inherited| inherited.mode = true, |settings| settings.mode = Some(0o600)),
            (|_| {}, |_| {}),
        ];
        for (ask, expect) in cases {
            let mut copying = CopySettings { given: given.clone(), ..CopySettings::default() };
            let mut expected = given.clone();
            ask(&mut copying.inherited);
            expect(&mut expected);
            let settings = copying.clone().of(&source(Some(posix)), Some(default_descriptor().clone())).settings();
            assert_eq!(settings, expected, "{:?}", copying.inherited);
        }
        let inherited = Inherited { permission: true, ..Inherited::default() };
        let copying = CopySettings { given: given.clone(), inherited, sets_archive: true };
        let settings = copying.of(&source(None), Some(default_descriptor().clone())).settings();
        let attributes = Some(FileAttributes::NONE.with(FileAttributes::ARCHIVE));
        assert_eq!(settings, Settings { permission, attributes, ..given });
    }

    /// Content that is no file's goes when nobody adds to it any more, and not before.
    #[tokio::test]
    async fn what_is_put_together_is_swept_when_it_is_left_alone() {
        let clock = Arc::new(ScriptedClock::at(Timestamp::from_ticks(1 << 60)));
        let engine = Arc::new(MemoryEngine::new());
        let shell = Shell::open(engine.clone(), clock.clone(), Arc::new(ScriptedIds::default())).await.expect("opens");
        let account = AccountName::parse("abc").expect("a name");
        let partition = key::tree_partition(&key::contents_group(contract::Service::File, &account, Id(1)));
        let runs = || vec![(7, Content::Inline(Bytes::from_static(b"run")))];
        let stage = |body, runs| Stage { partition: partition.clone(), body, runs };
        let body = shell.execute(&stage(None, runs())).await.expect("staged");
        clock.advance_seconds(STAGED_SECONDS_MAX - 1);
        assert_eq!(shell.execute(&stage(Some(body), Vec::new())).await.expect("staged"), body);
        let count = async |family| {
            let all = KeyRange { start: std::ops::Bound::Unbounded, end: std::ops::Bound::Unbounded };
            engine.view(&partition).await.expect("a view").scan(family, &all, 100).await.expect("readable").len()
        };
        let mut swept = Vec::new();
        for seconds in [1, STAGED_SECONDS_MAX - 2, 1, 0] {
            clock.advance_seconds(seconds);
            let key = body_key(body);
            let cleared = StagedContents.clear(&shell, &account, &partition, &key).await;
            swept.push((cleared.is_ok(), count(share::STAGED).await, count(share::ORPHAN).await));
        }
        assert_eq!(swept, [(false, 1, 0), (false, 1, 0), (true, 0, 1), (false, 0, 1)]);
        assert_eq!(count(share::RUN).await, 1);
        // Too late to add to it.
        assert!(matches!(shell.execute(&stage(Some(body), runs())).await, Err(Failure::Refused(_))));
    }
}
