//! What a seed means: every run has its own mixture. Some are calm and crowded, some crash all the time, some never read; what one
//! mixture hides another one shows.

use env::TICKS_PER_SECOND;

use super::chance::Chance;
use super::containers::workload::KINDS;
use super::faulty::Faults;

/// What clients can be busy with, in the order of `Plan::subjects`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    Containers,
    Blobs,
    Queue,
    Table,
    Share,
}

impl Subject {
    pub const ALL: [Subject; SUBJECTS] =
        [Subject::Containers, Subject::Blobs, Subject::Queue, Subject::Table, Subject::Share];
}

const SUBJECTS: usize = 5;

#[derive(Clone, Debug)]
pub struct Plan {
    pub clients: usize,
    pub gateways: usize,
    /// Those who come over SMB, where one gateway has all the open files.
    pub smb_clients: usize,
    /// How much fits into a connection before its writer must wait.
    pub pipe_bytes: usize,
    pub faults: Faults,
    /// Crashes, on the average of so many steps.
    pub crash_every_steps: Option<u64>,
    pub clock_jumps_every_steps: Option<u64>,
    /// How many clients of a thousand leave before they are answered, or in the middle of their body.
    pub leaves: u32,
    pub cuts: u32,
    /// How many puts of a thousand ask before they send.
    pub asks_first: u32,
    /// How many bodies of a thousand are too long for a record.
    pub long_bodies: u32,
    /// How often each is what they are busy with.
    pub subjects: [u32; SUBJECTS],
    /// How far a clock goes at most from one deed to the next.
    pub ticks_per_deed: u64,
    /// How often each kind of deed on containers is done.
    pub weights: [u32; KINDS],
    /// The run ends with a crash instead of a quiet close.
    pub ends_with_crash: bool,
}

impl Plan {
    pub fn from(chance: &mut Chance) -> Plan {
        let faults = Self::faults(chance);
        let gateways = *chance.pick(&[1, 1, 1, 2, 2, 3]);
        Plan {
            clients: chance.between(2, 8) as usize,
            gateways,
            smb_clients: if gateways == 1 { *chance.pick(&[0, 1, 2, 3]) } else { 0 },
            pipe_bytes: *chance.pick(&[600, 4096, 4096, 65_536]),
            faults,
            crash_every_steps: *chance.pick(&[None, Some(600), Some(2_000), Some(6_000)]),
            clock_jumps_every_steps: *chance.pick(&[None, Some(200), Some(2_000)]),
            leaves: *chance.pick(&[0, 0, 30, 150]),
            cuts: *chance.pick(&[0, 20, 60]),
            asks_first: *chance.pick(&[0, 100]),
            long_bodies: *chance.pick(&[0, 100, 100, 400]),
            subjects: std::array::from_fn(|service| {
                *chance.pick(if service == 0 { &[1, 1, 3] } else { &[0, 1, 1, 3][..] })
            }),
            ticks_per_deed: *chance.pick(&[40_000, 40_000, TICKS_PER_SECOND]),
            weights: std::array::from_fn(|_| *chance.pick(&[1, 2, 2, 4])),
            ends_with_crash: chance.below(2) == 0,
        }
    }

    fn faults(chance: &mut Chance) -> Faults {
        // One run in four has no fault at all: there nothing excuses a 500.
        let often = *chance.pick(&[0, 4, 12, 40]);
        let slow = *chance.pick(&[0, 100, 300, 600]);
        let rate = |chance: &mut Chance| if chance.below(3) == 0 { 0 } else { often };
        Faults {
            slow,
            slow_steps_max: *chance.pick(&[20, 100, 400]),
            commit_not_applied: rate(chance),
            commit_applied: rate(chance),
            conflict: *chance.pick(&[0, 0, 20, 200]),
            view: rate(chance) / 4,
            scan: rate(chance) / 2,
            write_extent: rate(chance),
            read_extent: rate(chance),
            fence: rate(chance) * 4,
            short_pages: *chance.pick(&[0, 300]),
            short_reads: *chance.pick(&[0, 300]),
            extent_bytes_max: *chance.pick(&[3_000, 5_000, 16_384]),
        }
    }

    pub fn set_gateways(&mut self, gateways: usize) {
        self.smb_clients = if gateways == 1 { self.smb_clients } else { 0 };
        self.gateways = gateways;
    }

    /// As no two servers may.
    pub fn serve_shares_twice(&mut self) {
        (self.gateways, self.smb_clients) = (2, 2);
    }

    /// All clients are busy with this one.
    pub fn only(&mut self, subject: Subject) {
        self.subjects = [0; SUBJECTS];
        self.subjects[subject as usize] = 1;
        self.smb_clients = if subject == Subject::Share { self.smb_clients } else { 0 };
    }
}
