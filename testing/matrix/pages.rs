//! Page blobs: pages written, cleared, cut, compared; and what nobody wrote.

use testing::{Answer, Request, World};

const TIB: u64 = 1 << 40;

/// A page blob of so many bytes.
async fn blob(bytes: u64) -> World {
    let world = World::new().await;
    assert_eq!(world.send(&Request::new("PUT box?restype=container")).await.status, 201);
    let put = Request::new("PUT box/b").header("x-ms-blob-type", "PageBlob");
    assert_eq!(world.send(&put.header("x-ms-blob-content-length", bytes.to_string())).await.status, 201);
    world
}

/// Writes pages of one letter, from the page with this number on.
async fn write(world: &World, page: u64, letters: &str) -> Answer {
    let content: Vec<u8> = letters.bytes().flat_map(|letter| [letter; 512]).collect();
    let range = format!("bytes={}-{}", page * 512, page * 512 + content.len() as u64 - 1);
    let put = Request::new("PUT box/b?comp=page").header("x-ms-page-write", "update").header("x-ms-range", range);
    world.send(&put.body(content)).await
}

async fn clear(world: &World, page: u64, pages: u64) -> Answer {
    let range = format!("bytes={}-{}", page * 512, (page + pages) * 512 - 1);
    let put = Request::new("PUT box/b?comp=page").header("x-ms-page-write", "clear");
    world.send(&put.header("x-ms-range", range)).await
}

/// One letter per page, `.` for zeros.
async fn read(world: &World, parameters: &str) -> String {
    let answer = world.send(&Request::new(&format!("GET box/b{parameters}"))).await;
    assert_eq!(answer.status, 200);
    let letter = |page: &[u8]| {
        assert!(page.iter().all(|byte| *byte == page[0]), "a page is whole");
        if page[0] == 0 { '.' } else { char::from(page[0]) }
    };
    answer.body.chunks(512).map(letter).collect()
}

/// Ranges in pages, `-` before what was cleared.
async fn ranges(world: &World, parameters: &str) -> String {
    let answer = world.send(&Request::new(&format!("GET box/b?comp=pagelist{parameters}"))).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let mut shown = Vec::new();
    for part in text.split("<Start>").skip(1) {
        let number = |text: &str| text.split_once('<').and_then(|(number, _)| number.parse::<u64>().ok()).expect("it");
        let (first, last) = (number(part), number(part.split_once("<End>").expect("an end").1));
        let begin = text.find(&format!("<Start>{first}<")).expect("it is there");
        let sign = if text[..begin].ends_with("<ClearRange>") { "-" } else { "" };
        shown.push(format!("{sign}{}..{}", first / 512, (last + 1) / 512));
    }
    shown.join(" ")
}

#[tokio::test]
async fn pages_are_written_and_cleared() {
    let world = blob(8 * 512).await;
    assert_eq!((read(&world, "").await.as_str(), ranges(&world, "").await.as_str()), ("........", ""));
    for (page, letters, shown, listed) in [
        (2, "aaaa", "..aaaa..", "2..6"),
        (3, "b", "..abaa..", "2..6"),
        (0, "c", "c.abaa..", "0..1 2..6"),
        (1, "ddddd", "cddddd..", "0..6"),
        (5, "eee", "cddddeee", "0..8"),
        (0, "ffffffff", "ffffffff", "0..8"),
        (7, "g", "fffffffg", "0..8"),
    ] {
        assert_eq!(write(&world, page, letters).await.status, 201);
        assert_eq!((read(&world, "").await.as_str(), ranges(&world, "").await.as_str()), (shown, listed));
    }
    for (page, pages, shown, listed) in [
        (1, 2, "f..ffffg", "0..1 3..8"),
        (1, 2, "f..ffffg", "0..1 3..8"),
        (2, 3, "f....ffg", "0..1 5..8"),
        (0, 8, "........", ""),
    ] {
        assert_eq!(clear(&world, page, pages).await.status, 201);
        assert_eq!((read(&world, "").await.as_str(), ranges(&world, "").await.as_str()), (shown, listed));
    }
}

/// What any writes and clears leave is what a plain array would have.
#[tokio::test]
async fn any_writes_leave_what_an_array_would() {
    let world = blob(16 * 512).await;
    let mut model = [b'.'; 16];
    let mut number: u64 = 7;
    for step in 0..200u64 {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (page, pages) = ((number >> 33) % 16, (number >> 40) % 6 + 1);
        let pages = pages.min(16 - page);
        let letter = if (number >> 50).is_multiple_of(3) { b'.' } else { b'a' + (step % 26) as u8 };
        let answer = match letter {
            b'.' => clear(&world, page, pages).await,
            _ => write(&world, page, &String::from(letter as char).repeat(pages as usize)).await,
        };
        assert_eq!(answer.status, 201);
        model[page as usize..(page + pages) as usize].fill(letter);
        assert_eq!(read(&world, "").await.as_bytes(), model, "after step {step}");
    }
}

