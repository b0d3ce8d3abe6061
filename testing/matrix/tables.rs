//! Tables through the front end: what the rows do not say (promises T1 to T5).

use contract::Service;
use env::Clock;
use testing::{AccountSas, Answer, Request, ServiceSas, World};

use crate::examples::{ENTITY, everything, table, world};

async fn insert(world: &World, body: &str) -> Answer {
    let answer = world.send(&table("POST people").body(body)).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer
}

fn etag(answer: &Answer) -> String {
    answer.header("etag").expect("an ETag").to_string()
}

/// The names of what a page shows, and where it goes on.
fn page(answer: &Answer) -> (Vec<String>, Option<(String, String)>) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let names = text.split("\"RowKey\":\"").skip(1).map(|rest| rest.split('"').next().unwrap_or_default().to_string());
    let header = |name: &str| answer.header(name).map(str::to_string);
    let next = header("x-ms-continuation-NextPartitionKey").zip(header("x-ms-continuation-NextRowKey"));
    (names.collect(), next)
}

/// T1: without If-Match another operation or an error, a stale one 412, `*` forces. T2: ETags where they are promised.
#[tokio::test]
async fn if_match() {
    for method in ["PUT", "PATCH", "MERGE", "DELETE"] {
        for (header, expected, code) in [
            (None, if method == "DELETE" { 400 } else { 204 }, "MissingRequiredHeader"),
            (Some("*"), 204, ""),
            (Some("current"), 204, ""),
            (Some("W/\"datetime'2020-01-01T00%3A00%3A00Z'\""), 412, "UpdateConditionNotSatisfied"),
            (Some("W/\"wrong\""), 412, "UpdateConditionNotSatisfied"),
            (Some("\"0x8D\""), 412, "UpdateConditionNotSatisfied"),
            (Some("test"), 400, "InvalidInput"),
            (Some("W/"), 400, "InvalidInput"),
            (Some("\""), 400, "InvalidInput"),
        ] {
            let world = world().await;
            let before = everything(&world).await;
            let current = etag(&world.send(&table(&format!("GET {ENTITY}"))).await);
            let mut request = table(&format!("{method} {ENTITY}"));
            if let Some(header) = header {
                request = request.header("If-Match", if header == "current" { &current } else { header });
            }
            if method != "DELETE" {
                request = request.body("{\"New\":1}");
            }
            let answer = world.send(&request).await;
            assert_eq!(answer.status, expected, "{method} {header:?} {}", answer.text());
            if expected >= 400 {
                assert_eq!(answer.code(), code, "{method} {header:?}");
                assert!(answer.text().starts_with(&format!("{{\"odata.error\":{{\"code\":\"{code}\"")));
                assert_eq!(everything(&world).await, before);
                continue;
            }
            assert_eq!(answer.header("etag").is_some(), method != "DELETE");
            let now = world.send(&table(&format!("GET {ENTITY}"))).await;
            match method {
                "DELETE" => assert_eq!((now.status, now.code()), (404, "ResourceNotFound")),
                _ => {
                    assert!(etag(&now) > current);
                    assert_eq!(etag(&now), etag(&answer));
                    // Replacing drops what is not sent, merging keeps it.
                    assert_eq!(now.text().contains("old@example.org"), method != "PUT", "{method}");
                    assert!(now.text().contains("\"New\":1"));
                }
            }
        }
        // What is not there is not there, `*` or not.
        let world = world().await;
        let missing = table(&format!("{method} people(PartitionKey='a',RowKey='none')")).header("If-Match", "*");
        let answer = world.send(&if method == "DELETE" { missing } else { missing.body("{}") }).await;
        assert_eq!((answer.status, answer.code()), (404, "ResourceNotFound"), "{method}");
    }
}

#[tokio::test]
async fn conditions_nobody_judges_are_refused() {
    let world = world().await;
    let before = everything(&world).await;
    for (name, value) in [("If-None-Match", "*"), ("If-Modified-Since", "Fri, 02 Jan 2026 03:04:05 GMT")] {
        for request in [
            table(&format!("PUT {ENTITY}")).body("{}"),
            table(&format!("DELETE {ENTITY}")).header("If-Match", "*"),
            table("POST people").body("{\"PartitionKey\":\"a\",\"RowKey\":\"c\"}"),
        ] {
            let answer = world.send(&request.header(name, value)).await;
            assert_eq!((answer.status, answer.code()), (400, "ConditionHeadersNotSupported"));
        }
    }
    assert_eq!(everything(&world).await, before);
}

