use super::*;
use crate::wire::ResponseBody;

/// One line per part: method, target, Content-ID, If-Match, body.
fn show(content_type: &str, body: &str) -> String {
    let one = |part: &Part<'_>| {
        let header = |name| part.header(name).unwrap_or("-").to_string();
        let body = String::from_utf8_lossy(part.body).trim().to_string();
        format!("{} {} {} {} {body}", part.method, part.target, header("content-id"), header("if-match"))
    };
    match parse(content_type, body.as_bytes()) {
        Ok(Batch::Changes(parts)) => parts.iter().map(one).collect::<Vec<_>>().join("\n"),
        Ok(Batch::Query(part)) => format!("query {}", one(&part)),
        Err(refusal) => refusal.code.name().to_string(),
    }
}

/// What each client library writes: the names in the comments are theirs.
#[test]
fn what_clients_send() {
    // .NET: Azure.Data.Tables
    let dotnet = "--batch_1\r\nContent-Type: multipart/mixed; boundary=\"changeset_2\"\r\n\r\n--changeset_2\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPOST https://acct.table.core.windows.net/People?$format=application%2Fjson%3Bodata%3Dminimalmetadata HTTP/1.1\r\nHost: acct.table.core.windows.net\r\nx-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\nPrefer: return-no-content\r\nAccept: application/json; odata=minimalmetadata\r\nContent-Type: application/json; odata=nometadata\r\n\r\n{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\r\n--changeset_2\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nDELETE https://acct.table.core.windows.net/People(PartitionKey='p',RowKey='2')?$format=application%2Fjson%3Bodata%3Dminimalmetadata HTTP/1.1\r\nHost: acct.table.core.windows.net\r\nIf-Match: *\r\nAccept: application/json; odata=minimalmetadata\r\n\r\n--changeset_2--\r\n\r\n--batch_1--\r\n";
    assert_eq!(
        show("multipart/mixed; boundary=\"batch_1\"", dotnet),
        "POST https://acct.table.core.windows.net/People?$format=application%2Fjson%3Bodata%3Dminimalmetadata - - {\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\nDELETE https://acct.table.core.windows.net/People(PartitionKey='p',RowKey='2')?$format=application%2Fjson%3Bodata%3Dminimalmetadata - * "
    );
    // Python: azure-data-tables
    let python = "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_2\r\n\r\n--changeset_2\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 0\r\n\r\nPOST http://127.0.0.1:10002/dev/People HTTP/1.1\r\nx-ms-version: 2019-02-02\r\nDataServiceVersion: 3.0\r\nContent-Type: application/json;odata=nometadata\r\nAccept: application/json;odata=minimalmetadata\r\nContent-Length: 33\r\nx-ms-date: Fri, 02 Jan 2026 03:04:05 GMT\r\n\r\n{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\r\n--changeset_2\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: 1\r\n\r\nPATCH http://127.0.0.1:10002/dev/People(PartitionKey='p',RowKey='it%27%27s') HTTP/1.1\r\nIf-Match: W/\"datetime'2026-01-02T03%3A04%3A05Z'\"\r\nContent-Length: 7\r\n\r\n{\"a\":1}\r\n--changeset_2--\r\n\r\n--batch_1--\r\n";
    assert_eq!(
        show("multipart/mixed; boundary=batch_1", python),
        "POST http://127.0.0.1:10002/dev/People 0 - {\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\nPATCH http://127.0.0.1:10002/dev/People(PartitionKey='p',RowKey='it%27%27s') 1 W/\"datetime'2026-01-02T03%3A04%3A05Z'\" {\"a\":1}"
    );
    // JavaScript: @azure/data-tables, whose lines end with LF and whose last delimiter lacks its hyphens
    let javascript = "--batch_1\ncontent-type: multipart/mixed; boundary=changeset_2\n\n\n--changeset_2\ncontent-type: application/http\ncontent-transfer-encoding: binary\n\nPUT http://127.0.0.1:10002/dev/People(PartitionKey='p',RowKey='1')? HTTP/1.1\naccept: application/json\nx-ms-version: 2019-02-02\ncontent-type: application/json\n\n\n{\"a\":1}\n--changeset_2--\n--batch_1\n";
    assert_eq!(
        show("multipart/mixed; boundary=batch_1", javascript),
        "PUT http://127.0.0.1:10002/dev/People(PartitionKey='p',RowKey='1')? - - {\"a\":1}"
    );
    // JavaScript: azure-storage
    let legacy = "--batch_1\nContent-Type: multipart/mixed;charset=\"utf-8\";boundary=changeset_2\n\n--changeset_2\nContent-Type: application/http\nContent-Transfer-Encoding: binary\n\nMERGE http://127.0.0.1:10002/dev/People(PartitionKey=%27p%27,RowKey=%271%27) HTTP/1.1\nContent-ID: 1\naccept: application/json;odata=minimalmetadata\nContent-Type: application/json;odata=nometadata\nif-match: *\n\n{\"a\":1}\n--changeset_2--\n--batch_1--";
    assert_eq!(
        show("multipart/mixed; charset=\"utf-8\"; boundary=batch_1", legacy),
        "MERGE http://127.0.0.1:10002/dev/People(PartitionKey=%27p%27,RowKey=%271%27) 1 * {\"a\":1}"
    );
    // Go: aztables
    let go = "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_2\r\n\r\n--changeset_2\r\nContent-Transfer-Encoding: binary\r\nContent-Type: application/http\r\n\r\nDELETE https://acct.table.core.windows.net/People(PartitionKey='p',RowKey='1')?%24format=application%2Fjson HTTP/1.1\r\nAccept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\nIf-Match: *\r\nx-ms-version: 2019-02-02\r\n\r\n\r\n--changeset_2--\r\n\r\n--batch_1--\r\n";
    assert!(
        show("multipart/mixed; boundary=batch_1", go).starts_with("DELETE https://acct.table.core.windows.net/People(")
    );
    // Java: azure-data-tables, relative and without a final line end
    let java = "--batch_1\r\nContent-Type: multipart/mixed; boundary=changeset_2\r\n\r\n--changeset_2\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPOST /People HTTP/1.1\r\nContent-Length: 7\r\nContent-Type: application/json;odata=fullmetadata\r\n\r\n{\"a\":1}\r\n--changeset_2--\r\n--batch_1--";
    assert_eq!(show("Multipart/Mixed; Boundary=batch_1", java), "POST /People - - {\"a\":1}");
}

