//! Stories of what clients keep and lose, a line for each thing that happens. On the left what is done, on the right
//! what comes of it, and behind a bar each what clients are told: who, from what, to what, `!` if an answer is asked
//! for, the epoch of leases of version 2.
//!
//! Handles that begin with a capital letter have a lease, and share it if they share the letter; the others have plain
//! oplocks, `s`, `x` and `b`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use contract::names::AccountName;

use super::super::caching::{BreakNotice, CachingWanted, Listener};
use super::super::*;
use super::*;

const DIRECTORY: FileId = FileId(1);
const FILE: FileId = FileId(2);
const OTHER: FileId = FileId(3);

fn share() -> GroupId {
    GroupId(Bytes::from_static(b"share"))
}

fn key(name: &str) -> LeaseKey {
    LeaseKey::new(&account("one"), [7; 16], [name.as_bytes()[0]; 16])
}

fn account(name: &str) -> AccountName {
    AccountName::parse(name).expect("a name")
}

/// What a client calls itself and its lease is seen by others, who may call themselves and theirs the same.
#[test]
fn a_lease_is_of_an_account() {
    let [one, other] = ["one", "one1"].map(account);
    let [ours, theirs] = [&one, &other].map(|account| LeaseKey::new(account, [7; 16], [8; 16]));
    assert!(ours.is_of(&one) && !ours.is_of(&other) && ours != theirs);
    let (table, heard) = (OpenFiles::default(), Heard::default());
    let open = |file, key| {
        let opening = Opening {
            caching: CachingWanted::Lease { key, rights: Rights::RWH, epoch: None },
            listener: Arc::new(heard.clone()),
            ..super::super::tests::opening(file, &[FileId::ROOT], "rw/rw")
        };
        table.open(&share(), opening, Timestamp::UNIX_EPOCH).map(|opened| opened.caching.rights)
    };
    assert_eq!(open(FILE, ours).expect("nobody has it"), Rights::RWH);
    assert_eq!(open(OTHER, theirs).expect("another's lease"), Rights::RWH);
    let read = table.short_open(&share(), FILE, RestAccess::Read(ByteRange::ALL), Timestamp::UNIX_EPOCH);
    assert!(matches!(read, Err(Blocked::Breaking(_))));
    assert_eq!(table.acknowledge_lease(&theirs, Rights::RH), Err(AcknowledgeError::NotBreaking));
    assert_eq!(table.acknowledge_lease(&ours, Rights::RH), Ok(Rights::RH));
}

/// Whoever took a view before a client wrote back what it kept, and is let in afterwards, has to look again.
#[test]
fn what_is_given_up_is_counted() {
    let (mut story, file) = (Story::default(), RestAccess::Read(ByteRange::ALL));
    let is_let_in = |story: &Story| story.table.short_open(&share(), FILE, file, story.now()).is_ok();
    for (name, wanted, answers) in [("Lease", "RWH", true), ("plain", "b", true), ("Late", "RWH", false)] {
        story.open(name, wanted, &[]);
        assert!(!is_let_in(&story), "{name}");
        let before = story.table.given_back(&share());
        let handle = story.handle(name);
        let is_given_up = match (answers, wanted) {
            (true, "b") => story.table.acknowledge_oplock(&share(), handle, Oplock::LevelII).is_ok(),
            (true, _) => story.table.acknowledge_lease(&key(name), Rights::RH).is_ok(),
            (false, _) => {
                story.seconds += BREAK_SECONDS;
                true
            }
        };
        assert!(is_given_up && is_let_in(&story), "{name}");
        assert_ne!(story.table.given_back(&share()), before, "{name}");
        story.table.close(&share(), handle);
    }
}

fn rights(letters: &str) -> Rights {
    Rights { read: letters.contains('R'), write: letters.contains('W'), handle: letters.contains('H') }
}

fn letters(rights: Rights) -> String {
    let letters = [(rights.read, 'R'), (rights.write, 'W'), (rights.handle, 'H')];
    let all: String = letters.into_iter().filter(|(is_there, _)| *is_there).map(|(_, letter)| letter).collect();
    if all.is_empty() { "-".into() } else { all }
}