/// The clock stands still: ETags grow all the same, also over a deletion.
#[tokio::test]
async fn etags_grow_within_a_tick() {
    let world = world().await;
    let mut last = String::new();
    for n in 0..20 {
        let answer = world.send(&table(&format!("PUT {ENTITY}")).body(format!("{{\"n\":{n}}}"))).await;
        assert!(etag(&answer) > last || etag(&answer).len() > last.len(), "{last}");
        last = etag(&answer);
    }
    world.send(&table(&format!("DELETE {ENTITY}")).header("If-Match", "*")).await;
    let again = insert(&world, "{\"PartitionKey\":\"a\",\"RowKey\":\"b\"}").await;
    assert_ne!(etag(&again), last);
    let stale = table(&format!("PUT {ENTITY}")).header("If-Match", last).body("{}");
    assert_eq!(world.send(&stale).await.status, 412);
}

#[tokio::test]
async fn tables_come_and_go() {
    let world = world().await;
    let create = |name: &str| table("POST Tables").body(format!("{{\"TableName\":\"{name}\"}}"));
    for (name, status, code) in [
        ("places", 201, ""),
        ("Places", 409, "TableAlreadyExists"),
        ("PEOPLE", 409, "TableAlreadyExists"),
        ("ab", 400, "OutOfRangeInput"),
        ("a-b", 400, "InvalidResourceName"),
        ("tables", 400, "InvalidResourceName"),
    ] {
        let answer = world.send(&create(name)).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{name}");
    }
    assert_eq!(world.send(&create("CamelCase")).await.status, 201);
    let shown = world.send(&table("GET Tables('camelcase')")).await;
    assert!(shown.text().contains("\"TableName\":\"CamelCase\""), "{}", shown.text());
    assert_eq!(world.send(&table("GET PEOPLE(PartitionKey='a',RowKey='b')")).await.status, 200);
    for (line, status, code) in [
        ("GET Tables('nobody')", 404, "ResourceNotFound"),
        ("DELETE Tables('nobody')", 404, "ResourceNotFound"),
        ("GET nobody()", 404, "TableNotFound"),
        ("GET nobody(PartitionKey='a',RowKey='b')", 404, "TableNotFound"),
        ("GET nobody?comp=acl", 404, "TableNotFound"),
        ("DELETE Tables('PEOPLE')", 204, ""),
        ("GET people()", 404, "TableNotFound"),
    ] {
        let answer = world.send(&table(line)).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{line} {}", answer.text());
    }
    // Created again it is another table, and empty.
    assert_eq!(world.send(&create("people")).await.status, 201);
    assert_eq!(page(&world.send(&table("GET people()")).await).0.len(), 0);
    // By pages, and by name.
    let first = world.send(&table("GET Tables?$top=1")).await;
    assert!(first.text().contains("CamelCase"));
    let next = first.header("x-ms-continuation-NextTableName").expect("more").to_string();
    let second = world.send(&table(&format!("GET Tables?$top=5&NextTableName={next}"))).await;
    assert!(second.text().contains("people") && second.text().contains("places"));
    assert_eq!(second.header("x-ms-continuation-NextTableName"), None);
    let some = world.send(&table("GET Tables?$filter=TableName ge 'pl' and TableName lt 'pm'")).await;
    assert!(some.text().ends_with("\"value\":[{\"TableName\":\"places\"}]}"), "{}", some.text());
}

