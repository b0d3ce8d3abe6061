use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// A server that reads one head and answers with these bytes.
async fn serve(answer: Vec<u8>) -> (u16, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a caller");
        let mut head = Vec::new();
        while !head.windows(4).any(|four| four == b"\r\n\r\n") {
            let mut bytes = [0; 1024];
            match stream.read(&mut bytes).await {
                Ok(0) | Err(_) => break,
                Ok(read) => head.extend_from_slice(&bytes[..read]),
            }
        }
        let _ = stream.write_all(&answer).await;
        String::from_utf8_lossy(&head).into_owned()
    });
    (port, serving)
}

fn url(port: u16) -> SourceUrl {
    SourceUrl::parse(&format!("http://127.0.0.1:{port}/a%20b?x=1")).expect("a url")
}

fn listed(port: u16) -> AllowList {
    AllowList::parse([format!("127.0.0.1:{port}").as_str()]).expect("a list")
}

async fn read(opened: &mut Opened) -> Result<Vec<u8>, BrokenOff> {
    let mut bytes = Vec::new();
    while let Some(piece) = opened.body.next(5).await? {
        assert!((1..=5).contains(&piece.len()));
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

#[tokio::test]
async fn a_listed_source_is_read() {
    for body in [
        "Content-Length: 11\r\n\r\nhello world",
        "Transfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n",
    ] {
        let (port, serving) = serve(format!("HTTP/1.1 206 Part\r\nETag: \"e\"\r\n{body}").into_bytes()).await;
        let mut opened = open(&listed(port), &url(port), &[("Range", "bytes=0-10".into())]).await.expect("an answer");
        assert_eq!((opened.status, opened.header("etag")), (206, Some("\"e\"")));
        assert_eq!(read(&mut opened).await.as_deref(), Ok(b"hello world".as_slice()));
        assert_eq!(opened.body.read_bytes(), 11);
        let asked = serving.await.expect("served");
        assert!(asked.starts_with("GET /a%20b?x=1 HTTP/1.1\r\n"), "{asked}");
        assert!(asked.to_lowercase().contains(&format!("host: 127.0.0.1:{port}\r\n")), "{asked}");
        assert!(asked.contains("bytes=0-10"), "{asked}");
    }
}

#[tokio::test]
async fn what_is_not_listed_is_not_asked() {
    let (port, serving) = serve(Vec::new()).await;
    let public = AllowList::parse(["*", "*.localhost"]).expect("a list");
    for list in [&AllowList::default(), &listed(1), &public] {
        assert_eq!(open(list, &url(port), &[]).await.err(), Some(NotOpened::NotAllowed));
    }
    // Allowed as a name, and found to be this machine.
    let any = AllowList::parse([format!("*:{port}").as_str()]).expect("a list");
    for host in ["localhost", "127.0.0.1", "2130706433"] {
        let url = SourceUrl::parse(&format!("http://{host}:{port}/")).expect("a url");
        assert_eq!(open(&any, &url, &[]).await.err(), Some(NotOpened::NotAllowed), "{host}");
    }
    assert!(!serving.is_finished());
    serving.abort();
}

#[tokio::test]
async fn answers_that_are_none() {
    let head = |bytes: usize| format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(bytes)).into_bytes();
    for answer in [Vec::new(), b"SSH-2.0-OpenSSH\r\n".to_vec(), b"HTTP/1.1 20".to_vec(), head(BUFFER_BYTES * 4)] {
        let (port, _serving) = serve(answer.clone()).await;
        let opened = open(&listed(port), &url(port), &[]).await.map(|opened| opened.status);
        assert!(matches!(opened, Err(NotOpened::Unreachable(_))), "{:?}", &answer[..answer.len().min(20)]);
    }
    // A redirect is an answer like any other: it is not followed.
    let (port, _serving) =
        serve(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n".to_vec()).await;
    assert_eq!(open(&listed(port), &url(port), &[]).await.map(|opened| opened.status).ok(), Some(302));
}

#[tokio::test]
async fn bodies_that_break_off() {
    let (port, _serving) = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort".to_vec()).await;
    let mut opened = open(&listed(port), &url(port), &[]).await.expect("an answer");
    assert_eq!(read(&mut opened).await, Err(BrokenOff::Cut));
    let (port, _serving) = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nshort".to_vec()).await;
    let mut opened = open(&listed(port), &url(port), &[]).await.expect("an answer");
    opened.body.bytes_max = 4;
    assert_eq!(read(&mut opened).await, Err(BrokenOff::TooLarge));
}
