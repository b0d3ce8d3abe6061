//! `lazuli-bench instructions`: what the hot paths cost the server in machine instructions of its own, counted by valgrind.
//!
//! Times on a shared machine are noise; the count of one request after the other on one connection moves by a few in a thousand. The
//! counts are kept in `bench/instructions.json` and compared: more than `REGRESSION_PERCENT` above what is kept fails. What the kernel does
//! for the server is not counted.

use std::{collections::BTreeMap, ffi::OsString, path::Path, process::Stdio, sync::Arc};

use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::{
    load::{self, Failure, Finish, Supply, Traffic, Until},
    queue::message,
    report::grouped,
    request::Signer,
    subject::{Kind, Places, Serves, Subject, finish},
    table,
    workload::KIB,
};

/// Requests before counting begins, so that what is done once is done.
const WARM_UP: u64 = 300;
const COUNTED: u64 = 500;
/// A path that costs so much more than what is kept has become worse.
const REGRESSION_PERCENT: u64 = 5;

#[derive(Clone, Copy, PartialEq, Eq)]
enum HotPath {
    Get,
    Put,
    /// Put Message, Get Messages, Delete Message.
    Cycle,
    PointGet,
}

const PATHS: [(&str, HotPath, Serves); 4] = [
    ("get-1k", HotPath::Get, Serves::Blob),
    ("put-1k", HotPath::Put, Serves::Blob),
    ("queue-cycle", HotPath::Cycle, Serves::Queue),
    ("table-point-get", HotPath::PointGet, Serves::Table),
];

/// What is kept in the file.
#[derive(Serialize, Deserialize, Default)]
struct Kept {
    /// Counts of another compiler's code are shown, not judged.
    compiler: String,
    instructions_per_request: BTreeMap<String, u64>,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    New,
    Same,
    /// By more than a regression would be: worth keeping.
    Better,
    Worse,
}

fn judge(kept: Option<u64>, counted: u64) -> Verdict {
    let Some(kept) = kept else { return Verdict::New };
    match counted {
        counted if counted * 100 > kept * (100 + REGRESSION_PERCENT) => Verdict::Worse,
        counted if counted * 100 < kept * (100 - REGRESSION_PERCENT) => Verdict::Better,
        _ => Verdict::Same,
    }
}

/// Counts every path; with `record` keeps what was counted, without compares it with what is kept.
pub async fn run(places: &Places, record: bool) -> Result<(), Failure> {
    places.build_lazuli().await?;
    let file = places.root.join("bench/instructions.json");
    let kept: Kept = match std::fs::read_to_string(&file) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?,
        Err(_) if record => Kept::default(),
        Err(error) => return Err(format!("{}: {error}", file.display()).into()),
    };
    let now = Kept { compiler: compiler().await?, instructions_per_request: count(places).await? };
    let mut worse = 0;
    for (name, counted) in &now.instructions_per_request {
        let before = kept.instructions_per_request.get(name).copied();
        let verdict = judge(before, *counted);
        let was = before.map_or("not kept".into(), grouped);
        println!("{name:<16} {:>10} instructions a request, kept {was:>10}: {verdict:?}", grouped(*counted));
        worse += usize::from(verdict == Verdict::Worse);
    }
    if record {
        std::fs::write(&file, serde_json::to_string_pretty(&now)? + "\n")?;
        return Ok(());
    }
    if now.compiler != kept.compiler {
        println!("not judged: built by {}, and what is kept by {}", now.compiler, kept.compiler);
        return Ok(());
    }
    match worse {
        0 => Ok(()),
        worse => Err(format!("{worse} paths cost more than {REGRESSION_PERCENT}% above what is kept").into()),
    }
}

async fn compiler() -> Result<String, Failure> {
    let output = Command::new("rustc").arg("--version").output().await?;
    Ok(String::from_utf8(output.stdout)?.trim().into())
}

