//! The commands of SMB2, one row each: what a request must bring with it before anybody looks at it.

/// MS-SMB2 2.2.1.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Command {
    Negotiate = 0,
    SessionSetup = 1,
    Logoff = 2,
    TreeConnect = 3,
    TreeDisconnect = 4,
    Create = 5,
    Close = 6,
    Flush = 7,
    Read = 8,
    Write = 9,
    Lock = 10,
    Ioctl = 11,
    Cancel = 12,
    Echo = 13,
    QueryDirectory = 14,
    ChangeNotify = 15,
    QueryInfo = 16,
    SetInfo = 17,
    OplockBreak = 18,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    pub command: Command,
    pub needs_session: bool,
    pub needs_tree: bool,
    /// Where in the message the open it is about is named.
    pub file_at: Option<usize>,
    /// It may wait for others, and be cancelled.
    pub may_pend: bool,
    /// What it is answered may be as much as its credits pay for.
    pub answers_much: bool,
    /// It changes something: on an open that survives its connection it may not come late (MS-SMB2 3.3.5.2.10).
    pub changes: bool,
}

const HEADER: usize = crate::wire::header::HEADER_BYTES;

const fn row(command: Command, needs_session: bool, needs_tree: bool) -> Row {
    Row { command, needs_session, needs_tree, file_at: None, may_pend: false, answers_much: false, changes: false }
}

const fn on_file(command: Command, at: usize) -> Row {
    Row { file_at: Some(HEADER + at), ..row(command, true, true) }
}

/// In the order of their numbers.
pub static ROWS: [Row; 19] = [
    row(Command::Negotiate, false, false),
    row(Command::SessionSetup, false, false),
    row(Command::Logoff, true, false),
    row(Command::TreeConnect, true, false),
    row(Command::TreeDisconnect, true, true),
    Row { may_pend: true, ..row(Command::Create, true, true) },
    on_file(Command::Close, 8),
    on_file(Command::Flush, 8),
    Row { answers_much: true, ..on_file(Command::Read, 16) },
    Row { changes: true, ..on_file(Command::Write, 16) },
    Row { may_pend: true, ..on_file(Command::Lock, 8) },
    // Some of its codes are about no file: its handler looks itself.
    Row { answers_much: true, changes: true, may_pend: true, ..row(Command::Ioctl, true, true) },
    row(Command::Cancel, false, false),
    row(Command::Echo, false, false),
    Row { answers_much: true, ..on_file(Command::QueryDirectory, 8) },
    Row { may_pend: true, ..on_file(Command::ChangeNotify, 8) },
    Row { answers_much: true, ..on_file(Command::QueryInfo, 24) },
    Row { may_pend: true, changes: true, ..on_file(Command::SetInfo, 16) },
    // Names an oplock's open or a lease.
    row(Command::OplockBreak, true, false),
];

impl Row {
    /// What nobody knows is refused like what does not belong where it is.
    pub fn of(command: u16) -> &'static Row {
        ROWS.get(command as usize).unwrap_or(&ROWS[Command::Cancel as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_under_its_number() {
        for (number, row) in ROWS.iter().enumerate() {
            assert_eq!(row.command as usize, number);
            assert!(!row.needs_tree || row.needs_session, "{:?}", row.command);
            assert!(row.file_at.is_none() || row.needs_tree, "{:?}", row.command);
        }
        assert_eq!(Row::of(19).command, Command::Cancel);
    }
}