#[test]
fn queries() {
    let body = "--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nGET http://h/dev/People(PartitionKey='p',RowKey='1') HTTP/1.1\r\nHost: h\r\n\r\n--b--";
    assert_eq!(
        show("multipart/mixed; boundary=b", body),
        "query GET http://h/dev/People(PartitionKey='p',RowKey='1') - - "
    );
    let bare = "--b\nContent-Type: application/http\n\nGET /People() HTTP/1.1\n\n\n--b--\n";
    assert_eq!(show("multipart/mixed; boundary=b", bare), "query GET /People() - - ");
}

#[test]
fn what_is_no_batch() {
    let of = "multipart/mixed; boundary=b";
    let change = "--c\nContent-Type: application/http\n\nPOST /t HTTP/1.1\n\n{}\n";
    let set = format!("--b\nContent-Type: multipart/mixed; boundary=c\n\n{change}--c--\n");
    assert_eq!(show(of, &format!("{set}--b--")), "POST /t - - {}");
    for (content_type, body) in [
        ("application/json", format!("{set}--b--")),
        ("multipart/mixed", format!("{set}--b--")),
        ("multipart/mixed; boundary=", format!("{set}--b--")),
        ("multipart/mixed; boundary=other", format!("{set}--b--")),
        (of, String::new()),
        (of, "--b--".into()),
        (of, format!("{set}{set}--b--")),
        (of, format!("{set}--b\nContent-Type: application/http\n\nGET /t HTTP/1.1\n\n--b--")),
        (of, "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c--\n--b--".into()),
        (of, "--b\nContent-Type: text/plain\n\nhello\n--b--".into()),
        (of, "--b\nno header\n\n--b--".into()),
        (of, "--b\nContent-Type: multipart/mixed; boundary=c\n\n--c\nContent-Type: text/plain\n\nPOST /t HTTP/1.1\n\n--c--\n--b--".into()),
        (of, "--b\nContent-Type: application/http\n\nGET\n\n--b--".into()),
        (of, "--b\nContent-Type: application/http\n\nGET /t\n\n--b--".into()),
        (of, "--b\nContent-Type: application/http\n\nGET /t HTTP/2\n\n--b--".into()),
    ] {
        assert_eq!(show(content_type, &body), "InvalidInput", "{content_type} {body}");
    }
    assert!(parse(of, b"--b\nContent-Type: application/http\n\nGET /\xff HTTP/1.1\n\n--b--").is_err());
    let many = format!("--b\nContent-Type: multipart/mixed; boundary=c\n\n{}--c--\n--b--", change.repeat(100_000));
    let Ok(Batch::Changes(parts)) = parse(of, many.as_bytes()) else { panic!("a changeset") };
    assert_eq!(parts.len(), 101);
}

/// Any bytes at all: a batch or a refusal, never a panic.
#[test]
fn nonsense() {
    let pieces: [&[u8]; 14] = [
        b"--b",
        b"--b--",
        b"--c",
        b"--c--",
        b"\r\n",
        b"\n",
        b"\n\n",
        b"Content-Type: multipart/mixed; boundary=c",
        b"Content-Type: application/http",
        b"POST /t HTTP/1.1",
        b"Content-Length: 5",
        b"{}",
        b"\xff",
        b":",
    ];
    let mut state = 3u64;
    for _ in 0..20_000 {
        let mut body = Vec::new();
        for _ in 0..16 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            body.extend_from_slice(pieces[(state >> 33) as usize % pieces.len()]);
        }
        let _ = parse("multipart/mixed; boundary=b", &body);
    }
}

#[test]
fn answers() {
    let mut done = Response::new(204);
    done.header("ETag", "W/\"1\"");
    let mut refused = Response::new(409).with_header("Content-Type", "application/json");
    refused.body = ResponseBody::Bytes("{}".into());
    let out = render_changes("1", "2", &[(Some("7".into()), done), (None, refused)]);
    assert_eq!(
        String::from_utf8(out).expect("text"),
        "--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=changesetresponse_2\r\n\r\n\
         --changesetresponse_2\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
         HTTP/1.1 204 No Content\r\nContent-ID: 7\r\nETag: W/\"1\"\r\n\r\n\r\n\
         --changesetresponse_2\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
         HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\n\r\n{}\r\n\
         --changesetresponse_2--\r\n--batchresponse_1--\r\n"
    );
}
