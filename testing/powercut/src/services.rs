//! All services of the server behind one face; the name of a container says whose it is.

use crate::blobs::Blobs;
use crate::files::Files;
use crate::objects::Objects;
use crate::queues::Queues;
use crate::store::{Answer, Condition, Found, Listed, Member, Received, Store};
use crate::tables::Tables;

pub struct Services {
    blobs: Blobs,
    queues: Queues,
    tables: Tables,
    files: Files,
    objects: Objects,
}

impl Services {
    pub fn new([blobs, queues, tables, files]: [u16; 4]) -> Services {
        Services {
            blobs: Blobs::new(blobs),
            queues: Queues::new(queues),
            tables: Tables::new(tables),
            files: Files::new(files),
            objects: Objects::new(blobs, files),
        }
    }

    fn of(&mut self, container: &str) -> &mut dyn Store {
        if container.starts_with("queue") {
            &mut self.queues
        } else if container.starts_with("table") {
            &mut self.tables
        } else if container.starts_with("share-") {
            &mut self.files
        } else if Objects::holds(container) {
            &mut self.objects
        } else {
            &mut self.blobs
        }
    }
}

impl Store for Services {
    fn create_container(&mut self, container: &str) -> Answer {
        self.of(container).create_container(container)
    }

    fn delete_container(&mut self, container: &str) -> Answer {
        self.of(container).delete_container(container)
    }

    fn put(&mut self, container: &str, name: &str, operation: usize, body: &[u8], condition: &Condition) -> Answer {
        self.of(container).put(container, name, operation, body, condition)
    }

    fn delete(&mut self, container: &str, name: &str, condition: &Condition) -> Answer {
        self.of(container).delete(container, name, condition)
    }

    fn get(&mut self, container: &str, name: &str) -> Result<Option<Found>, String> {
        self.of(container).get(container, name)
    }

    fn list_containers(&mut self) -> Result<Vec<Listed>, String> {
        let mut listed = self.blobs.list_containers()?;
        listed.extend(self.queues.list_containers()?);
        listed.extend(self.tables.list_containers()?);
        listed.extend(self.files.list_containers()?);
        listed.retain(|container| !Objects::is_box(&container.name));
        listed.extend(self.objects.list_containers()?);
        Ok(listed)
    }

    fn list(&mut self, container: &str) -> Result<Vec<Listed>, String> {
        self.of(container).list(container)
    }

    fn receive(&mut self, queue: &str) -> Result<Vec<Received>, String> {
        self.queues.receive(queue)
    }

    fn put_all(&mut self, table: &str, members: &[Member]) -> Option<Result<Vec<String>, Answer>> {
        self.tables.put_all(table, members)
    }

    fn snapshot(&mut self, container: &str, name: &str) -> Option<Result<String, Answer>> {
        self.of(container).snapshot(container, name)
    }
}
