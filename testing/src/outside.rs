//! A server that is not ours, for copies to read from: it knows ranges, ETags and conditions, and waits where it is told to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::source::allow::AllowList;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::World;

pub struct Outside {
    pub port: u16,
    state: Arc<State>,
    serving: tokio::task::JoinHandle<()>,
}

struct State {
    content: Mutex<(Vec<u8>, String)>,
    asked: AtomicUsize,
    /// How many bodies may go on to their end.
    gate: Semaphore,
}

impl Outside {
    /// `/content` is the content, `/slow` begins with it and waits to be let go on, `/moved` leads elsewhere, `/cut` breaks off.
    pub async fn serve(content: impl Into<Vec<u8>>) -> Outside {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let content = Mutex::new((content.into(), "\"first\"".to_string()));
        let state = Arc::new(State { content, asked: AtomicUsize::new(0), gate: Semaphore::new(0) });
        let shared = state.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, shared.clone()));
            }
        });
        Outside { port, state, serving }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// The world may read from here.
    pub fn allow(&self, world: &World) {
        let entry = format!("127.0.0.1:{}", self.port);
        world.app.set_copy_sources(AllowList::parse([entry.as_str()]).expect("an entry"));
    }

    pub fn change(&self, content: &str) {
        *self.state.content.lock().expect("not poisoned") = (content.as_bytes().to_vec(), "\"second\"".to_string());
    }

    /// Lets the bodies of `/slow` go on.
    pub fn go_on(&self) {
        self.state.gate.add_permits(1000);
    }

    pub fn asked(&self) -> usize {
        self.state.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(mut stream: TcpStream, state: Arc<State>) {
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(read) => head.extend_from_slice(&bytes[..read]),
        }
    }
    state.asked.fetch_add(1, Ordering::SeqCst);
    let head = String::from_utf8_lossy(&head).to_string();
    let path = head.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default().to_string();
    let header = |name: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")));
        line.and_then(|line| line.split_once(": ")).map(|(_, value)| value.trim().to_string())
    };
    let (content, etag) = state.content.lock().expect("not poisoned").clone();
    let (mut status, mut body, mut more) = ("200 OK", content.clone(), String::new());
    if let Some(range) = header("range") {
        let (first, last) = range.trim_start_matches("bytes=").split_once('-').expect("a range");
        let first: usize = first.parse().expect("a number");
        let last = last.parse().unwrap_or(usize::MAX).min(content.len().saturating_sub(1));
        if first >= content.len() {
            (status, body) = ("416 Not There", Vec::new());
        } else {
            (status, body) = ("206 Part", content[first..=last].to_vec());
            more = format!("Content-Range: bytes {first}-{last}/{}\r\n", content.len());
        }
    }
    if header("if-match").is_some_and(|wanted| wanted != etag) {
        (status, body) = ("412 Changed", Vec::new());
    }
    if header("if-none-match").is_some_and(|known| known == etag) {
        (status, body) = ("304 Same", Vec::new());
    }
    match path.as_str() {
        "/content" | "/slow" | "/cut" => {}
        "/moved" => {
            (status, body) = ("302 Elsewhere", Vec::new());
            more = "Location: http://127.0.0.1:1/\r\n".into();
        }
        "/secret" if header("authorization").as_deref() == Some("Bearer token") => {}
        "/secret" => (status, body) = ("401 Who", Vec::new()),
        _ => {
            (status, body) = ("404 Nothing", Vec::new());
            more = "x-ms-error-code: BlobNotFound\r\n".into();
        }
    }
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: {etag}\r\nContent-Type: text/outside\r\nx-ms-meta-color: blue\r\n{more}\r\n",
        body.len()
    );
    let half = body.len() / 2;
    if stream.write_all(head.as_bytes()).await.is_err() || stream.write_all(&body[..half]).await.is_err() {
        return;
    }
    match path.as_str() {
        "/slow" => state.gate.acquire().await.expect("never closed").forget(),
        "/cut" => return,
        _ => {}
    }
    let _ = stream.write_all(&body[half..]).await; // the reader may have left
}
