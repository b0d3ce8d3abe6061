//! Set Properties and Set Metadata, of files and of directories.

use contract::names::Metadata;
use contract::operations::Effect;
use contract::{ErrorCode, Refusal};
use engine::{Fault, PartitionId, Write};
use env::Timestamp;

use super::body::{self, Met};
use super::create::Made;
use super::range::refuse_pending;
use super::settings::{Known, Settings, refuse_read_only, stamp};
use super::target::{Around, Target, access};
use super::versions::Edit;
use crate::execute::{Command, Moment, Reader};
use crate::record::blob::ContentProperties;

/// What is set. What is `None` stays.
#[derive(Clone, Debug, Default)]
pub struct Change {
    pub settings: Settings,
    /// Replaced as a whole.
    pub properties: Option<ContentProperties>,
    pub metadata: Option<Metadata>,
    /// Of a file.
    pub bytes: Option<u64>,
}

pub struct ChangeNode {
    pub target: Target,
    pub change: Change,
}

impl Command for ChangeNode {
    type Records = (Around, Known, Option<Vec<Met>>);
    type Outcome = Made;

    fn partition(&self) -> &PartitionId {
        self.target.partition()
    }

    async fn load(&self, reader: &Reader<'_>) -> Result<Self::Records, Fault> {
        let around = match self.change.bytes {
            Some(_) => self.target.load_as(reader, |node| access(Effect::Alters, node)).await?,
            None => self.target.load(reader).await?,
        };
        let known = self.change.settings.load(reader, None).await?;
        let cut = match (around.place.node(), self.change.bytes) {
            (Some(node), Some(new)) => body::beyond(reader, &around.state, node, new).await?,
            _ => None,
        };
        Ok((around, known, cut))
    }

    fn check(&self, (around, known, _): &Self::Records, now: Timestamp) -> Result<(), Refusal> {
        let node = &self.target.judge(around, now)?.node;
        // Attributes can be set on what is read-only: how else would it cease to be?
        if self.change.settings.attributes.is_none() {
            refuse_read_only(node)?;
        }
        refuse_pending(node)?;
        if let Some(new) = self.change.bytes {
            self.target.resized(&around.state, node.bytes(), new)?;
        }
        self.change.settings.check(known)
    }

    fn decide(&self, records: Self::Records, moment: Moment) -> Result<(Vec<Write>, Made), Refusal> {
        self.check(&records, moment.now)?;
        let (Around { state, place, .. }, _, cut) = records;
        let found = place.found().ok_or(ErrorCode::ResourceNotFound)?;
        let mut node = found.node.clone();
        let mut edit = Edit::new(&state);
        if let Some(new) = self.change.bytes.filter(|new| !node.is_directory() && node.bytes() != *new) {
            edit.put_state(&self.target.resized(&state, node.bytes(), new)?);
            edit.resize(&mut node, new, cut, moment.tick);
            node.written = moment.now;
        }
        if let Some(properties) = &self.change.properties {
            node.properties = properties.clone();
        }
        match &self.change.metadata {
            Some(metadata) => node.metadata = metadata.clone(),
            // Whose properties are set is known as a copy no longer.
            None => node.copy = None,
        }
        self.change.settings.apply_to_old(&mut node, moment.now, &mut edit);
        stamp(&mut node, moment);
        edit.change(&found, &node);
        Ok((edit.finish(), Made { node, above: found.above }))
    }
}