async fn count(places: &Places) -> Result<BTreeMap<String, u64>, Failure> {
    let mut counts = BTreeMap::new();
    for (name, path, serves) in PATHS {
        let directory = places.directory()?;
        let counts_in = places.directory()?;
        let mut out = OsString::from("--callgrind-out-file=");
        out.push(counts_in.path().join("counts"));
        let under = places.under(vec!["valgrind".into(), "--quiet".into(), "--tool=callgrind".into(), out]);
        let subject = Subject::start_serving(serves, Kind::Lazuli, &under, directory.path()).await?;
        prepare(&subject, path).await?;
        ask(&subject, path, WARM_UP, 0).await?;
        tell(&subject, "zero").await?;
        ask(&subject, path, COUNTED, WARM_UP).await?;
        tell(&subject, "dump").await?;
        subject.kill().await?;
        counts.insert(name.to_string(), total(&counts_in.path().join("counts.1"))? / COUNTED);
    }
    Ok(counts)
}

async fn prepare(subject: &Subject, path: HotPath) -> Result<(), Failure> {
    let (port, signer) = (subject.port, Signer::new(subject.port));
    match path {
        HotPath::Get | HotPath::Put => {
            load::once(port, &signer.create_container("/bench"), &[], 201).await?;
            load::once(port, &signer.put_blob("/bench/get-1k", "", KIB), &[b'x'; KIB], 201).await?;
        }
        HotPath::Cycle => {
            load::once(port, &signer.create_queue("/bench"), &[], 201).await?;
            load::once(port, &signer.put_message("/bench", KIB), &message(KIB), 201).await?;
        }
        HotPath::PointGet => table::prepare_one(subject).await?,
    }
    Ok(())
}

/// So many requests one after the other; those that name something begin with this number.
async fn ask(subject: &Subject, path: HotPath, requests: u64, first: u64) -> Result<(), Failure> {
    let (port, signer) = (subject.port, Signer::new(subject.port));
    let one =
        |traffic, expect| async move { load::run(port, vec![traffic], Until::Count(requests), expect).await.map(drop) };
    let nothing = || Arc::new(Vec::new());
    match path {
        HotPath::Get => one(Traffic::Repeat { head: signer.get_blob("/bench/get-1k"), body: nothing() }, 200).await,
        HotPath::PointGet => one(Traffic::Repeat { head: table::point_get(&signer), body: nothing() }, 200).await,
        HotPath::Put => {
            let make = move |number| signer.put_blob(&format!("/bench/put-1k/{number:09}"), "", KIB);
            let supply = Supply::numbered(first, 1, 0, Arc::new(make));
            one(Traffic::Distinct { supply, body: Arc::new(vec![b'x'; KIB]) }, 201).await
        }
        HotPath::Cycle => {
            let put = (signer.put_message("/bench", KIB), Arc::new(message(KIB)));
            let get = signer.get_message("/bench");
            let finish: Finish = Arc::new(move |id, receipt| signer.delete_message("/bench", id, receipt));
            one(Traffic::Cycle { get, finish, put: Some(put) }, 200).await
        }
    }
}

/// A command to callgrind, inside the process.
async fn tell(subject: &Subject, command: &str) -> Result<(), Failure> {
    let pid = subject.pid()?;
    let mut vgdb = Command::new("vgdb");
    finish(vgdb.arg(format!("--pid={pid}")).arg(command).stdout(Stdio::null()).stderr(Stdio::null())).await
}

/// The sum in the dump that was asked for.
fn total(dump: &Path) -> Result<u64, Failure> {
    let text = std::fs::read_to_string(dump).map_err(|error| format!("{}: {error}", dump.display()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    let first = line.and_then(|line| line.split_whitespace().next()).ok_or("the dump has no sum")?;
    Ok(first.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regression_is_more_than_five_percent() {
        use Verdict::{Better, New, Same, Worse};
        for (kept, counted, expected) in [
            (None, 1, New),
            (Some(1000), 1050, Same),
            (Some(1000), 1051, Worse),
            (Some(1000), 950, Same),
            (Some(1000), 949, Better),
        ] {
            assert_eq!(judge(kept, counted), expected, "{kept:?} {counted}");
        }
    }
}
