//! One request over one connection, in the manner of clients good and bad.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::executor::Pace;
use crate::Answer;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// Sends everything and waits for the answer.
    Patient,
    /// Sends the head, and the body when it is asked for. The head says `Expect: 100-continue`.
    AsksFirst,
    /// Goes away after so many steps, answered or not.
    LeavesAfter { steps: u64 },
    /// Goes away after so many bytes of the body.
    CutsBody { at: usize },
}

impl Manner {
    pub const KINDS: usize = 4;

    pub fn index(self) -> usize {
        match self {
            Manner::Patient => 0,
            Manner::AsksFirst => 1,
            Manner::LeavesAfter { .. } => 2,
            Manner::CutsBody { .. } => 3,
        }
    }
}

pub enum Exchange {
    /// What came until the server closed: a whole answer, part of one, or nothing.
    Heard(Answer),
    Left,
    Cut,
}

pub async fn exchange(pipe: DuplexStream, head: &[u8], body: &[u8], manner: Manner, pace: &Pace) -> Exchange {
    match manner {
        Manner::Patient => Exchange::Heard(send_and_hear(pipe, head, body).await),
        Manner::LeavesAfter { steps } => {
            tokio::select! {
                biased;
                answer = send_and_hear(pipe, head, body) => Exchange::Heard(answer),
                () = pace.steps(steps) => Exchange::Left,
            }
        }
        Manner::CutsBody { at } => {
            let mut pipe = pipe;
            let _ = pipe.write_all(&[head, &body[..at]].concat()).await; // the server may have closed already
            Exchange::Cut
        }
        Manner::AsksFirst => {
            let mut pipe = pipe;
            let _ = pipe.write_all(head).await;
            let mut heard = Vec::new();
            while !heard.ends_with(b"\r\n\r\n") {
                match pipe.read_u8().await {
                    Ok(byte) => heard.push(byte),
                    Err(_) => break,
                }
            }
            if heard.starts_with(b"HTTP/1.1 100 ") {
                return Exchange::Heard(send_and_hear(pipe, &[], body).await);
            }
            let _ = pipe.read_to_end(&mut heard).await;
            Exchange::Heard(Answer::parse(heard))
        }
    }
}

async fn send_and_hear(mut pipe: DuplexStream, head: &[u8], body: &[u8]) -> Answer {
    let (mut reader, mut writer) = tokio::io::split(&mut pipe);
    let sending = async {
        // The server may close before it has read everything.
        let _ = writer.write_all(head).await;
        let _ = writer.write_all(body).await;
    };
    let mut heard = Vec::new();
    let (_, read) = tokio::join!(sending, reader.read_to_end(&mut heard));
    read.expect("a pipe that is closed reads as ended");
    Answer::parse(heard)
}