#[tokio::test]
async fn preferences_and_methods_in_disguise() {
    let world = world().await;
    let body = |row: &str| format!("{{\"PartitionKey\":\"a\",\"RowKey\":\"{row}\"}}");
    for (row, prefer, status, applied) in [
        ("1", None, 201, None),
        ("2", Some("return-content"), 201, Some("return-content")),
        ("3", Some("return-no-content"), 204, Some("return-no-content")),
        ("3", Some("return-no-content"), 409, Some("return-no-content")),
    ] {
        let mut request = table("POST people").body(body(row));
        if let Some(prefer) = prefer {
            request = request.header("Prefer", prefer);
        }
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.header("preference-applied")), (status, applied), "{row} {prefer:?}");
        if status == 204 {
            let link = format!("http://127.0.0.1:10000/devstoreaccount1/people(PartitionKey='a',RowKey='{row}')");
            assert_eq!((answer.header("location"), answer.header("dataserviceid")), (Some(&*link), Some(&*link)));
        }
    }
    let disguised = |method: &str| table(&format!("POST {ENTITY}")).header("X-HTTP-Method", method).body("{\"n\":1}");
    for (request, status, code) in [
        (disguised("MERGE"), 204, ""),
        (disguised("PATCH").header("If-Match", "*"), 204, ""),
        (disguised("PUT"), 204, ""),
        (disguised("GET"), 400, "XMethodIncorrectValue"),
        (disguised("PUT").header("X-HTTP-Method", "PUT"), 400, "XMethodIncorrectCount"),
        (table(&format!("PUT {ENTITY}")).header("X-HTTP-Method", "MERGE").body("{}"), 400, "XMethodNotUsingPost"),
        (disguised("DELETE").header("If-Match", "*").body(""), 204, ""),
    ] {
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{}", answer.text());
    }
}

#[tokio::test]
async fn what_is_refused() {
    let world = world().await;
    let before = everything(&world).await;
    let long = "x".repeat(513);
    let post = |body: &str| table("POST people").body(body);
    let many: Vec<String> = (0..253).map(|n| format!("\"p{n}\":1")).collect();
    let large: Vec<String> = (0..17).map(|n| format!("\"p{n}\":\"{}\"", "x".repeat(32 * 1024))).collect();
    let with = |rest: &str| format!("{{\"PartitionKey\":\"a\",\"RowKey\":\"c\",{rest}}}");
    let get = |accept: &str| Request::new("GET people()").of(Service::Table).header("Accept", accept);
    for (request, status, code) in [
        (post("{\"PartitionKey\":\"a\"}"), 400, "PropertiesNeedValue"),
        (post("{\"RowKey\":\"a\"}"), 400, "PropertiesNeedValue"),
        (post("{}"), 400, "PropertiesNeedValue"),
        (post("no json"), 400, "InvalidInput"),
        (post(&with("\"p\":\"abc\",\"p@odata.type\":\"Edm.Int64\"")), 400, "InvalidInput"),
        (post(&with("\"p\":\"abc\",\"p@odata.type\":\"Edm.Money\"")), 400, "InvalidValueType"),
        (post(&with("\"p\":1,\"p\":2")), 400, "DuplicatePropertiesSpecified"),
        (post(&with("\"a-b\":1")), 400, "PropertyNameInvalid"),
        (post(&with(&format!("\"{}\":1", "a".repeat(256)))), 400, "PropertyNameTooLong"),
        (post(&with(&many.join(","))), 400, "TooManyProperties"),
        (post(&with(&large.join(","))), 400, "EntityTooLarge"),
        (post(&with(&format!("\"p\":\"{}\"", "x".repeat(32 * 1024 + 1)))), 400, "PropertyValueTooLarge"),
        (post(&format!("{{\"PartitionKey\":\"{long}\",\"RowKey\":\"c\"}}")), 400, "PropertyValueTooLarge"),
        (post("{\"PartitionKey\":\"a/b\",\"RowKey\":\"c\"}"), 400, "OutOfRangeInput"),
        (post("{\"PartitionKey\":\"a\",\"RowKey\":\"b\"}"), 409, "EntityAlreadyExists"),
        (table(&format!("PUT {ENTITY}")).body("{\"PartitionKey\":\"other\"}"), 400, "InvalidInput"),
        (table("PUT people(PartitionKey='a')").body("{}"), 400, "InvalidUri"),
        (table("GET people(PartitionKey='a',RowKey='b')/Email"), 400, "InvalidUri"),
        (table("GET people()?$filter=Email eq"), 400, "InvalidInput"),
        (table("GET people()?$filter=startswith(Email,'o')"), 501, "NotImplemented"),
        (table("GET people()?$orderby=Email"), 501, "NotImplemented"),
        (table("GET people()?$unknown=1"), 400, "InvalidInput"),
        (table("GET people()?$top=1&$top=2"), 400, "InvalidInput"),
        (table("GET people()?$top=0"), 400, "InvalidInput"),
        (table("GET people()?$top=1001"), 400, "InvalidInput"),
        (table("GET people()?NextPartitionKey=abc"), 400, "InvalidQueryParameterValue"),
        (table("GET people()?NextRowKey=1!4!YWJj"), 400, "InvalidQueryParameterValue"),
        (table("GET people()?$format=application/atom+xml"), 415, "AtomFormatNotSupported"),
        (get("application/atom+xml"), 415, "AtomFormatNotSupported"),
        (get("application/json").header("x-ms-version", "2011-08-18"), 415, ""),
        (table("POST $batch").body("--b--"), 400, "InvalidInput"),
        (table("DELETE people"), 405, "UnsupportedHttpVerb"),
        (table("GET my-table()"), 400, "InvalidResourceName"),
    ] {
        let line = format!("{} {} {:?}", request.method, request.path, request.query);
        let answer = world.send(&request).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{line} {}", answer.text());
    }
    let atom = post(&with("\"p\":1"));
    let atom = Request { headers: vec![("Content-Type".into(), "application/atom+xml;type=entry".into())], ..atom };
    assert_eq!(world.send(&atom).await.code(), "AtomFormatNotSupported");
    let answer = world.send(&table("GET people()?$filter=aaa bbb ccc")).await;
    assert!(
        answer.text().contains("\"value\":\"Syntax error at position 7 in 'aaa bbb ccc'.\\nRequestId:"),
        "{}",
        answer.text()
    );
    let answer = world.send(&get("application/atom+xml,application/xml")).await;
    assert!(answer.text().contains("<code>AtomFormatNotSupported</code>"), "{}", answer.text());
    assert_eq!(everything(&world).await, before);
}

