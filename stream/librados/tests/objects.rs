//! Every step, look and refusal, on a real cluster.

mod common;

use std::time::Duration;

use bytes::Bytes;
use lazuli_librados::{Found, Librados, Look, Objects, OpError, Order, Pool, Seen, Step};

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn put(key: &str, value: &str) -> Step {
    Step::Put(vec![(text(key), text(value))])
}

fn compare(key: &str, order: Order, value: &str) -> Step {
    Step::Compare { key: text(key), order, value: text(value) }
}

fn range(after: &str, prefix: &str, limit: u64) -> Look {
    Look::Range { after: text(after), prefix: text(prefix), limit }
}

async fn write<const N: usize>(rados: &Librados, object: &str, steps: [Step; N]) -> Result<u64, OpError> {
    rados.write(Pool::Records, object, steps.into()).await
}

async fn read<const N: usize>(rados: &Librados, object: &str, steps: [Look; N]) -> Result<Seen, OpError> {
    rados.read(Pool::Records, object, steps.into()).await
}

/// Keys and values of a range, in words: `a=1 b=2 …`, the dots for more.
async fn page(rados: &Librados, object: &str, after: &str, prefix: &str, limit: u64) -> String {
    let seen = read(rados, object, [range(after, prefix, limit)]).await.unwrap();
    let Found::Page { entries, more } = &seen.found[0] else { panic!("{seen:?}") };
    let mut words: Vec<_> = entries
        .iter()
        .map(|(key, value)| format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value)))
        .collect();
    words.extend(more.then(|| "…".to_owned()));
    words.join(" ")
}

async fn is_there(rados: &Librados, object: &str) -> bool {
    match read(rados, object, []).await {
        Ok(_) => true,
        Err(OpError::Missing) => false,
        Err(error) => panic!("{error:?}"),
    }
}

