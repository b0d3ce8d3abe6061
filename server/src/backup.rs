//! `lazuli backup` and `lazuli restore`: copies of a data directory, and data directories made of copies.

use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use embedded::backup::{BackupError, Copied, Restored, Source, Stream};
use embedded::{Embedded, OpenError, Options};

use crate::config::{Backup, Restore};
use crate::control;
use crate::progress::{Progress, sized};

/// From the server, if one has the directory; otherwise from the directory itself.
pub async fn run(Backup { data, to }: Backup) -> Result<(), String> {
    if !embedded::is_data_directory(&data) {
        return Err(format!("{} is no data directory: there is no FORMAT in it", data.display()));
    }
    let options = Options::new(&data);
    let opened = tokio::task::spawn_blocking(|| Embedded::open(options)).await.map_err(|error| error.to_string())?;
    let copied = match opened {
        Ok(engine) => from_directory(&engine, &data, &to).await,
        Err(OpenError::Locked { .. }) => from_server(&data, &to),
        Err(error) => Err(error.to_string()),
    }?;
    println!(
        "{}: everything up to commit {}: {} records; {} in {} bodies copied, {} in {} bodies were there",
        to.display(),
        copied.commit,
        copied.records,
        sized(copied.bytes),
        copied.extents,
        sized(copied.kept_bytes),
        copied.kept_extents,
    );
    Ok(())
}

async fn from_directory(engine: &Arc<Embedded>, data: &Path, to: &Path) -> Result<Copied, String> {
    let mut source = engine.copy_out().await.map_err(|fault| fault.to_string())?;
    let copied = copy(&mut source, data, to);
    drop(source);
    let closed = engine.close().map_err(|fault| fault.to_string());
    let copied = copied?;
    closed.map(|()| copied)
}

fn from_server(data: &Path, to: &Path) -> Result<Copied, String> {
    let stream = control::ask_for_copy(data).map_err(|error| {
        format!(
            "{} is in use by another process, and nothing answers at the socket in it ({error}): the server is starting or \
             stopping, or could not make the socket and said so in its log. Try again, or stop it first",
            data.display()
        )
    })?;
    copy(&mut Stream(BufReader::new(stream)), data, to)
}

fn copy(source: &mut dyn Source, data: &Path, to: &Path) -> Result<Copied, String> {
    let mut progress = Progress::new();
    let mut tell = |copied: &Copied| {
        let steps = copied.records + 100 * (copied.extents + copied.kept_extents);
        progress.at(steps, || {
            let bodies = copied.extents + copied.kept_extents;
            format!("{} records, {bodies} bodies, {} copied", copied.records, sized(copied.bytes))
        });
    };
    embedded::backup::copy(source, data, to, &mut tell).map_err(words)
}

pub fn restore(Restore { from, data }: Restore) -> Result<(), String> {
    let mut progress = Progress::new();
    let mut tell = |restored: &Restored| {
        progress.at(restored.records + 100 * restored.extents, || {
            format!("{} records, {} bodies, {}", restored.records, restored.extents, sized(restored.bytes))
        });
    };
    let restored = embedded::backup::restore(&from, &data, &mut tell).map_err(words)?;
    drop(progress);
    println!(
        "{}: everything up to commit {}: {} records, {} in {} bodies",
        data.display(),
        restored.commit,
        restored.records,
        sized(restored.bytes),
        restored.extents
    );
    Ok(())
}

fn words(error: BackupError) -> String {
    error.to_string()
}
