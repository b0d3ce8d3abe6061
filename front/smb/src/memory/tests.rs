use std::pin::pin;

use super::*;
use crate::chain::now;
use crate::wire::header::HEADER_BYTES;

const MIB: usize = 1 << 20;

fn request(command: Command, charge: u16, bytes: usize) -> (Header, Bytes) {
    let mut header = Header::decode(&{
        let mut plain = vec![0xFE, b'S', b'M', b'B', 64, 0];
        plain.resize(HEADER_BYTES, 0);
        plain
    })
    .expect("a header");
    (header.command, header.credit_charge) = (command as u16, charge);
    (header, Bytes::from(vec![0; HEADER_BYTES + bytes]))
}

fn known(budget: &Arc<Budget>) -> Memory {
    let memory = Memory::new(budget.clone());
    memory.grow();
    memory
}

#[tokio::test]
async fn strangers_have_what_is_theirs_and_nothing_else() {
    let budget = Budget::new(BUDGET_MIB_LEAST);
    let stranger = Memory::new(budget.clone());
    let first = stranger.for_frame(64 << 10).await.expect("room");
    assert_eq!(budget.taken_kib(), (0, 0));
    let mut second = pin!(stranger.for_frame(64 << 10));
    assert!(now(second.as_mut()).await.is_none(), "until the first is answered");
    assert!(stranger.now(8 << 10).is_none(), "there is nothing else");
    drop(first);
    let second = second.await.expect("room");
    assert_eq!(budget.taken_kib(), (0, 0));
    drop(second);
}

#[tokio::test]
async fn small_requests_have_a_way_when_everything_is_taken() {
    let budget = Budget::new(BUDGET_MIB_LEAST);
    let memories: Vec<_> = (0..5).map(|_| known(&budget)).collect();
    let mut held = Vec::new();
    for memory in &memories[..4] {
        held.push(memory.for_frame(8 * MIB - 2048).await.expect("room"));
        held.push(memory.for_frame(100).await.expect("room"));
    }
    let mut fifth = pin!(memories[4].for_frame(8 * MIB));
    assert!(now(fifth.as_mut()).await.is_none(), "all is taken: it is not read");
    let mut small = Room::default();
    let requests = [request(Command::Close, 1, 24)];
    memories[4].for_answers(&mut small, &requests).await.expect("its own room");
    assert!(small.own.is_some() && small.answers.is_none());
    held.clear();
    assert!(fifth.await.is_some());
    assert_eq!(budget.taken_kib(), (0, 0), "dropped with what held it");
}

#[tokio::test]
async fn frames_that_wait_for_answers_keep_nobody_from_answering() {
    let budget = Budget::new(BUDGET_MIB_LEAST);
    let (one, other) = (known(&budget), known(&budget));
    // As much as a chain may be answered, twice, is more than there is.
    let reads: Vec<_> = (0..4).map(|_| request(Command::Read, 128, 49)).collect();
    let mut first = one.for_frame(MIB).await.expect("room");
    one.for_answers(&mut first, &reads).await.expect("room");
    let mut second = other.for_frame(MIB).await.expect("frames have a half of their own");
    {
        let mut waiting = pin!(other.for_answers(&mut second, &reads));
        assert!(now(waiting.as_mut()).await.is_none());
        drop(first);
        waiting.await.expect("room");
    }
    drop(second);
    assert_eq!(budget.taken_kib(), (0, 0));
}

#[tokio::test]
async fn one_connection_does_not_have_everything() {
    let budget = Budget::new(1024);
    let memory = known(&budget);
    let mut held = Vec::new();
    for _ in 0..7 {
        held.push(memory.for_frame(9 * MIB).await.expect("room"));
    }
    assert!(now(pin!(memory.for_frame(9 * MIB))).await.is_none());
    assert!(known(&budget).for_frame(9 * MIB).await.is_some(), "others have room");
}

#[test]
fn what_is_set_aside() {
    let kib = |requests: &[(Command, u16, usize)]| {
        let requests: Vec<_> =
            requests.iter().map(|(command, charge, bytes)| request(*command, *charge, *bytes)).collect();
        answers_kib(&requests)
    };
    assert_eq!(kib(&[(Command::Write, 1, 4096)]), 0);
    assert_eq!(kib(&[(Command::Read, 0, 49), (Command::Read, 16, 49)]), 17 * 64);
    assert_eq!(kib(&[(Command::Read, 128, 49); 64]), ANSWERS_KIB_MAX, "no frame is longer");
    const _: () =
        assert!(ANSWERS_KIB_MAX + 2048 < CONNECTION_KIB && ANSWERS_KIB_MAX + 2048 < 512 * BUDGET_MIB_LEAST as u32);
}

#[test]
fn what_waits_keeps_only_itself() {
    let frame = Bytes::from(vec![7; 100_000]);
    for (command, expected) in
        [(Command::Lock, WAITING_BYTES_MAX), (Command::ChangeNotify, 4096), (Command::Create, 90_000)]
    {
        assert_eq!(kept(Row::of(command as u16), frame.slice(..90_000)).len(), expected);
    }
    assert_eq!(kept(Row::of(Command::Lock as u16), frame.slice(..112)).len(), 112);
}