#[tokio::test]
async fn pages() {
    let world = world().await;
    for n in 0..25 {
        insert(&world, &format!("{{\"PartitionKey\":\"p{}\",\"RowKey\":\"{n:03}\",\"n\":{n}}}", n % 3)).await;
    }
    for filter in ["", "&$filter=PartitionKey eq 'p1'", "&$filter=n ge 10", "&$filter=n ge 10 and PartitionKey eq 'p2'"]
    {
        let whole = page(&world.send(&table(&format!("GET people()?$top=1000{filter}"))).await);
        assert_eq!(whole.1, None);
        let (mut found, mut next) = (Vec::new(), String::new());
        loop {
            let (some, more) = page(&world.send(&table(&format!("GET people()?$top=4{filter}{next}"))).await);
            assert!(some.len() <= 4);
            found.extend(some);
            match more {
                Some((pk, rk)) => next = format!("&NextPartitionKey={pk}&NextRowKey={rk}"),
                None => break,
            }
        }
        assert_eq!(found, whole.0, "{filter}");
        assert!(!found.is_empty());
    }
    // Old clients write blanks as pluses, and the service reads them so in every query.
    let spaced = table("GET people()?$filter=n ge 20 and PartitionKey eq 'p2'").bytes(world.clock.now());
    let plus = String::from_utf8(spaced).expect("text").replace("%20", "+");
    assert!(plus.contains("n+ge+20"));
    assert_eq!(page(&world.send_raw_to(Service::Table, plus.as_bytes()).await).0, ["020", "023"]);
    let selected = world.send(&table("GET people()?$filter=RowKey eq '007'&$select=n,none")).await;
    assert!(
        selected.text().contains("$metadata#people&$select=n,none\",\"value\":[{\"odata.etag\":"),
        "{}",
        selected.text()
    );
    assert!(selected.text().ends_with(",\"n\":7,\"none\":null}]}"), "{}", selected.text());
}