fn oplock(word: &str) -> Oplock {
    match word {
        "s" => Oplock::LevelII,
        "x" => Oplock::Exclusive,
        "b" => Oplock::Batch,
        _ => Oplock::None,
    }
}

fn rest(word: &str) -> RestAccess {
    match word {
        "list" => RestAccess::Nothing,
        "look" => RestAccess::Look,
        "lease" => RestAccess::Lease,
        "get" => RestAccess::Read(ByteRange::ALL),
        "set" => RestAccess::WriteProperties,
        "put" => RestAccess::Write,
        "create" => RestAccess::Replace,
        "rename" => RestAccess::Rename,
        "delete" => RestAccess::Delete,
        _ => panic!("{word}"),
    }
}

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<BreakNotice>>>);

impl Listener for Heard {
    fn broken(&self, notice: BreakNotice) {
        lock(&self.0).push(notice);
    }
}

#[derive(Default)]
struct Story {
    table: OpenFiles,
    handles: BTreeMap<String, HandleId>,
    heard: Heard,
    seconds: u64,
    renaming: Option<Renaming>,
    using: Vec<InUse>,
    resting: Option<ShortOpen>,
}

impl Story {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH.plus_seconds(self.seconds)
    }

    fn handle(&self, name: &str) -> HandleId {
        self.handles.get(name).copied().unwrap_or(HandleId(0))
    }

    /// `open NAME CACHING`, and words on how: `over` what is there, for a look at attributes (`stat`) or security
    /// (`control`), `alone`, to read (`reading`), `new`, on the `other` file or the `directory`, to delete it on close
    /// (`once`), `leased`, `v2`.
    fn open(&mut self, name: &str, wanted: &str, words: &[&str]) -> String {
        let has = |word: &str| words.contains(&word);
        let is_lease = name.starts_with(|letter: char| letter.is_ascii_uppercase());
        let caching = match (is_lease, wanted) {
            (false, "-") => CachingWanted::Nothing,
            (false, level) => CachingWanted::Oplock(oplock(level)),
            (true, letters) => {
                CachingWanted::Lease { key: key(name), rights: rights(letters), epoch: has("v2").then_some(100) }
            }
        };
        let mask = match () {
            () if has("stat") => 0x0010_0180,
            () if has("control") => 0x0002_0080,
            () if has("reading") => 1,
            () => 0x0001_0003,
        };
        let access = Access { read: mask & 1 != 0, write: mask & 2 != 0, delete: mask & 0x1_0000 != 0 };
        let (file, above) = match () {
            () if has("directory") => (DIRECTORY, vec![FileId::ROOT]),
            () if has("other") => (OTHER, vec![FileId::ROOT, DIRECTORY]),
            () => (FILE, vec![FileId::ROOT, DIRECTORY]),
        };
        let opening = Opening {
            session: 1,
            client_address: "192.0.2.1:50000".into(),
            client_name: "desk".into(),
            path: "1/2".into(),
            file,
            above,
            claim: Claim { access, share: if has("alone") { ShareMode::NONE } else { ShareMode::ALL } },
            mask,
            caching,
            is_new: has("new"),
            overwrites: has("over"),
            deletes_on_close: has("once"),
            is_directory: has("directory"),
            is_leased: has("leased"),
            opened: self.now(),
            reconnected: None,
            kept_as: None,
            listener: Arc::new(self.heard.clone()),
        };
        match self.table.open(&share(), opening, self.now()) {
            Ok(opened) => {
                self.handles.insert(name.into(), opened.handle.id);
                granted(opened.caching)
            }
            Err(conflict) => told(conflict),
        }
    }

    fn io(&self, name: &str, io: Io) -> String {
        let done = self.table.break_for(&share(), self.handle(name), io, self.now());
        done.map_or_else(told, |()| "ok".into())
    }

    fn act(&mut self, line: &str) -> String {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["open", name, wanted, ref how @ ..] => self.open(name, wanted, how),
            ["close", name] => match self.table.close(&share(), self.handle(name)) {
                Some(Closed { removal: Some(_), .. }) => "removed".into(),
                Some(_) => "ok".into(),
                None => "not open".into(),
            },
            ["has", name] => self.table.caching(&share(), self.handle(name)).map_or("not open".into(), granted),
            ["ack", name, kept] if name.starts_with(|letter: char| letter.is_ascii_uppercase()) => {
                let done = self.table.acknowledge_lease(&key(name), rights(kept));
                done.map_or_else(|error| format!("{error:?}"), letters)
            }
            ["ack", name, level] => {
                let done = self.table.acknowledge_oplock(&share(), self.handle(name), oplock(level));
                done.map_or_else(|error| format!("{error:?}"), |kept| letters(kept.rights()))
            }
            ["write", name] => self.io(name, Io::Write),
            ["lock", name] => {
                let broken = self.io(name, Io::Lock);
                let whole = [(ByteRange { offset: 0, length: 1 }, LockKind::Exclusive)];
                self.table.lock(&share(), self.handle(name), &whole).map_or_else(told, |()| broken)
            }
            ["set-delete", name] => self.io(name, Io::SetDelete),
            ["rename", name, ref over @ ..] => {
                let over = over.first().map(|_| OTHER);
                match self.table.begin_rename(&share(), self.handle(name), FileId::ROOT, over, self.now()) {
                    Ok(renaming) => {
                        self.renaming = Some(renaming);
                        "ok".into()
                    }
                    Err(conflict) => told(conflict),
                }
            }
            ["renamed"] => {
                let renaming = self.renaming.take().expect("begun");
                renaming.moved("new", &[FileId::ROOT]);
                "ok".into()
            }
            ["begin-write", name] => {
                let range = ByteRange { offset: 0, length: 10 };
                let used = self.table.use_range(&share(), self.handle(name), RangeUse::Write, range);
                used.map_or_else(told, |used| {
                    self.using.push(used);
                    "ok".into()
                })
            }
            ["end-writes"] => {
                self.using.clear();
                "ok".into()
            }
            ["rest", what, ref hold @ ..] => match self.table.short_open(&share(), FILE, rest(what), self.now()) {
                Ok(short) => {
                    self.resting = Some(short).filter(|_| !hold.is_empty());
                    "ok".into()
                }
                Err(Blocked::Refused(refusal)) => refusal.code.name().into(),
                Err(Blocked::Breaking(_)) => "waits".into(),
            },
            ["rest-over"] => {
                self.resting = None;
                "ok".into()
            }
            ["pass", seconds] => {
                self.seconds += seconds.parse::<u64>().expect("seconds");
                "ok".into()
            }
            _ => panic!("{line}"),
        }
    }
}