#[tokio::test]
async fn size_costs_nothing() {
    let world = blob(8 * TIB).await;
    assert_eq!(write(&world, 8 * TIB / 512 - 1, "z").await.status, 201);
    assert_eq!(ranges(&world, "").await, format!("{}..{}", 8 * TIB / 512 - 1, 8 * TIB / 512));
    let part = Request::new("GET box/b").header("x-ms-range", format!("bytes={}-{}", 8 * TIB - 513, 8 * TIB - 511));
    assert_eq!(world.send(&part).await.body, b"\0zz");
    let refused = write(&world, 8 * TIB / 512, "z").await;
    assert_eq!((refused.status, refused.code()), (416, "InvalidPageRange"));
}

#[tokio::test]
async fn sizes_and_sequence_numbers() {
    let world = blob(4 * 512).await;
    assert_eq!(write(&world, 0, "abcd").await.header("x-ms-blob-sequence-number"), Some("0"));
    let set = |headers: &[(&str, &str)]| {
        headers
            .iter()
            .fold(Request::new("PUT box/b?comp=properties"), |request, (name, value)| request.header(name, *value))
    };
    let (length, action, number) =
        ("x-ms-blob-content-length", "x-ms-sequence-number-action", "x-ms-blob-sequence-number");
    let over = i64::MAX.to_string();
    for (headers, status, code, sequence) in [
        (&[(length, "1024")][..], 200, "", "0"),
        (&[(length, "2048")], 200, "", "0"),
        (&[(length, "1000")], 400, "InvalidHeaderValue", ""),
        (&[(length, "-512")], 400, "InvalidHeaderValue", ""),
        (&[(length, "8796093022720")], 400, "InvalidHeaderValue", ""),
        (&[(action, "max"), (number, "5")], 200, "", "5"),
        (&[(action, "max"), (number, "3")], 200, "", "5"),
        (&[(action, "update"), (number, "3")], 200, "", "3"),
        (&[(action, "increment")], 200, "", "4"),
        (&[(action, "increment"), (number, "3")], 400, "InvalidHeaderValue", ""),
        (&[(action, "max")], 400, "MissingRequiredHeader", ""),
        (&[(action, "less"), (number, "3")], 400, "InvalidHeaderValue", ""),
        (&[(action, "update"), (number, &over)], 200, "", &over),
        (&[(action, "increment")], 409, "SequenceNumberIncrementTooLarge", ""),
        (&[(action, "update"), (number, "7")], 200, "", "7"),
    ] {
        let answer = world.send(&set(headers)).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{headers:?}");
        assert_eq!(answer.header(number).unwrap_or_default(), sequence, "{headers:?}");
    }
    // What was cut off is gone when the blob grows again.
    assert_eq!(read(&world, "").await, "ab..");

    for (name, value, status) in [
        ("x-ms-if-sequence-number-le", "7", 201),
        ("x-ms-if-sequence-number-le", "6", 412),
        ("x-ms-if-sequence-number-lt", "8", 201),
        ("x-ms-if-sequence-number-lt", "7", 412),
        ("x-ms-if-sequence-number-eq", "7", 201),
        ("x-ms-if-sequence-number-eq", "8", 412),
        ("x-ms-if-sequence-number-eq", "-1", 400),
        ("x-ms-if-sequence-number-eq", "many", 400),
    ] {
        let put = Request::new("PUT box/b?comp=page").header("x-ms-page-write", "update");
        let put = put.header("x-ms-range", "bytes=0-511").header(name, value).body([b'x'; 512]);
        assert_eq!(world.send(&put).await.status, status, "{name}: {value}");
    }
}