fn batch(parts: &[(&str, &str, &str)]) -> Request {
    let mut body = String::from("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n");
    for (at, (line, headers, json)) in parts.iter().enumerate() {
        let (method, path) = line.split_once(' ').expect("METHOD path");
        body.push_str(&format!(
            "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             {method} http://127.0.0.1:10000/devstoreaccount1/{path} HTTP/1.1\r\nContent-ID: {at}\r\n\
             Content-Type: application/json\r\nAccept: application/json;odata=minimalmetadata\r\n{headers}\r\n{json}\r\n"
        ));
    }
    body.push_str("--c--\r\n--b--\r\n");
    Request::new("POST $batch").of(Service::Table).header("Content-Type", "multipart/mixed; boundary=b").body(body)
}

#[tokio::test]
async fn transactions() {
    let world = world().await;
    let done = world
        .send(&batch(&[
            ("POST people", "Prefer: return-no-content\r\n", "{\"PartitionKey\":\"a\",\"RowKey\":\"c\",\"n\":1}"),
            ("POST people", "", "{\"PartitionKey\":\"a\",\"RowKey\":\"it's\"}"),
            ("PUT people(PartitionKey='a',RowKey='d')", "", "{\"n\":2}"),
            ("MERGE people(PartitionKey='a',RowKey='b')", "If-Match: *\r\n", "{\"n\":3}"),
        ]))
        .await;
    assert_eq!(done.status, 202, "{}", done.text());
    let statuses: Vec<String> = done.text().split("HTTP/1.1 ").skip(1).map(|rest| rest[..3].to_string()).collect();
    assert_eq!(statuses, ["204", "201", "204", "204"], "{}", done.text());
    assert!(done.text().contains("Content-ID: 3\r\n"));
    assert!(done.text().contains("RowKey='it''s'"));
    assert_eq!(page(&world.send(&table("GET people()")).await).0, ["b", "c", "d", "it's"]);

    let before = everything(&world).await;
    let hundred_and_one: Vec<String> =
        (0..101).map(|n| format!("PUT people(PartitionKey='a',RowKey='x{n}')")).collect();
    let hundred_and_one: Vec<(&str, &str, &str)> =
        hundred_and_one.iter().map(|line| (line.as_str(), "", "{}")).collect();
    let put = ("PUT people(PartitionKey='a',RowKey='z')", "", "{}");
    for (parts, status, code, index) in [
        (vec![put, ("POST people", "", "{\"PartitionKey\":\"a\",\"RowKey\":\"b\"}")], 409, "EntityAlreadyExists", 1),
        (vec![put, put], 400, "InvalidDuplicateRow", 1),
        (
            vec![put, ("PUT people(PartitionKey='b',RowKey='z')", "", "{}")],
            400,
            "CommandsInBatchActOnDifferentPartitions",
            1,
        ),
        (vec![put, ("PUT places(PartitionKey='a',RowKey='z')", "", "{}")], 400, "InvalidInput", 1),
        (vec![put, put, ("PUT people(PartitionKey='a',RowKey='y')", "", "{\"p\":[]}")], 400, "InvalidInput", 2),
        (
            vec![put, ("DELETE people(PartitionKey='a',RowKey='none')", "If-Match: *\r\n", "")],
            404,
            "ResourceNotFound",
            1,
        ),
        (
            vec![put, ("DELETE people(PartitionKey='a',RowKey='b')", "If-Match: W/\"1\"\r\n", "")],
            412,
            "UpdateConditionNotSatisfied",
            1,
        ),
        (vec![put, ("DELETE people(PartitionKey='a',RowKey='b')", "", "")], 400, "MissingRequiredHeader", 1),
        (vec![put, ("GET people(PartitionKey='a',RowKey='b')", "", "")], 400, "InvalidInput", 1),
        (vec![("PUT nobody(PartitionKey='a',RowKey='b')", "", "{}")], 404, "TableNotFound", 0),
        (vec![put, ("POST Tables", "", "{\"TableName\":\"places\"}")], 400, "InvalidInput", 1),
        (hundred_and_one, 400, "InvalidInput", 99),
    ] {
        let answer = world.send(&batch(&parts)).await;
        let text = answer.text();
        assert_eq!(answer.status, 202, "{text}");
        assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{text}");
        assert!(text.contains(&format!("HTTP/1.1 {status} ")), "{code}: {text}");
        assert!(
            text.contains(&format!("\"code\":\"{code}\",\"message\":{{\"lang\":\"en-US\",\"value\":\"{index}:")),
            "{code}: {text}"
        );
        assert_eq!(everything(&world).await, before, "{code} changed something");
    }
    // Another account is none of this batch's business.
    let mut elsewhere = batch(&[put]);
    elsewhere.body =
        String::from_utf8(elsewhere.body).expect("text").replace("devstoreaccount1/", "other/").into_bytes();
    assert!(world.send(&elsewhere).await.text().contains("InvalidInput"));
    // The address may be relative, to the host or to the service.
    for prefix in ["/devstoreaccount1/", ""] {
        let mut relative = batch(&[put]);
        let body = String::from_utf8(relative.body).expect("text");
        relative.body = body.replace("http://127.0.0.1:10000/devstoreaccount1/", prefix).into_bytes();
        let answer = world.send(&relative).await;
        assert!(answer.text().contains("HTTP/1.1 204 No Content"), "{prefix} {}", answer.text());
    }
}