fn granted(caching: CachingGranted) -> String {
    let breaking = if caching.is_breaking { "*" } else { "" };
    let epoch = if caching.is_version_2 { format!(" @{}", caching.epoch) } else { String::new() };
    format!("{}{breaking}{epoch}", letters(caching.rights))
}

fn told(conflict: Conflict) -> String {
    match conflict {
        Conflict::Breaking(_) => "waits".into(),
        Conflict::WithShortOpen(_) => "later".into(),
        Conflict::Locked(_) => "locked".into(),
        other => format!("{other:?}"),
    }
}

fn check(story: &str) {
    let mut teller = Story::default();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (action, expected) = line.split_once("=>").expect("an action and what comes of it");
        let mut outcome = teller.act(action);
        for notice in std::mem::take(&mut *lock(&teller.heard.0)) {
            let who = match notice.of {
                BreakOf::Lease { key } => char::from(key.key[0]).to_string(),
                BreakOf::Oplock(id) => {
                    teller.handles.iter().find(|(_, handle)| **handle == id).expect("it is open").0.clone()
                }
            };
            let answer = if notice.needs_answer { "!" } else { "" };
            let epoch = if notice.epoch != 0 { format!(" @{}", notice.epoch) } else { String::new() };
            outcome += &format!(" | {who} {}>{}{answer}{epoch}", letters(notice.from), letters(notice.to));
        }
        let expected: Vec<_> = expected.split_whitespace().collect();
        assert_eq!(outcome, expected.join(" "), "in {line:?} of {story}");
    }
    // Nothing is kept of what is not open.
    teller.handles.values().for_each(|handle| drop(teller.table.close(&share(), *handle)));
    drop((teller.renaming, teller.resting, teller.using));
    let shards = &teller.table.0;
    assert!(lock(&shards.leases).is_empty() && shards.shards.iter().all(|shard| lock(shard).is_empty()));
}

