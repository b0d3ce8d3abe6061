//! Tables: every entity can be read, under keys that are text.

use engine::{Fault, GroupId};

use super::Audit;
use super::cursor::Cursor;
use crate::key::table;
use crate::record::StoredEntity;

impl Audit<'_> {
    pub(super) fn table(&mut self, group: &GroupId) -> Result<(), Fault> {
        self.counted.tables += 1;
        let mut entities = Cursor::new(self.records, group, table::ENTITY);
        while let Some(row) = entities.next()? {
            self.counted.entities += 1;
            self.to.progress(&self.counted);
            if std::str::from_utf8(&row.partition).is_err() || std::str::from_utf8(&row.key).is_err() {
                self.tell(group, Some(&row.partition), "the keys of an entity are no text".to_owned());
            }
            if let Err(fault) = StoredEntity::decode(row.record.value) {
                let words = format!("RowKey '{}': {fault}", String::from_utf8_lossy(&row.key));
                self.tell(group, Some(&row.partition), words);
            }
        }
        Ok(())
    }
}