#[tokio::test]
async fn a_query_in_a_batch() {
    let world = world().await;
    let ask = |target: &str| {
        let body = format!(
            "--b\r\nContent-Type: application/http\r\n\r\nGET /devstoreaccount1/{target} HTTP/1.1\r\nAccept: application/json;odata=nometadata\r\n\r\n--b--"
        );
        Request::new("POST $batch").of(Service::Table).header("Content-Type", "multipart/mixed; boundary=b").body(body)
    };
    for (target, status, found) in [
        (ENTITY, "200 OK", "\"Email\":\"old@example.org\""),
        ("people()?$filter=RowKey%20eq%20'b'&$select=Email", "200 OK", "{\"value\":[{\"Email\":\"old@example.org\"}]}"),
        (
            "people(PartitionKey='a',RowKey='none')",
            "404 Not Found",
            "\"value\":\"0:The specified resource does not exist.",
        ),
        ("Tables", "400 Bad Request", "\"code\":\"InvalidInput\""),
    ] {
        let answer = world.send(&ask(target)).await;
        assert_eq!(answer.status, 202);
        let text = answer.text();
        assert!(text.contains(&format!("HTTP/1.1 {status}\r\n")) && text.contains(found), "{target} {text}");
        assert!(!text.contains("changesetresponse"));
    }
}