#[test]
fn an_open_takes_the_right_to_write() {
    check(
        "
        open A RWH        => RWH
        open B RWH        => waits | A RWH>RH!
        open B RWH        => waits
        open A2 RWH       => RWH*
        ack A RWH         => TooMuch
        ack A RH          => RH
        ack A RH          => NotBreaking
        open B RWH        => RH
        ack C R           => NotFound
        open C -          => -
        ack C -           => NotBreaking
        ",
    );
    // To answer with less is right too.
    check(
        "
        open A RWH        => RWH
        open b -          => waits | A RWH>RH!
        ack A -           => -
        open b -          => -
        ",
    );
    // Nobody keeps handles without what it read: that is nothing, and told so.
    check(
        "
        open A RWH        => RWH
        open b -          => waits | A RWH>RH!
        ack A H           => -
        has A             => -
        ",
    );
    // Who has no writes is not asked.
    check(
        "
        open A RH         => RH
        open B RH         => RH
        open c x          => -
        has A             => RH
        ",
    );
}

#[test]
fn an_overwriting_open_takes_everything() {
    check(
        "
        open A RWH        => RWH
        open b - over     => waits | A RWH>-!
        ack A R           => TooMuch
        ack A -           => -
        open b - over     => -
        ",
    );
    // Only who has unwritten bytes is waited for.
    check(
        "
        open A RH         => RH
        open b - over     => - | A RH>-!
        close b           => ok
        open b - over     => -
        open A2 -         => RH*
        open c -          => waits
        ack A -           => -
        ",
    );
    check(
        "
        open A R          => R
        open b - over     => - | A R>-
        has A             => -
        ack A -           => NotBreaking
        ",
    );
}

/// What is asked for while a break is under way follows its answer, a step at a time.
#[test]
fn breaks_in_steps() {
    check(
        "
        open A RWH v2     => RWH @101
        open b -          => waits | A RWH>RH! @102
        open c - over     => waits
        open A2 RWH       => RWH* @102
        ack A RH          => RH | A RH>R! @102
        open A3 RWH       => RH* @102
        open b -          => waits
        open c - over     => waits
        ack A R           => R | A R>- @102
        open b -          => -
        open c - over     => -
        ",
    );
}

#[test]
fn handles_that_are_only_cached_are_asked_for() {
    for kept in ["open A RWH alone => RWH", "open A RH alone => RH"] {
        let (held, left) = if kept.ends_with("RWH") { ("RWH", "RW") } else { ("RH", "R") };
        // Closed, or not.
        check(&format!(
            "{kept}
             open b b          => waits | A {held}>{left}!
             close A           => ok
             open b b          => RWH"
        ));
        check(&format!(
            "{kept}
             open b b          => waits | A {held}>{left}!
             ack A {left}      => {left}
             open b b          => Sharing"
        ));
    }
    check(
        "
        open a b alone    => RWH
        open b b          => waits | a RWH>R!
        ack a s           => R
        open b b          => Sharing
        ",
    );
    // Those who keep no handle are not asked, nor are those who are not in the way.
    check(
        "
        open A RW alone   => RW
        open b b          => Sharing
        ",
    );
    check(
        "
        open A RH         => RH
        open b - alone    => waits | A RH>R!
        ack A R           => R
        open b - alone    => Sharing
        ",
    );
}

/// A look has a plain oplock only on what it makes.
#[test]
fn looks_and_oplocks() {
    check(
        "
        open a b stat     => -
        close a           => ok
        open a b stat new => RWH
        open b b          => waits | a RWH>R!
        ack a s           => R
        open b b          => R
        open c s stat     => -
        ",
    );
}

#[test]
fn looks_break_nothing() {
    check(
        "
        open A RWH        => RWH
        open b - stat     => -
        open c b stat     => -
        open d - control  => -
        open A2 RWH       => RWH
        open e b stat over => waits | A RWH>-!
        ",
    );
    check(
        "
        open a b          => RWH
        open b - stat     => -
        open c - control  => waits | a RWH>R!
        ack a s           => R
        open c - control  => -
        ",
    );
    // A look may have a lease, and others take it.
    check(
        "
        open A RWH stat   => RWH
        open A2 -         => RWH
        open B RWH        => waits | A RWH>RH!
        ack A RH          => RH
        open B RWH        => RH
        ",
    );
}

