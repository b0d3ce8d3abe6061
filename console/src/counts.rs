//! What is counted of every request. Adding to it takes no lock and no memory.

use std::sync::atomic::{AtomicU64, Ordering};

use contract::operations::OperationId;
use contract::{ErrorCode, Service};
use engine::measure::Histogram;
use http::observe::{Observer, Seen};

use crate::metrics::{Metric, Text};
use crate::rings::{Rings, is_refused};

/// Statuses that are counted one by one; any other is the last.
const STATUSES: [u16; 27] = [
    200, 201, 202, 204, 206, 304, 400, 401, 403, 404, 405, 408, 409, 410, 411, 412, 413, 414, 416, 421, 429, 431, 500,
    501, 502, 503, 0,
];

/// What is counted of one operation.
struct Counts {
    service: Service,
    operation: Option<OperationId>,
    by_status: [AtomicU64; STATUSES.len()],
    ticks: Histogram,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

/// Who watches the requests: counts them all, and keeps the last of each account.
pub struct Watch {
    /// By operation, and behind them one for each service: what never came so far as to be one.
    counts: Vec<Counts>,
    /// By service and error code.
    errors: Vec<AtomicU64>,
    conflicts: [AtomicU64; 4],
    pub(crate) rings: Rings,
}

impl Watch {
    pub fn new(rings: Rings) -> Watch {
        let rows =
            || Service::ALL.into_iter().flat_map(|service| service.rows().iter().map(move |row| (service, row.id)));
        let operations = rows().map(|(_, id)| id as usize + 1).max().unwrap_or(0);
        let mut counts: Vec<Counts> = (0..operations).map(|_| Counts::of(Service::Blob, None)).collect();
        for (service, id) in rows() {
            counts[id as usize] = Counts::of(service, Some(id));
        }
        counts.extend(Service::ALL.map(|service| Counts::of(service, None)));
        let errors = (0..4 * ErrorCode::ALL.len()).map(|_| AtomicU64::new(0)).collect();
        Watch { counts, errors, conflicts: Default::default(), rings }
    }

    fn of(&self, service: Service, operation: Option<OperationId>) -> Option<&Counts> {
        match operation {
            Some(operation) => self.counts.get(operation as usize),
            None => self.counts.get(self.counts.len() - 4 + place(service)),
        }
    }

    pub fn write(&self, text: &mut Text) {
        let name = |counts: &Counts| counts.operation.map_or("none".to_string(), |operation| format!("{operation:?}"));
        let used: Vec<(&Counts, String)> = self
            .counts
            .iter()
            .filter(|counts| counts.ticks.read().1 > 0)
            .map(|counts| (counts, name(counts)))
            .collect();
        text.begin(Metric::Requests);
        for (counts, operation) in &used {
            for (status, count) in STATUSES.iter().zip(&counts.by_status) {
                let (count, status) = (count.load(Ordering::Relaxed), status.to_string());
                if count > 0 {
                    let status = if status == "0" { "other" } else { &status };
                    let labels = [("service", counts.service.name()), ("operation", operation), ("status", status)];
                    text.line(&labels, count);
                }
            }
        }
        text.begin(Metric::RequestDuration);
        for (counts, operation) in &used {
            text.durations(&[("service", counts.service.name()), ("operation", operation)], &counts.ticks);
        }
        type Of = fn(&Counts) -> &AtomicU64;
        let sums: [(Metric, Of); 2] =
            [(Metric::RequestBytes, |counts| &counts.bytes_in), (Metric::ResponseBytes, |counts| &counts.bytes_out)];
        for (metric, of) in sums {
            text.begin(metric);
            for (counts, operation) in &used {
                let labels = [("service", counts.service.name()), ("operation", operation.as_str())];
                text.line(&labels, of(counts).load(Ordering::Relaxed));
            }
        }
        text.begin(Metric::Errors);
        for (at, count) in self.errors.iter().enumerate() {
            let (service, code) = (Service::ALL[at / ErrorCode::ALL.len()], ErrorCode::ALL[at % ErrorCode::ALL.len()]);
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                text.line(&[("service", service.name()), ("code", code.name())], count);
            }
        }
        text.begin(Metric::Conflicts);
        for (service, count) in Service::ALL.iter().zip(&self.conflicts) {
            text.line(&[("service", service.name())], count.load(Ordering::Relaxed));
        }
    }
}

impl Counts {
    fn of(service: Service, operation: Option<OperationId>) -> Counts {
        Counts {
            service,
            operation,
            by_status: [const { AtomicU64::new(0) }; STATUSES.len()],
            ticks: Histogram::of_durations(),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
        }
    }
}

fn place(service: Service) -> usize {
    match service {
        Service::Blob => 0,
        Service::Queue => 1,
        Service::Table => 2,
        Service::File => 3,
    }
}

impl Observer for Watch {
    fn answered(&self, seen: &Seen<'_>) {
        let add = |count: &AtomicU64, more: u64| count.fetch_add(more, Ordering::Relaxed);
        if let Some(counts) = self.of(seen.service, seen.operation) {
            let status = STATUSES.iter().position(|status| *status == seen.status).unwrap_or(STATUSES.len() - 1);
            add(&counts.by_status[status], 1);
            counts.ticks.add(seen.ticks);
            add(&counts.bytes_in, seen.bytes_in);
            add(&counts.bytes_out, seen.bytes_out);
        }
        if let Some(refusal) = seen.refusal {
            add(&self.errors[place(seen.service) * ErrorCode::ALL.len() + refusal.code as usize], 1);
        }
        if is_refused(seen) {
            add(&self.conflicts[place(seen.service)], 1);
        }
        self.rings.note(seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_tables() {
        for (at, service) in Service::ALL.into_iter().enumerate() {
            assert_eq!(place(service), at);
            for row in service.rows() {
                let watch = Watch::new(Rings::new(env::Timestamp::UNIX_EPOCH));
                let counts = watch.of(service, Some(row.id)).expect("counted");
                assert_eq!((counts.service, counts.operation), (service, Some(row.id)));
                assert_eq!(
                    watch.of(service, None).map(|counts| (counts.service, counts.operation)),
                    Some((service, None))
                );
            }
        }
        for (at, code) in ErrorCode::ALL.iter().enumerate() {
            assert_eq!(*code as usize, at);
        }
    }
}
