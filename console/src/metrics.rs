//! The page of metrics, in the text format of Prometheus (version 0.0.4), and the one table of what there is on it.

use std::fmt::{Display, Write as _};

use engine::measure::Histogram;
use env::TICKS_PER_SECOND;

macro_rules! metrics {
    ($($id:ident $kind:literal $name:literal $help:literal)*) => {
        /// Everything that can be on the page.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Metric { $($id),* }

        impl Metric {
            pub const ALL: &'static [Metric] = &[$(Metric::$id),*];
            pub const fn name(self) -> &'static str { match self { $(Metric::$id => $name),* } }
            pub const fn kind(self) -> &'static str { match self { $(Metric::$id => $kind),* } }
            pub const fn help(self) -> &'static str { match self { $(Metric::$id => $help),* } }
        }
    };
}

metrics! {
    Requests          "counter"   "lazuli_requests_total" "Requests by service, operation and status; the operation `none` never came so far as to be one."
    RequestDuration   "histogram" "lazuli_request_duration_seconds" "From the end of a request's head to the first byte of its answer, by service and operation."
    RequestBytes      "counter"   "lazuli_request_bytes_total" "Bytes of bodies received, by service and operation."
    ResponseBytes     "counter"   "lazuli_response_bytes_total" "Bytes of bodies answered, by service and operation."
    Errors            "counter"   "lazuli_errors_total" "Refusals by service and error code."
    Conflicts         "counter"   "lazuli_conflicts_total" "Requests refused because of what others did or hold, by service: conditions, leases, locks, open files, stale receipts."
    Connections       "gauge"     "lazuli_connections" "Open connections, of the services and SMB together (door=\"services\") and of the console."
    RefusedConnections "counter"  "lazuli_connections_refused_total" "Connections that were turned away because as many as allowed were open."
    InFlight          "gauge"     "lazuli_requests_in_flight" "Requests whose answer is being found."
    RefusedRequests   "counter"   "lazuli_requests_refused_total" "Requests that were turned away because as many as allowed were under way."
    QueueMessages     "gauge"     "lazuli_queue_messages" "Messages in a queue, hidden ones included, by account and queue; only shown to this machine, and of the first 100 queues."
    CommitDuration    "histogram" "lazuli_commit_duration_seconds" "Writing one group of commits to the journal and syncing it (embedded engine)."
    CommitGroup       "histogram" "lazuli_commit_group_size" "Commits that shared one write and sync of the journal (embedded engine)."
    SegmentSync       "histogram" "lazuli_segment_sync_duration_seconds" "Syncing a segment of bodies (embedded engine)."
    Segments          "gauge"     "lazuli_segments" "Segment files of bodies (embedded engine)."
    SegmentBytes      "gauge"     "lazuli_segment_bytes" "Bytes handed out in segments (embedded engine)."
    SegmentDeadBytes  "gauge"     "lazuli_segment_dead_bytes" "Bytes in segments that nobody needs any more (embedded engine)."
    RecordBytes       "gauge"     "lazuli_record_bytes" "Records and their journal on the disk (embedded engine)."
    DiskFree          "gauge"     "lazuli_disk_free_bytes" "Room on the data directory's disk (embedded engine)."
    DiskReserve       "gauge"     "lazuli_disk_reserve_bytes" "Room that is left free: below it nothing is taken but deletions (embedded engine)."
    Ready             "gauge"     "lazuli_ready" "1 if storage answers and takes writes and the server is not stopping, as /readyz says."
    SmbConnections    "gauge"     "lazuli_smb_connections" "Open SMB connections."
    SmbSessions       "gauge"     "lazuli_smb_sessions" "SMB sessions."
    SmbOpens          "gauge"     "lazuli_smb_opens" "Files and directories that SMB clients have open."
    SmbLocks          "gauge"     "lazuli_smb_locks" "Ranges of files that SMB clients have locked."
    Build             "gauge"     "lazuli_build_info" "1; the version is a label."
    Memory            "gauge"     "process_resident_memory_bytes" "Memory that the process has."
    Files             "gauge"     "process_open_fds" "File descriptors that the process has open."
    FilesMax          "gauge"     "process_max_fds" "File descriptors that it may have."
    Cpu               "counter"   "process_cpu_seconds_total" "Processor time that the process took."
    Start             "gauge"     "process_start_time_seconds" "When it was started, in seconds since 1970."
}

/// The page while it is written. Each metric is begun once and its lines follow.
#[derive(Default)]
pub struct Text {
    text: String,
    current: Option<Metric>,
}