/// What is held, what is asked for beside it, what is left, what is given.
#[test]
fn leases_and_oplocks_beside_each_other() {
    for (held, asked, left, given) in [
        ("R", "s", "R", "R"),
        ("R", "b", "R", "R"),
        ("RH", "s", "RH", "-"),
        ("RH", "x", "RH", "-"),
        ("RW", "s", "R", "R"),
        ("RW", "b", "R", "R"),
        ("RWH", "x", "RH", "-"),
    ] {
        let open = format!("open A {held} => {held}\n");
        match held == left {
            true => check(&format!("{open} open b {asked} => {given}")),
            false => check(&format!(
                "
                {open} open b {asked} => waits | A {held}>{left}!
                ack A {left} => {left}
                open b {asked} => {given}
                "
            )),
        }
    }
    for (held, asked) in [("s", "R"), ("s", "RH"), ("x", "RW"), ("b", "RWH"), ("b", "RH")] {
        let had = letters(oplock(held).rights());
        match held {
            "s" => check(&format!("open a s => R\n open B {asked} => R")),
            _ => check(&format!(
                "
                open a {held} => {had}
                open B {asked} => waits | a {had}>R!
                ack a s => R
                open B {asked} => R
                "
            )),
        }
    }
}

#[test]
fn a_lease_grows_and_does_not_shrink() {
    for (first, second, then) in [
        ("-", "RWH", "RWH"),
        ("R", "RH", "RH"),
        ("R", "RW", "RW"),
        ("RH", "RWH", "RWH"),
        ("RH", "R", "RH"),
        ("RH", "RW", "RH"),
        ("RW", "RH", "RW"),
        ("RWH", "-", "RWH"),
        // Not states at all.
        ("-", "WH", "-"),
        ("-", "H", "-"),
        ("R", "W", "R"),
    ] {
        check(&format!("open A {first} => {first}\n open A2 {second} => {then}"));
    }
    // All that is asked for, or nothing more.
    check(
        "
        open A R          => R
        open B R          => R
        open A2 RWH       => R
        open A3 RH        => RH
        ",
    );
}

#[test]
fn epochs() {
    check(
        "
        open A R v2       => R @101
        open A2 RH        => RH @102
        open A3 RWH v2    => RWH @103
        open A4 RWH v2    => RWH @103
        open b -          => waits | A RWH>RH! @104
        ",
    );
    check("open A - v2       => - @100");
    // The first to ask says which version it is.
    check(
        "
        open A R          => R
        open A2 RW v2     => RW
        open b -          => waits | A RW>R!
        ",
    );
    // It ends with its last handle.
    check(
        "
        open A R          => R
        close A           => ok
        open A R v2       => R @101
        ",
    );
}

#[test]
fn writes_tell_those_who_read() {
    check(
        "
        open A RH         => RH
        open B RH         => RH
        open c s          => -
        write A           => ok | B RH>-!
        write A           => ok
        has A             => RH
        ack B -           => -
        write B           => ok | A RH>-!
        has B             => -
        ",
    );
    check(
        "
        open A R          => R
        open B R          => R
        open c s          => R
        write c           => ok | c R>- | A R>- | B R>-
        has c             => -
        ack c s           => NotBreaking
        ",
    );
    // Its own plain oplock does not outlive a handle's write, if it was for reading.
    check(
        "
        open a s          => R
        write a           => ok | a R>-
        ack a s           => NotBreaking
        ",
    );
    check(
        "
        open a b          => RWH
        write a           => ok
        lock a            => ok
        has a             => RWH
        ",
    );
}

#[test]
fn locks_leave_nothing_to_read() {
    check(
        "
        open A RWH        => RWH
        open B RWH        => waits | A RWH>RH!
        ack A RH          => RH
        open B RWH        => RH
        lock A            => ok | B RH>-!
        open A2 -         => waits
        ack B -           => -
        open A2 -         => RH
        open c b          => -
        open D RWH        => -
        open B2 RH        => -
        ",
    );
}

