//! The console over the server in a box: who gets in, what they see, and what a monitor is told. Requests go in as bytes, as browsers and
//! strangers would send them.

mod access;
mod data;
mod monitor;
mod views;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use console::{Console, Guest, Program, Text};
use contract::Service;
use http::account::Account;
use serde_json::Value;
use testing::{ACCOUNT, Answer, KEY, World};

/// Another account, and its key.
pub const OTHER: &str = "other";
pub const OTHER_KEY: &str = "b3RoZXIga2V5";

/// A program with nothing around it.
#[derive(Default)]
pub struct Alone {
    pub is_stopping: AtomicBool,
    pub is_one_of_many: AtomicBool,
}

impl Program for Alone {
    fn measure(&self, _text: &mut Text) {}

    fn check(&self) -> Result<(), String> {
        match self.is_stopping.load(Ordering::SeqCst) {
            true => Err("the server is stopping".into()),
            false => Ok(()),
        }
    }

    fn is_one_of_many(&self) -> bool {
        self.is_one_of_many.load(Ordering::SeqCst)
    }
}

pub struct Seen {
    pub world: World,
    pub console: Arc<Console>,
    pub program: Arc<Alone>,
    client: Mutex<IpAddr>,
    tls: AtomicBool,
}

impl Seen {
    /// The development account and another, and the console on 127.0.0.1:10080.
    pub async fn new() -> Seen {
        Self::over(World::new().await, [127, 0, 0, 1].into())
    }

    pub fn over(world: World, host: IpAddr) -> Seen {
        let other = Account::new(OTHER, &[OTHER_KEY]).expect("an account");
        world.app.set_accounts(vec![Account::development(), other]);
        let ports = [10000, 10001, 10002, 10003];
        let services: Vec<_> = Service::ALL.into_iter().zip(ports.map(|port| ([127, 0, 0, 1], port).into())).collect();
        world.app.set_listening(services.clone());
        let program = Arc::new(Alone::default());
        let console = Console::new(world.app.clone(), services, true, program.clone());
        console.set_address((host, 10080).into());
        let client = Mutex::new(IpAddr::V4(Ipv4Addr::LOCALHOST));
        Seen { world, console, program, client, tls: AtomicBool::new(false) }
    }

    pub fn come_from(&self, client: impl Into<IpAddr>) {
        *self.client.lock().expect("not poisoned") = client.into();
    }

    pub fn speak_tls(&self) {
        self.tls.store(true, Ordering::SeqCst);
    }

    /// `GET /path`, and headers as lines.
    pub async fn ask(&self, line: &str, headers: &str, body: &[u8]) -> Answer {
        let has_host = headers.lines().any(|line| line.to_ascii_lowercase().starts_with("host:"));
        let mut text = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        if !has_host {
            text.push_str("Host: 127.0.0.1:10080\r\n");
        }
        if !body.is_empty() || line.starts_with("PUT") || line.starts_with("POST") {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        for line in headers.lines() {
            text.push_str(&format!("{line}\r\n"));
        }
        text.push_str("\r\n");
        let client = *self.client.lock().expect("not poisoned");
        let guest = Guest::new(self.console.clone(), client, self.tls.load(Ordering::SeqCst));
        self.world.talk(guest, &[text.as_bytes(), body].concat()).await
    }

    pub async fn try_sign_in(&self, account: &str, key: &str) -> Answer {
        let body = serde_json::json!({ "account": account, "key": key }).to_string();
        self.ask("POST /api/sign-in", "x-lazuli-console: 1\nContent-Type: application/json", body.as_bytes()).await
    }

    /// The cookie of a new session.
    pub async fn sign_in(&self, account: &str, key: &str) -> String {
        let answer = self.try_sign_in(account, key).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let cookie = answer.header("set-cookie").expect("a cookie");
        format!("Cookie: {}", cookie.split(';').next().expect("name and value"))
    }

    pub async fn sign_in_here(&self) -> String {
        self.sign_in(ACCOUNT, KEY).await
    }

    /// What a view shows.
    pub async fn view(&self, cookie: &str, view: &str) -> Value {
        let answer = self.ask(&format!("GET /api/view/{view}"), cookie, b"").await;
        assert_eq!(answer.status, 200, "{view}: {}", answer.text());
        json(&answer)
    }
}

pub fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", answer.text()))
}