impl Text {
    pub fn begin(&mut self, metric: Metric) {
        let (name, kind) = (metric.name(), metric.kind());
        self.current = Some(metric);
        let _ = write!(self.text, "# HELP {name} {}\n# TYPE {name} {kind}\n", metric.help()); // text takes everything
    }

    pub fn line(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.put("", labels, value);
    }

    /// A metric of one line.
    pub fn single(&mut self, metric: Metric, value: impl Display) {
        self.begin(metric);
        self.line(&[], value);
    }

    /// Of ticks; shown in seconds.
    pub fn durations(&mut self, labels: &[(&str, &str)], histogram: &Histogram) {
        self.histogram(labels, histogram, TICKS_PER_SECOND as f64);
    }

    pub fn sizes(&mut self, labels: &[(&str, &str)], histogram: &Histogram) {
        self.histogram(labels, histogram, 1.0);
    }

    fn histogram(&mut self, labels: &[(&str, &str)], histogram: &Histogram, unit: f64) {
        let (classes, all, sum) = histogram.read();
        for (bound, count) in classes {
            let bound = (bound as f64 / unit).to_string();
            self.put("_bucket", &[labels, &[("le", &bound)]].concat(), count);
        }
        self.put("_bucket", &[labels, &[("le", "+Inf")]].concat(), all);
        self.put("_sum", labels, sum as f64 / unit);
        self.put("_count", labels, all);
    }

    fn put(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let Some(metric) = self.current else { return };
        self.text.push_str(metric.name());
        self.text.push_str(suffix);
        for (at, (name, value)) in labels.iter().enumerate() {
            self.text.push_str(if at == 0 { "{" } else { "," });
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{name}=\"{value}\""); // text takes everything
        }
        self.text.push_str(if labels.is_empty() { "" } else { "}" });
        let _ = writeln!(self.text, " {value}"); // likewise
    }

    pub fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let mut text = Text::default();
        text.begin(Metric::QueueMessages);
        text.line(&[("account", "a\"\\\nb"), ("queue", "q")], 3);
        text.single(Metric::Ready, 1);
        let text = text.finish();
        assert!(text.contains("\nlazuli_queue_messages{account=\"a\\\"\\\\\\nb\",queue=\"q\"} 3\n"), "{text}");
        assert!(text.contains("# TYPE lazuli_ready gauge\nlazuli_ready 1\n"), "{text}");
    }

    #[test]
    fn histograms() {
        let histogram = Histogram::of_durations();
        for ticks in [900, 20_000, 1_000_000_000] {
            histogram.add(ticks);
        }
        let mut text = Text::default();
        text.begin(Metric::CommitDuration);
        text.durations(&[], &histogram);
        let text = text.finish();
        for line in [
            "_bucket{le=\"0.0001\"} 1",
            "_bucket{le=\"0.0025\"} 2",
            "_bucket{le=\"10\"} 2",
            "_bucket{le=\"+Inf\"} 3",
            "_sum 100.00209",
            "_count 3",
        ] {
            assert!(text.contains(&format!("lazuli_commit_duration_seconds{line}\n")), "{line} in {text}");
        }
    }

    /// docs/monitoring.md lists what there is, and the dashboard asks for nothing else.
    #[test]
    fn documents_name_what_there_is() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("a file of the repository");
        let (page, dashboard) = (read("docs/monitoring.md"), read("contrib/grafana/lazuli.json"));
        for metric in Metric::ALL {
            let row = format!("| `{}` | {} |", metric.name(), metric.kind());
            assert!(page.contains(&row), "docs/monitoring.md has no row {row}");
        }
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        for (document, text) in [("docs/monitoring.md", &page), ("contrib/grafana/lazuli.json", &dashboard)] {
            for word in text.split(|c| !is_name(c)).filter(|w| w.starts_with("lazuli_") || w.starts_with("process_")) {
                let is_known = |metric: &&Metric| {
                    let rest = word.strip_prefix(metric.name());
                    let suffixes: &[&str] =
                        if metric.kind() == "histogram" { &["", "_bucket", "_sum", "_count"] } else { &[""] };
                    rest.is_some_and(|rest| suffixes.contains(&rest))
                };
                assert!(
                    Metric::ALL.iter().any(|metric| is_known(&metric)),
                    "{document} names {word}, which nothing exports"
                );
            }
        }
        let parsed: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
        assert!(parsed["panels"].as_array().is_some_and(|panels| panels.len() > 5));
    }
}