#[test]
fn who_does_not_answer_has_nothing() {
    check(
        "
        open A RWH        => RWH
        open B RWH        => waits | A RWH>RH!
        pass 34           => ok
        open B RWH        => waits
        pass 1            => ok
        open B RWH        => RH
        has A             => -
        ack A RH          => NotBreaking
        write A           => ok | B RH>-!
        ack B -           => -
        write B           => ok
        close B           => ok
        open A2 R         => R
        open A3 RWH       => RWH
        ",
    );
    check(
        "
        open a b          => RWH
        open b -          => waits | a RWH>R!
        pass 35           => ok
        open b -          => -
        has a             => -
        ",
    );
}

#[test]
fn a_break_ends_with_the_last_handle() {
    check(
        "
        open A RWH        => RWH
        open A2 RWH       => RWH
        open b -          => waits | A RWH>RH!
        close A           => ok
        open b -          => waits
        close A2          => ok
        open b x          => RW
        ack A RH          => NotFound
        ",
    );
    check(
        "
        open a b          => RWH
        open b x          => waits | a RWH>R!
        close a           => ok
        open b x          => RW
        ",
    );
}

#[test]
fn a_key_is_for_one_file() {
    check(
        "
        open A RWH        => RWH
        open A2 RWH other => LeaseOfAnother
        close A           => ok
        open A RWH other  => RWH
        ",
    );
}

#[test]
fn renames_ask_for_handles() {
    check(
        "
        open A RWH        => RWH
        rename A          => ok
        open B RH         => later
        renamed           => ok
        open B RH         => waits | A RWH>RH!
        ack A RH          => RH
        open B RH         => RH
        rename A          => waits | B RH>R!
        rename A          => waits
        ack B R           => R
        rename A          => ok
        renamed           => ok
        has A             => RH
        ",
    );
    // What is replaced has to be closed.
    check(
        "
        open A RH         => RH
        open B RH other   => RH
        rename A over     => waits | B RH>R!
        ack B R           => R
        rename A over     => TargetOpen
        close B           => ok
        rename A over     => ok
        open B RH other   => later
        ",
    );
    // And what is below, though not what is on the directory itself.
    check(
        "
        open d - directory => -
        open e - directory => -
        open A RH         => RH
        open B RH other   => RH
        rename d          => waits | A RH>R! | B RH>R!
        close A           => ok
        rename d          => waits
        ack B R           => R
        rename d          => Sharing
        close B           => ok
        rename d          => ok
        ",
    );
    check("rename a          => NotOpen");
}

#[test]
fn deletion_asks_for_handles() {
    check(
        "
        open A RH         => RH
        open b -          => -
        set-delete b      => waits | A RH>R!
        close A           => ok
        set-delete b      => ok
        ",
    );
}

#[test]
fn delete_on_close() {
    check(
        "
        open a - once     => -
        open b -          => -
        close a           => ok
        open c -          => DeletePending
        close b           => removed
        open c -          => -
        ",
    );
}

#[test]
fn a_rest_lease_keeps_writers_out() {
    check(
        "
        open a - leased   => Leased
        open a - leased reading => -
        open b - leased stat => -
        open c - leased stat over => Leased
        ",
    );
}

#[test]
fn nothing_is_granted_past_a_write() {
    check(
        "
        open a -          => -
        begin-write a     => ok
        write a           => ok
        open B RWH        => -
        end-writes        => ok
        open B2 RH        => RH
        ",
    );
    // Nor a lock on what is written or read.
    check(
        "
        open a -          => -
        open b -          => -
        begin-write a     => ok
        lock b            => later
        lock a            => ok
        end-writes        => ok
        lock b            => locked
        ",
    );
}