#[tokio::test]
async fn differences_to_a_snapshot() {
    let world = blob(8 * 512).await;
    assert_eq!(write(&world, 0, "aaaa").await.status, 201);
    let take = || async {
        let answer = world.send(&Request::new("PUT box/b?comp=snapshot")).await;
        answer.header("x-ms-snapshot").expect("its id").to_string()
    };
    let first = take().await;
    assert_eq!(ranges(&world, &format!("&prevsnapshot={first}")).await, "");
    assert_eq!(write(&world, 1, "b").await.status, 201);
    assert_eq!(clear(&world, 3, 1).await.status, 201);
    assert_eq!(write(&world, 6, "cc").await.status, 201);
    assert_eq!(ranges(&world, &format!("&prevsnapshot={first}")).await, "1..2 -3..4 6..8");
    let second = take().await;
    assert_eq!(clear(&world, 0, 8).await.status, 201);
    assert_eq!(ranges(&world, &format!("&prevsnapshot={first}&snapshot={second}")).await, "1..2 -3..4 6..8");
    assert_eq!(ranges(&world, &format!("&prevsnapshot={second}")).await, "-0..3 -6..8");
    assert_eq!(ranges(&world, &format!("&snapshot={second}")).await, "0..3 6..8");
    assert_eq!(
        (read(&world, &format!("?snapshot={first}")).await.as_str(), read(&world, "").await.as_str()),
        ("aaaa....", "........")
    );

    let ask = |parameters: String| Request::new(&format!("GET box/b?comp=pagelist{parameters}"));
    for (parameters, status, code) in [
        ("&prevsnapshot=2020-01-01T00:00:00.0000000Z".to_string(), 409, "PreviousSnapshotNotFound"),
        ("&prevsnapshot=yesterday".to_string(), 400, "InvalidQueryParameterValue"),
        (format!("&prevsnapshot={second}&snapshot={first}"), 400, "PreviousSnapshotCannotBeNewer"),
    ] {
        let answer = world.send(&ask(parameters.clone())).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{parameters}");
    }
    // Put anew it has nothing to do with what it was.
    let put = Request::new("PUT box/b").header("x-ms-blob-type", "PageBlob").header("x-ms-blob-content-length", "512");
    assert_eq!(world.send(&put).await.status, 201);
    let answer = world.send(&ask(format!("&prevsnapshot={first}"))).await;
    assert_eq!((answer.status, answer.code()), (409, "BlobOverwritten"));
}

/// Many runs, in pages of a list and of storage.
#[tokio::test]
async fn long_lists_of_pages() {
    let world = blob(2000 * 512).await;
    for page in (0..2000).step_by(3) {
        assert_eq!(write(&world, page, "x").await.status, 201);
    }
    let count = |text: &str| text.split("<PageRange>").count() - 1;
    let (mut seen, mut marker) = (0, String::new());
    loop {
        let line = format!("GET box/b?comp=pagelist&maxresults=100{marker}");
        let answer = world.send(&Request::new(&line)).await.text();
        seen += count(&answer);
        match answer.split_once("<NextMarker>").and_then(|(_, rest)| rest.split_once('<')) {
            Some((next, _)) => marker = format!("&marker={next}"),
            None => break,
        }
        assert_eq!(count(&answer), 100);
    }
    assert_eq!(seen, 667);
    assert_eq!(read(&world, "").await, "x..".repeat(667)[..2000]);
    assert_eq!(clear(&world, 1, 1998).await.status, 201);
    assert_eq!(ranges(&world, "").await, "0..1");
}

#[tokio::test]
async fn pages_that_are_refused() {
    let world = blob(4 * 512).await;
    let put = |range: &str, bytes: usize| {
        let request = Request::new("PUT box/b?comp=page").header("x-ms-page-write", "update");
        let request = if range.is_empty() { request } else { request.header("x-ms-range", range) };
        request.body(vec![b'x'; bytes])
    };
    for (request, status, code) in [
        (put("", 512), 400, "MissingRequiredHeader"),
        (put("bytes=0-", 512), 400, "InvalidHeaderValue"),
        (put("bytes=1-512", 512), 416, "InvalidPageRange"),
        (put("bytes=0-510", 511), 416, "InvalidPageRange"),
        (put("bytes=0-511", 1024), 400, "InvalidHeaderValue"),
        (put("bytes=2048-2559", 512), 416, "InvalidPageRange"),
        (put("bytes=0-4194815", 4_194_816), 413, "RequestBodyTooLarge"),
        (put("bytes=0-511", 512).header("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="), 400, "Md5Mismatch"),
        (Request::new("PUT box/b?comp=page").header("x-ms-page-write", "change"), 400, "InvalidHeaderValue"),
        (Request::new("PUT box/b?comp=appendblock").body("x"), 409, "InvalidBlobType"),
        (Request::new("PUT box/b?comp=block&blockid=YQ==").body("x"), 409, "InvalidBlobType"),
        (Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").body("x"), 409, "InvalidBlobType"),
        (Request::new("PUT box/c").header("x-ms-blob-type", "PageBlob"), 400, "MissingRequiredHeader"),
        (
            Request::new("PUT box/c").header("x-ms-blob-type", "PageBlob").header("x-ms-blob-content-length", "1"),
            400,
            "InvalidHeaderValue",
        ),
    ] {
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{request:?}");
    }
    assert_eq!(read(&world, "").await, "....");
    let other = Request::new("PUT box/c").header("x-ms-blob-type", "BlockBlob").body("x");
    assert_eq!(world.send(&other).await.status, 201);
    for line in ["GET box/c?comp=pagelist", "PUT box/c?comp=page"] {
        let request = Request::new(line).header("x-ms-page-write", "clear").header("x-ms-range", "bytes=0-511");
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (409, "InvalidBlobType"), "{line}");
    }
}