/// A token for some keys of one table: every read, write, query and part of a batch keeps to them.
#[tokio::test]
async fn tokens_keep_to_their_keys() {
    let world = world().await;
    for (partition, row) in [("a", "a"), ("b", "1"), ("b", "5"), ("c", "3"), ("d", "1"), ("d", "9"), ("e", "1")] {
        insert(&world, &format!("{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"}}")).await;
    }
    world.send(&table("POST Tables").body("{\"TableName\":\"places\"}")).await;
    let all =
        ServiceSas { permissions: "raud".into(), ..ServiceSas::all(Service::Table, "", "people", world.clock.now()) };
    let keys = |keys: [&str; 4]| ServiceSas { range: keys.map(str::to_string), ..all.clone() };
    let with = |request: Request, sas: &ServiceSas| request.with_sas(sas.parameters());
    for (range, expected) in [
        (["", "", "", ""], "b a 1 5 3 1 9 1"),
        (["b", "", "d", ""], "1 5 3 1 9"),
        (["b", "2", "d", "5"], "5 3 1"),
        (["d", "", "", ""], "1 9 1"),
        (["", "", "b", "1"], "b a 1"),
        (["b", "5", "b", "5"], "5"),
        (["x", "", "", ""], ""),
    ] {
        let sas = keys(range);
        for query in ["GET people()", "GET people()?$filter=RowKey ne 'zz'", "GET PEOPLE?$top=1000"] {
            let answer = world.send(&with(table(query), &sas)).await;
            let mut found = page(&answer).0.join(" ");
            found = found.replace("a b ", "b a ");
            let expected = expected.replace("b a ", "a b ").replace("a b ", "b a ");
            assert_eq!(found, expected, "{range:?} {query}");
        }
    }
    let sas = keys(["b", "2", "d", "5"]);
    let before = everything(&world).await;
    for (pk, rk) in [("a", "b"), ("b", "1"), ("d", "9"), ("e", "1")] {
        let entity = format!("people(PartitionKey='{pk}',RowKey='{rk}')");
        let read = world.send(&with(table(&format!("GET {entity}")), &sas)).await;
        assert_eq!(read.status, 404, "{entity}");
        for request in [
            table(&format!("PUT {entity}")).body("{}"),
            table(&format!("PUT {entity}")).header("If-Match", "*").body("{}"),
            table(&format!("PATCH {entity}")).body("{}"),
            table(&format!("DELETE {entity}")).header("If-Match", "*"),
            table("POST people").body(format!("{{\"PartitionKey\":\"{pk}\",\"RowKey\":\"{rk}\"}}")),
            batch(&[(&format!("PUT {entity}"), "", "{}")]),
        ] {
            let answer = world.send(&with(request, &sas)).await;
            assert_eq!((answer.status, answer.code()), (403, "AuthorizationFailure"), "{entity} {}", answer.text());
        }
    }
    // Another table, however it is named; and what no token of a table is for.
    for request in [
        table("GET places()"),
        table("POST places").body("{\"PartitionKey\":\"c\",\"RowKey\":\"1\"}"),
        batch(&[("PUT places(PartitionKey='c',RowKey='1')", "", "{}")]),
    ] {
        let answer = world.send(&with(request, &sas)).await;
        assert_eq!((answer.status, answer.code()), (403, "AuthenticationFailed"), "{}", answer.text());
    }
    for (request, code) in [
        (table("GET Tables"), "AuthenticationFailed"),
        (table("DELETE Tables('people')"), "AuthorizationFailure"),
        (Request::new("GET people?comp=acl").of(Service::Table), "AuthorizationFailure"),
    ] {
        assert_eq!(world.send(&with(request, &all)).await.code(), code);
    }
    assert_eq!(world.send(&with(table("GET people()"), &keys(["", "1", "", ""]))).await.code(), "AuthenticationFailed");
    assert_eq!(everything(&world).await, before);
    // Inside, each letter opens what it is for, alone and in a batch.
    let entity = "people(PartitionKey='c',RowKey='3')";
    let fresh = "{\"PartitionKey\":\"c\",\"RowKey\":\"new\"}";
    for (line, headers, body, needed) in [
        (format!("GET {entity}"), "", "", "r"),
        ("POST people".into(), "", fresh, "a"),
        (format!("PUT {entity}"), "", "{}", "au"),
        (format!("PUT {entity}"), "If-Match: *\r\n", "{}", "u"),
        (format!("PATCH {entity}"), "", "{}", "au"),
        (format!("DELETE {entity}"), "If-Match: *\r\n", "", "d"),
    ] {
        let lone = |sas: &ServiceSas| {
            let request = headers
                .split_once(": ")
                .into_iter()
                .fold(table(&line), |request, (name, value)| request.header(name, value.trim()));
            with(request.body(body), sas)
        };
        for letter in needed.chars() {
            let lacking: String = "raud".chars().filter(|c| *c != letter).collect();
            let lacking = ServiceSas { permissions: lacking, ..sas.clone() };
            assert_eq!(world.send(&lone(&lacking)).await.code(), "AuthorizationPermissionMismatch", "{line} {letter}");
            if !line.starts_with("GET") {
                let answer = world.send(&with(batch(&[(&line, headers, body)]), &lacking)).await;
                assert_eq!((answer.status, answer.code()), (403, "AuthorizationPermissionMismatch"), "{line} {letter}");
            }
        }
        let enough = ServiceSas { permissions: needed.into(), ..sas.clone() };
        let answer = world.send(&lone(&enough)).await;
        assert!(answer.status < 300, "{line} {}", answer.text());
    }
    let account = AccountSas { permissions: "r".into(), ..AccountSas::all(world.clock.now()) };
    let answer = world
        .send(&batch(&[("PUT people(PartitionKey='c',RowKey='1')", "", "{}")]).with_sas(account.parameters()))
        .await;
    assert_eq!((answer.status, answer.code()), (403, "AuthorizationPermissionMismatch"));
}