/// A REST operation beside a lease: `waits RH` until it was broken to that, `tells -` and goes on, or `ok`. Who keeps
/// its handle open keeps deletion off.
#[test]
fn rest_operations_and_leases() {
    #[rustfmt::skip]
    let table = [
        //            RWH         RH         RW         R
        ("list",   ["ok",       "ok",      "ok",      "ok"]),
        ("look",   ["waits RH", "ok",      "waits R", "ok"]),
        ("get",    ["waits RH", "ok",      "waits R", "ok"]),
        ("set",    ["waits -",  "tells -", "waits -", "tells -"]),
        ("put",    ["waits -",  "tells -", "waits -", "tells -"]),
        ("create", ["waits -",  "waits -", "waits -", "tells -"]),
        ("rename", ["waits RW", "waits R", "ok",      "ok"]),
        ("delete", ["waits RW", "waits R", "denied",  "denied"]),
        ("lease",  ["waits RW", "waits R", "denied",  "denied"]),
    ];
    for (operation, row) in table {
        for (held, expected) in ["RWH", "RH", "RW", "R"].into_iter().zip(row) {
            let is_denied = ["delete", "lease"].contains(&operation);
            let outcome = if is_denied { "SharingViolation" } else { "ok" };
            let answer = if held == "R" { "" } else { "!" };
            let then = match expected.split_once(' ') {
                None => format!("rest {operation} => {outcome}"),
                Some(("tells", left)) => format!("rest {operation} => ok | A {held}>{left}{answer}"),
                Some((_, left)) => format!(
                    "
                    rest {operation} => waits | A {held}>{left}{answer}
                    rest {operation} => waits
                    ack A {left} => {left}
                    rest {operation} => {outcome}
                    "
                ),
            };
            check(&format!("open A {held} => {held}\n{then}"));
        }
    }
    // Closed, it was only kept.
    check(
        "
        open A RWH        => RWH
        rest delete       => waits | A RWH>RW!
        close A           => ok
        rest delete       => ok
        ",
    );
}

/// The same beside plain oplocks, which fall to level II or to nothing.
#[test]
fn rest_operations_and_oplocks() {
    #[rustfmt::skip]
    let table = [
        //            b          x          s
        ("look",   ["waits R", "waits R", "ok"]),
        ("get",    ["waits R", "waits R", "ok"]),
        ("put",    ["waits -", "waits -", "tells -"]),
        ("create", ["waits -", "waits -", "tells -"]),
        ("rename", ["waits R", "ok",      "ok"]),
    ];
    for (operation, row) in table {
        for (level, expected) in ["b", "x", "s"].into_iter().zip(row) {
            let held = letters(oplock(level).rights());
            let then = match expected.split_once(' ') {
                None => format!("rest {operation} => ok"),
                Some(("tells", left)) => format!("rest {operation} => ok | a {held}>{left}"),
                Some((_, left)) => format!(
                    "
                    rest {operation} => waits | a {held}>{left}!
                    ack a s => {left}
                    rest {operation} => ok
                    "
                ),
            };
            check(&format!("open a {level} => {held}\n{then}"));
        }
    }
}

/// Before a REST operation is refused because of a handle, it is found out whether anybody uses the handle.
#[test]
fn rest_operations_and_handles_that_are_only_kept() {
    for operation in ["get", "set", "put", "create", "rename"] {
        check(&format!(
            "
            open A RH alone   => RH
            rest {operation}  => waits | A RH>R!
            ack A R           => R
            rest {operation}  => SharingViolation
            close A           => ok
            rest {operation}  => ok
            "
        ));
        check(&format!(
            "
            open A RW alone   => RW
            rest {operation}  => SharingViolation
            "
        ));
    }
    // Nobody else is asked.
    check(
        "
        open a - reading  => -
        open B RH reading => RH
        rest lease        => ok
        open c -          => -
        rest lease        => SharingViolation
        ",
    );
}

/// While a REST operation is at work nobody is given what it would have to break.
#[test]
fn nothing_is_granted_past_a_rest_operation() {
    for (operation, granted) in [("get", "RH"), ("put", "-"), ("set", "-"), ("create", "-"), ("lease", "later")] {
        check(&format!(
            "
            rest {operation} hold => ok
            open A RWH        => {granted}
            rest-over         => ok
            open A2 RWH       => RWH
            "
        ));
    }
}

/// A break that is not answered ends for REST as it does for SMB.
#[test]
fn rest_operations_and_who_does_not_answer() {
    check(
        "
        open A RWH        => RWH
        rest get          => waits | A RWH>RH!
        pass 35           => ok
        rest get          => ok
        has A             => -
        ",
    );
}
