//! A webhook that a test owns: it says that it wants events, takes down what it is sent, and answers as it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub struct Webhook {
    pub port: u16,
    state: Arc<State>,
    serving: tokio::task::JoinHandle<()>,
}

/// One request that it got.
#[derive(Clone, Debug)]
pub struct Called {
    pub head: String,
    pub body: Value,
}

impl Called {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }
}

#[derive(Default)]
struct State {
    called: Mutex<Vec<Called>>,
    /// What the next notifications are answered with; then 200.
    answers: Mutex<VecDeque<u16>>,
    /// What a validation is answered with, instead of its code.
    validation: Mutex<Option<String>>,
}

impl Webhook {
    pub async fn serve() -> Webhook {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State::default());
        let shared = state.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, shared.clone()));
            }
        });
        Webhook { port, state, serving }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?code=secret", self.port)
    }

    pub fn answer(&self, statuses: impl IntoIterator<Item = u16>) {
        self.state.answers.lock().expect("not poisoned").extend(statuses);
    }

    pub fn answer_validation(&self, body: Option<&str>) {
        *self.state.validation.lock().expect("not poisoned") = body.map(str::to_string);
    }

    /// Everything so far, validations included.
    pub fn called(&self) -> Vec<Called> {
        self.state.called.lock().expect("not poisoned").clone()
    }

    /// The events so far, in the order in which they came.
    pub fn events(&self) -> Vec<Value> {
        let called = self.called();
        let notified = called.iter().filter(|called| called.header("aeg-event-type") == Some("Notification"));
        notified.flat_map(|called| called.body.as_array().cloned().unwrap_or_default()).collect()
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(mut stream: TcpStream, state: Arc<State>) {
    let mut read = Vec::new();
    let (head, mut body) = loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break (String::from_utf8_lossy(&read[..end]).to_string(), read.split_off(end + 4));
        }
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(some) => read.extend_from_slice(&bytes[..some]),
        }
    };
    let mut called = Called { head, body: Value::Null };
    let length: usize = called.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while body.len() < length {
        let mut bytes = [0; 4096];
        match stream.read(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(some) => body.extend_from_slice(&bytes[..some]),
        }
    }
    called.body = serde_json::from_slice(&body).unwrap_or_default();
    let (status, text) = if called.header("aeg-event-type") == Some("SubscriptionValidation") {
        let code = called.body[0]["data"]["validationCode"].clone();
        let told = state.validation.lock().expect("not poisoned").clone();
        (200, told.unwrap_or_else(|| format!("{{\"validationResponse\":{code}}}")))
    } else {
        (state.answers.lock().expect("not poisoned").pop_front().unwrap_or(200), String::new())
    };
    state.called.lock().expect("not poisoned").push(called);
    let more = if status == 302 { "Location: http://127.0.0.1:1/\r\n" } else { "" };
    let answer = format!("HTTP/1.1 {status} So\r\nContent-Length: {}\r\n{more}\r\n{text}", text.len());
    let _ = stream.write_all(answer.as_bytes()).await; // whoever asked may have left
}
