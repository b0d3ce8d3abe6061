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

#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    None,
    /// If-None-Match: *
    Absent,
    /// If-Match
    Is(String),
}

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

/// One connection's view of the program under test. Errors of reads are in words.
pub trait Store: Send {
    fn create_container(&mut self, container: &str) -> Answer;
    fn delete_container(&mut self, container: &str) -> Answer;
    fn put(&mut self, container: &str, name: &str, operation: usize, body: &[u8], condition: &Condition) -> Answer;
    fn delete(&mut self, container: &str, name: &str, condition: &Condition) -> Answer;
    fn get(&mut self, container: &str, name: &str) -> Result<Option<Found>, String>;
    fn list_containers(&mut self) -> Result<Vec<Listed>, String>;
    fn list(&mut self, container: &str) -> Result<Vec<Listed>, String>;
}