fn failed<T: std::fmt::Debug>(result: Result<T, OpError>) -> String {
    match result {
        Err(OpError::Failed { why }) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn create_and_exist() {
    let Some(rados) = common::connect("create") else { return };
    assert_eq!(write(&rados, "o", [Step::Exists]).await, Err(OpError::Missing));
    assert_eq!(write(&rados, "o", [Step::Exists, Step::Create { exclusive: false }]).await, Err(OpError::Missing));
    let made = write(&rados, "o", [Step::Create { exclusive: true }]).await.unwrap();
    assert_eq!(write(&rados, "o", [Step::Create { exclusive: true }]).await, Err(OpError::Exists));
    let again = write(&rados, "o", [Step::Create { exclusive: false }]).await.unwrap();
    assert!(again > made, "{again} after {made}");
    write(&rados, "o", [Step::Remove]).await.unwrap();
    assert!(!is_there(&rados, "o").await);
    assert_eq!(write(&rados, "o", [Step::Remove]).await, Err(OpError::Missing));
}

#[tokio::test]
async fn guards_are_judged_by_what_was_before() {
    let Some(rados) = common::connect("guards") else { return };
    let guards = [compare("k", Order::Equal, ""), Step::AttributeIs { name: "gen", value: text("") }];
    for guard in guards {
        let steps = [Step::Create { exclusive: false }, put("k", "v"), guard];
        assert_eq!(write(&rados, "o", steps).await, Err(OpError::Missing));
    }
    assert!(!is_there(&rados, "o").await);
    write(&rados, "o", [put("k", "old"), Step::Create { exclusive: true }]).await.unwrap();
    write(&rados, "o", [put("k", "new"), compare("k", Order::Equal, "old")]).await.unwrap();
    assert_eq!(write(&rados, "o", [put("k", "newer"), compare("k", Order::Equal, "old")]).await, Err(OpError::Guard));
    assert_eq!(page(&rados, "o", "", "", 9).await, "k=new");
}

#[tokio::test]
async fn comparisons() {
    let Some(rados) = common::connect("comparisons") else { return };
    write(&rados, "o", [put("k", "mm")]).await.unwrap();
    for (key, order, value, expected) in [
        ("k", Order::Equal, "mm", true),
        ("k", Order::Equal, "m", false),
        ("k", Order::Equal, "", false),
        ("k", Order::Less, "mn", true),
        ("k", Order::Less, "mmm", true),
        ("k", Order::Less, "mm", false),
        ("k", Order::Less, "ml", false),
        ("k", Order::Greater, "ml", true),
        ("k", Order::Greater, "m", true),
        ("k", Order::Greater, "mm", false),
        ("k", Order::Greater, "mn", false),
        ("absent", Order::Equal, "", true),
        ("absent", Order::Equal, "x", false),
        ("absent", Order::Less, "x", true),
        ("absent", Order::Greater, "", false),
    ] {
        let held = holds(&rados, compare(key, order, value)).await;
        assert_eq!(held, expected, "{key} {order:?} {value:?}");
    }
    let high = |order| Step::Compare { key: text("k"), order, value: Bytes::from_static(&[0x80]) };
    assert!(!holds(&rados, high(Order::Equal)).await);
    for order in [Order::Less, Order::Greater] {
        assert!(failed(write(&rados, "o", [high(order)]).await).contains("above 0x7f"));
    }
}

async fn holds(rados: &Librados, guard: Step) -> bool {
    match write(rados, "o", [guard, put("other", "")]).await {
        Ok(_) => true,
        Err(OpError::Guard) => false,
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn attributes() {
    let Some(rados) = common::connect("attributes") else { return };
    let is = |value: &str| Step::AttributeIs { name: "gen", value: text(value) };
    let set = |name: &str, value: &str| Step::SetAttribute { name: name.to_owned(), value: text(value) };
    for pool in [Pool::Records, Pool::Bodies] {
        rados.write(pool, "o", vec![Step::Create { exclusive: true }]).await.unwrap();
        rados.write(pool, "o", vec![is(""), set("gen", "7"), set("empty", "")]).await.unwrap();
        assert_eq!(rados.write(pool, "o", vec![is("8"), set("gen", "9")]).await, Err(OpError::Guard));
        assert_eq!(rados.write(pool, "o", vec![is(""), set("gen", "9")]).await, Err(OpError::Guard));
        let seen = rados.read(pool, "o", vec![Look::Attributes]).await.unwrap();
        let expected = [("empty".to_owned(), text("")), ("gen".to_owned(), text("7"))];
        assert_eq!(seen.found, [Found::Attributes(expected.into())]);
        rados.write(pool, "o", vec![is("7"), Step::RemoveAttribute { name: "gen".to_owned() }]).await.unwrap();
        rados.write(pool, "o", vec![is("")]).await.unwrap();
        assert_eq!(rados.write(pool, "none", vec![is("")]).await, Err(OpError::Missing));
    }
}

#[tokio::test]
async fn versions() {
    let Some(rados) = common::connect("versions") else { return };
    let first = write(&rados, "o", [put("k", "1")]).await.unwrap();
    assert_eq!(read(&rados, "o", []).await.unwrap().version, first);
    let second = write(&rados, "o", [Step::Version(first), put("k", "2")]).await.unwrap();
    assert!(second > first);
    for wrong in [0, first, second + 1, u64::MAX] {
        assert_eq!(write(&rados, "o", [Step::Version(wrong), put("k", "3")]).await, Err(OpError::Guard), "{wrong}");
    }
    assert_eq!(read(&rados, "o", [Look::Keys(vec![])]).await.unwrap().version, second);
    assert_eq!(write(&rados, "none", [Step::Version(second), put("k", "3")]).await, Err(OpError::Missing));
}

#[tokio::test]
async fn keys_and_ranges() {
    let Some(rados) = common::connect("ranges") else { return };
    let pairs = ["a", "b1", "b2", "b3", "c", "\u{80}"].map(|key| (text(key), text("1")));
    write(&rados, "o", [Step::Put(pairs.into())]).await.unwrap();
    write(&rados, "o", [Step::Delete(vec![text("c"), text("absent")]), put("a", "2")]).await.unwrap();
    for (after, prefix, limit, expected) in [
        ("", "", 9, "a=2 b1=1 b2=1 b3=1 \u{80}=1"),
        ("", "", 5, "a=2 b1=1 b2=1 b3=1 \u{80}=1"),
        ("", "", 2, "a=2 b1=1 …"),
        ("b1", "", 9, "b2=1 b3=1 \u{80}=1"),
        ("b", "", 1, "b1=1 …"),
        ("", "b", 9, "b1=1 b2=1 b3=1"),
        ("", "b", 3, "b1=1 b2=1 b3=1"),
        ("", "b", 2, "b1=1 b2=1 …"),
        ("b2", "b", 9, "b3=1"),
        ("b3", "b", 9, ""),
        ("c", "b", 9, ""),
        ("", "x", 9, ""),
        ("\u{80}", "", 9, ""),
    ] {
        assert_eq!(page(&rados, "o", after, prefix, limit).await, expected, "after {after:?}, {prefix:?}, {limit}");
    }
    let seen =
        read(&rados, "o", [Look::Keys(vec![text("b2"), text("c"), text("a")]), Look::Keys(vec![])]).await.unwrap();
    let both = vec![(text("a"), text("2")), (text("b2"), text("1"))];
    assert_eq!(seen.found, [Found::Entries(both), Found::Entries(vec![])]);
    for look in [Look::Keys(vec![text("a")]), range("", "", 1), Look::Attributes, Look::Bytes { offset: 0, bytes: 0 }] {
        assert_eq!(read(&rados, "none", [look.clone()]).await, Err(OpError::Missing), "{look:?}");
    }
}

#[tokio::test]
async fn bodies() {
    let Some(rados) = common::connect("bodies") else { return };
    let whole = Bytes::from((0..4 << 20).map(|index: u32| (index / 7) as u8).collect::<Vec<_>>());
    rados.write(Pool::Bodies, "o", vec![Step::WriteAll(whole.clone())]).await.unwrap();
    for (offset, bytes) in
        [(0, 4 << 20), (0, 5 << 20), (1, 1), (4096, 100_000), ((4 << 20) - 1, 2), (4 << 20, 1), (9 << 20, 1), (0, 0)]
    {
        let seen = rados.read(Pool::Bodies, "o", vec![Look::Bytes { offset, bytes }]).await.unwrap();
        let from = (offset as usize).min(whole.len());
        let expected = whole.slice(from..(from + bytes).min(whole.len()));
        assert_eq!(seen.found, [Found::Bytes(expected)], "{bytes} from {offset}");
    }
    rados.write(Pool::Bodies, "o", vec![Step::WriteAll(text("short"))]).await.unwrap();
    let seen =
        rados.read(Pool::Bodies, "o", vec![Look::Bytes { offset: 0, bytes: 9 }, Look::Attributes]).await.unwrap();
    assert_eq!(seen.found, [Found::Bytes(text("short")), Found::Attributes(vec![])]);
    let unheard_of = rados.read(Pool::Bodies, "o", vec![Look::Bytes { offset: 0, bytes: usize::MAX }]).await;
    assert_eq!(failed(unheard_of), format!("no memory for {} bytes", usize::MAX));
}

#[tokio::test]
async fn zero_bytes_are_refused() {
    let Some(rados) = common::connect("zeros") else { return };
    for result in [
        write(&rados, "o\0", [Step::Remove]).await,
        write(&rados, "o", [put("a\0", "")]).await,
        write(&rados, "o", [Step::Delete(vec![text("\0")])]).await,
        write(&rados, "o", [compare("\0", Order::Equal, "")]).await,
        write(&rados, "o", [Step::AttributeIs { name: "\0", value: text("") }]).await,
        write(&rados, "o", [Step::SetAttribute { name: "\0".to_owned(), value: text("") }]).await,
        write(&rados, "o", [Step::RemoveAttribute { name: "\0".to_owned() }]).await,
        read(&rados, "o\0", []).await.map(|seen| seen.version),
        read(&rados, "o", [range("\0", "", 1)]).await.map(|seen| seen.version),
        read(&rados, "o", [range("", "\0", 1)]).await.map(|seen| seen.version),
        read(&rados, "o", [Look::Keys(vec![text("\0")])]).await.map(|seen| seen.version),
    ] {
        assert!(failed(result).contains("a zero byte in"));
    }
    write(&rados, "o", [put("k", "a\0value\0")]).await.unwrap();
    assert_eq!(page(&rados, "o", "", "", 9).await, "k=a\0value\0");
}

#[tokio::test]
async fn refusals_in_words() {
    let Some(rados) = common::connect("refusals") else { return };
    assert!(failed(write(&rados, &"n".repeat(5000), [put("k", "")]).await).contains("name too long"));
    assert_eq!(failed(write(&rados, "o", []).await), "no steps");
    assert!(!is_there(&rados, "o").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_at_a_time() {
    let Some(rados) = common::connect("thousand") else { return };
    let tasks: Vec<_> = (0..1000)
        .map(|index| {
            let rados = rados.clone();
            tokio::spawn(async move {
                let object = format!("o{}", index % 50);
                write(&rados, &object, [put(&format!("k{index}"), &index.to_string())]).await.unwrap();
                let seen = read(&rados, &object, [Look::Keys(vec![text(&format!("k{index}"))])]).await.unwrap();
                assert_eq!(seen.found, [Found::Entries(vec![(text(&format!("k{index}")), text(&index.to_string()))])]);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_needs_to_wait_for_an_answer() {
    let Some(rados) = common::connect("dropped") else { return };
    let body = Bytes::from(vec![7; 1 << 20]);
    rados.write(Pool::Bodies, "o", vec![Step::WriteAll(body.clone())]).await.unwrap();
    for round in 0..200 {
        let look = vec![Look::Bytes { offset: 0, bytes: 1 << 20 }, Look::Attributes];
        let mut reading = rados.read(Pool::Bodies, "o", look);
        // Sent by the first poll, and then forgotten.
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(reading.as_mut().poll(context))).await;
        assert!(polled.is_pending(), "{round}");
    }
    // The connection ends with the last of them, whoever drops it.
    let object = format!("o{}", std::process::id());
    let mut last = rados.write(Pool::Bodies, &object, vec![Step::WriteAll(body)]);
    let polled = std::future::poll_fn(|context| std::task::Poll::Ready(last.as_mut().poll(context))).await;
    assert!(polled.is_pending());
    let ended = rados.ended();
    drop(rados);
    drop(last);
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("librados shuts down, and says when it has");
}

#[tokio::test]
async fn it_has_not_ended_while_somebody_holds_it() {
    let Some(rados) = common::connect("held") else { return };
    let (other, ended) = (rados.clone(), rados.ended());
    tokio::pin!(ended);
    drop(rados);
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut ended).await.is_err());
    drop(other);
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("nobody holds it any more");
}