#[tokio::test]
async fn stored_policies() {
    let world = world().await;
    let set = |permissions: &str| {
        let xml = format!(
            "<SignedIdentifiers><SignedIdentifier><Id>p</Id><AccessPolicy><Expiry>2027-01-01</Expiry>\
             <Permission>{permissions}</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
        );
        Request::new("PUT people?comp=acl").of(Service::Table).body(xml)
    };
    let sas = ServiceSas {
        permissions: String::new(),
        expiry: String::new(),
        policy: "p".into(),
        ..ServiceSas::all(Service::Table, "", "people", world.clock.now())
    };
    let read = || table("GET people()").with_sas(sas.parameters());
    assert_eq!(world.send(&read()).await.code(), "AuthenticationFailed");
    assert_eq!(world.send(&set("r")).await.status, 204);
    assert_eq!(world.send(&read()).await.status, 200);
    let shown = world.send(&Request::new("GET people?comp=acl").of(Service::Table)).await.text();
    assert!(
        shown.contains(
            "<Id>p</Id><AccessPolicy><Expiry>2027-01-01T00:00:00.0000000Z</Expiry><Permission>r</Permission>"
        )
    );
    assert_eq!(world.send(&set("a")).await.status, 204);
    assert_eq!(world.send(&read()).await.code(), "AuthorizationPermissionMismatch");
    assert_eq!(world.send(&Request::new("PUT people?comp=acl").of(Service::Table)).await.status, 204);
    assert_eq!(world.send(&read()).await.code(), "AuthenticationFailed");
    let missing =
        world.send(&Request::new("PUT nobody?comp=acl").of(Service::Table).body("<SignedIdentifiers />")).await;
    assert_eq!((missing.status, missing.code()), (404, "TableNotFound"));
    assert!(missing.text().contains("<Code>TableNotFound</Code>"));
}

/// Optimistic loops: of all who read the same state one wins, and no increment is lost.
#[tokio::test]
async fn no_update_is_lost() {
    let world = world().await;
    world.send(&table(&format!("PUT {ENTITY}")).body("{\"n\":0}")).await;
    let increment = async || {
        for _ in 0..20 {
            loop {
                let read = world.send(&table(&format!("GET {ENTITY}"))).await;
                let text = read.text();
                let n: u32 = text
                    .split("\"n\":")
                    .nth(1)
                    .and_then(|rest| rest.split('}').next())
                    .and_then(|n| n.parse().ok())
                    .expect("n");
                let write = table(&format!("PUT {ENTITY}"))
                    .header("If-Match", etag(&read))
                    .body(format!("{{\"n\":{}}}", n + 1));
                match world.send(&write).await.status {
                    204 => break,
                    412 => tokio::task::yield_now().await,
                    other => panic!("{other}"),
                }
            }
        }
    };
    tokio::join!(increment(), increment(), increment(), increment(), increment());
    let last = world.send(&table(&format!("GET {ENTITY}"))).await.text();
    assert!(last.contains("\"n\":100}"), "{last}");
}

/// T5: transactions that give all rows of a partition the same number; no reader sees two.
#[tokio::test]
async fn no_reader_sees_half() {
    let world = world().await;
    let put = |n: usize| {
        let lines: Vec<String> = (0..10).map(|row| format!("PUT people(PartitionKey='t',RowKey='{row}')")).collect();
        let body = format!("{{\"n\":{n}}}");
        let parts: Vec<(&str, &str, &str)> = lines.iter().map(|line| (line.as_str(), "", body.as_str())).collect();
        batch(&parts)
    };
    world.send(&put(0)).await;
    let write = async || {
        for n in 1..60 {
            assert_eq!(world.send(&put(n)).await.status, 202);
        }
    };
    let read = async |line: &str| {
        for _ in 0..60 {
            let text = world.send(&table(line)).await.text();
            let numbers: Vec<&str> =
                text.split("\"n\":").skip(1).map(|rest| rest.split('}').next().unwrap_or_default()).collect();
            assert_eq!(numbers.len(), 10);
            assert!(numbers.iter().all(|n| *n == numbers[0]), "torn: {numbers:?}");
        }
    };
    tokio::join!(
        write(),
        read("GET people()?$filter=PartitionKey eq 't'"),
        read("GET people()?$filter=PartitionKey ge 't'"),
        read("GET people()?$filter=n ge 0"),
        read("GET people()?$filter=PartitionKey eq 't' and RowKey ge '0'"),
    );
}
