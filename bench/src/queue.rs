//! The workloads of the Queue service: putting, receiving with deleting and putting, and receiving from a queue of ten messages and of very many.

use std::sync::Arc;

use crate::{
    Options, floor,
    load::{self, Failure, Finish, Tally, Traffic, Until},
    measure::{Column, Figures, say},
    request::Signer,
    subject::{Kind, Places, Serves, Subject},
    workload::{KIB, Measure, Workload},
};

/// What is done to a queue; a figure is how often it is done in a second.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    Put,
    /// Get Messages, Delete Message and Put Message, so that the queue stays as long as it is.
    Cycle,
    /// Get Messages and Update Message with no timeout, likewise.
    GiveBack,
}

const FILLERS: usize = 32;
const CONSUMERS: usize = 16;
/// Always there while it is cycled through: no consumer finds it empty.
const CYCLED_MESSAGES: u64 = 256;
const MESSAGE_BODY_BYTES: usize = KIB;
/// Filling the peer with more takes longer than the whole run.
const AZURITE_MESSAGES_MAX: u64 = 20_000;

pub async fn loads(
    options: &Options,
    places: &Places,
    kinds: &[Kind],
    chosen: &[&'static Workload],
) -> Result<Vec<Figures>, Failure> {
    let mut all = Vec::new();
    for workload in chosen {
        let Measure::Queue(deed) = workload.measure else { continue };
        all.push(match deed {
            Deed::Put | Deed::Cycle => each(options, places, kinds, workload, deed).await?,
            Deed::GiveBack => long_and_short(options, places, kinds, workload).await?,
        });
    }
    Ok(all)
}

struct Running {
    subject: Subject,
    signer: Signer,
    _directory: tempfile::TempDir,
}

async fn start(kind: Kind, places: &Places) -> Result<Running, Failure> {
    let directory = places.directory()?;
    let subject = Subject::start_serving(Serves::Queue, kind, places, directory.path()).await?;
    let signer = Signer::new(subject.port);
    Ok(Running { subject, signer, _directory: directory })
}

impl Running {
    async fn create(&self, queue: &str) -> Result<(), Failure> {
        if self.subject.kind != Kind::Floor {
            load::once(self.subject.port, &self.signer.create_queue(queue), &[], 201).await?;
        }
        Ok(())
    }

    async fn put(&self, queue: &str, connections: usize, until: Until) -> Result<Tally, Failure> {
        let (head, body) = (self.signer.put_message(queue, MESSAGE_BODY_BYTES), Arc::new(message(MESSAGE_BODY_BYTES)));
        let traffic = (0..connections).map(|_| Traffic::Repeat { head: head.clone(), body: Arc::clone(&body) });
        load::run(self.subject.port, traffic.collect(), until, 201).await
    }

    async fn fill(&self, queue: &str, messages: u64) -> Result<(), Failure> {
        let connections = FILLERS.min(messages as usize).max(1);
        self.put(queue, connections, Until::Count(messages.div_ceil(connections as u64))).await?;
        Ok(())
    }

    async fn cycles(&self, queue: &'static str, deed: Deed, consumers: usize, until: Until) -> Result<Tally, Failure> {
        let get = self.signer.get_message(queue);
        let signer = self.signer.clone();
        let finish: Finish = Arc::new(move |id, receipt| match deed {
            Deed::GiveBack => signer.show_message(queue, id, receipt),
            Deed::Put | Deed::Cycle => signer.delete_message(queue, id, receipt),
        });
        let body = Arc::new(message(MESSAGE_BODY_BYTES));
        let put = (deed == Deed::Cycle).then(|| (self.signer.put_message(queue, MESSAGE_BODY_BYTES), body));
        let traffic =
            (0..consumers).map(|_| Traffic::Cycle { get: get.clone(), finish: Arc::clone(&finish), put: put.clone() });
        load::run(self.subject.port, traffic.collect(), until, 200).await
    }
}

/// A document of exactly so many bytes.
pub fn message(bytes: usize) -> Vec<u8> {
    let (open, close) = ("<QueueMessage><MessageText>", "</MessageText></QueueMessage>");
    format!("{open}{}{close}", "x".repeat(bytes - open.len() - close.len())).into_bytes()
}

async fn each(
    options: &Options,
    places: &Places,
    kinds: &[Kind],
    workload: &'static Workload,
    deed: Deed,
) -> Result<Figures, Failure> {
    let mut figures = Figures::new(workload, workload.title.into());
    let mut running = Vec::new();
    for kind in kinds {
        let one = start(*kind, places).await?;
        one.create("/bench").await?;
        if deed == Deed::Cycle && *kind != Kind::Floor {
            one.fill("/bench", CYCLED_MESSAGES).await?;
        }
        running.push(one);
    }
    let until = Until::Time(options.time());
    for number in 0..options.rounds {
        for one in &running {
            let is_floor = one.subject.kind == Kind::Floor;
            let tally = match deed {
                Deed::Put => one.put("/bench", FILLERS, until).await?,
                // What three commits cost behind bare HTTP.
                _ if is_floor => a_third(one.put("/bench", CONSUMERS, until).await?),
                _ => one.cycles("/bench", deed, CONSUMERS, until).await?,
            };
            let latency = (tally.percentile_us(50), tally.percentile_us(99));
            say(options, workload, number, one.subject.kind.into(), tally.per_second());
            figures.add(one.subject.kind.into(), tally.per_second(), Some(latency));
        }
        let directory = places.directory()?;
        let writers = if deed == Deed::Put { FILLERS } else { CONSUMERS };
        let tally = floor::append_alone(directory.path(), writers, MESSAGE_BODY_BYTES, options.time()).await?;
        let tally = if deed == Deed::Put { tally } else { a_third(tally) };
        say(options, workload, number, Column::AppendAlone, tally.per_second());
        figures.add(Column::AppendAlone, tally.per_second(), None);
    }
    for one in running {
        one.subject.kill().await?;
    }
    Ok(figures)
}

fn a_third(tally: Tally) -> Tally {
    Tally { requests: tally.requests / 3, ..tally }
}

/// The same on a queue of very many messages and on one of ten, in the same server.
async fn long_and_short(
    options: &Options,
    places: &Places,
    kinds: &[Kind],
    workload: &'static Workload,
) -> Result<Figures, Failure> {
    let messages = options.queue_messages;
    let mut figures = Figures::counted(workload, messages);
    let until = Until::Time(options.time());
    for kind in kinds.iter().filter(|kind| **kind != Kind::Floor) {
        if *kind == Kind::Azurite && messages > AZURITE_MESSAGES_MAX {
            continue;
        }
        let one = start(*kind, places).await?;
        for (queue, messages) in [("/long", messages), ("/short", 10)] {
            one.create(queue).await?;
            one.fill(queue, messages).await?;
        }
        for number in 0..options.rounds {
            for (queue, is_long) in [("/long", true), ("/short", false)] {
                let tally = one.cycles(queue, Deed::GiveBack, 4, until).await?;
                let column = match (*kind, is_long) {
                    (Kind::Lazuli, false) => Column::AtTen,
                    (_, false) => continue,
                    (kind, true) => kind.into(),
                };
                say(options, workload, number, column, tally.per_second());
                let latency = (tally.percentile_us(50), tally.percentile_us(99));
                figures.add(column, tally.per_second(), Some(latency));
            }
        }
        one.subject.kill().await?;
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_size() {
        assert_eq!(message(MESSAGE_BODY_BYTES).len(), MESSAGE_BODY_BYTES);
    }
}
