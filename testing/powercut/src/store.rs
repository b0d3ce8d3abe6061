//! What the workload asks of a program under test, and what it may answer.

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Done {
        etag: String,
    },
    /// A definite no (4xx): nothing was changed.
    Refused {
        status: u16,
        code: String,
    },
    /// The server says that it failed (5xx): the effect is unknown, but must be old or new.
    Failed {
        status: u16,
        code: String,
    },
    /// No answer: the connection broke or the time ran out.
    Broken(String),
}

impl Answer {
    pub fn no(status: u16, code: String) -> Answer {
        if status < 500 { Answer::Refused { status, code } } else { Answer::Failed { status, code } }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    None,
    /// If-None-Match: *
    Absent,
    /// If-Match
    Is(String),
}

#[derive(Clone, Debug)]
pub struct Found {
    pub etag: String,
    /// The operation that wrote it, as the metadata says.
    pub operation: Option<usize>,
    pub body: Vec<u8>,
}

pub struct Listed {
    pub name: String,
    pub etag: String,
    pub bytes: Option<u64>,
}

/// A message that is hidden from others for a while.
pub struct Received {
    pub name: String,
    pub found: Found,
    /// With this it can be deleted, by `Condition::Is`.
    pub receipt: String,
}

/// One member of a transaction.
pub struct Member<'a> {
    pub name: &'a str,
    pub operation: usize,
    pub body: &'a [u8],
    pub condition: Condition,
}

/// A snapshot's name: that of what it is of, and its moment.
pub fn snapshot_of(name: &str, moment: &str) -> String {
    format!("{name}@{moment}")
}

/// Both parts of it; nothing for a name that is no snapshot's.
pub fn snapshot_parts(name: &str) -> Option<(&str, &str)> {
    name.split_once('@')
}

/// One connection's view of the program under test. Errors of reads are in words.
///
/// Queues, tables and shares are containers whose names begin with `queue`, `table` and `share`: a message, an entity or a file
/// is a name with a body like any other, a message's id is its ETag, and one judge judges them all. So are page blobs, append
/// blobs and files that are written piece by piece (`objects`).
pub trait Store: Send {
    fn create_container(&mut self, container: &str) -> Answer;
    fn delete_container(&mut self, container: &str) -> Answer;
    fn put(&mut self, container: &str, name: &str, operation: usize, body: &[u8], condition: &Condition) -> Answer;
    fn delete(&mut self, container: &str, name: &str, condition: &Condition) -> Answer;
    fn get(&mut self, container: &str, name: &str) -> Result<Option<Found>, String>;
    fn list_containers(&mut self) -> Result<Vec<Listed>, String>;
    fn list(&mut self, container: &str) -> Result<Vec<Listed>, String>;

    /// Some messages of a queue.
    fn receive(&mut self, queue: &str) -> Result<Vec<Received>, String> {
        let mut received = Vec::new();
        for listed in self.list(queue)?.into_iter().take(2) {
            if let Some(found) = self.get(queue, &listed.name)? {
                received.push(Received { name: listed.name, receipt: found.etag.clone(), found });
            }
        }
        Ok(received)
    }

    /// Puts all of them or none, and gives their ETags; nothing from a store that has no transactions.
    fn put_all(&mut self, _table: &str, _members: &[Member]) -> Option<Result<Vec<String>, Answer>> {
        None
    }

    /// Takes a snapshot and gives its moment; nothing from a store that has no snapshots.
    fn snapshot(&mut self, _container: &str, _name: &str) -> Option<Result<String, Answer>> {
        None
    }
}
