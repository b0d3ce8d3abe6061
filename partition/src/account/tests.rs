//! Accounts on an engine that two processes share.

use std::sync::Arc;

use contract::names::{Metadata, QueueName};
use engine::memory::MemoryEngine;
use engine::memory::shared::SharedMemory;
use env::{ScriptedClock, ScriptedIds};

use super::*;
use crate::queue::CreateQueue;
use crate::record::account::tests::account;
use crate::record::service::ServiceProperties;
use crate::service::{Changes, SetServiceProperties, properties};

async fn shell(memory: &MemoryEngine) -> Shell {
    let engine = Arc::new(SharedMemory::new(memory.clone()));
    let clock = ScriptedClock::at(Timestamp::UNIX_EPOCH.plus_seconds(1_000_000));
    Shell::open(engine, Arc::new(clock), Arc::new(ScriptedIds::default())).await.expect("opens")
}

fn name(text: &str) -> AccountName {
    AccountName::parse(text).expect("right")
}

fn keys(account: &StoredAccount) -> [&str; 2] {
    [account.keys[0].reveal(), account.keys[1].reveal()]
}

#[tokio::test]
async fn what_one_process_changes_the_other_reads() {
    let memory = MemoryEngine::new();
    let (here, there) = (shell(&memory).await, shell(&memory).await);
    assert!(all(&there).await.expect("read").is_empty());
    create(&here, &name("second"), &account("c", "d")).await.expect("done").expect("new");
    create(&here, &name("first"), &account("a", "b")).await.expect("done").expect("new");
    let again = create(&there, &name("first"), &account("x", "y")).await.expect("done");
    assert_eq!(again, Err(Refused::AlreadyThere));

    rotate(&there, &name("first"), KeyName::Key2, &Secret::new("e")).await.expect("done").expect("there");
    let found = all(&here).await.expect("read");
    assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["first", "second"]);
    assert_eq!(found.iter().map(|(_, account)| keys(account)).collect::<Vec<_>>(), [["a", "e"], ["c", "d"]]);

    let settings = [Setting::Versioning(true), Setting::ShareRetentionDays(Some(7))];
    let changed = configure(&here, &name("second"), &settings).await.expect("done").expect("there");
    assert!(changed.settings.versioning && changed.settings.share_retention_days == Some(7));
    for nobody in [
        rotate(&here, &name("nobody"), KeyName::Key1, &Secret::new("e")).await.expect("done"),
        configure(&here, &name("nobody"), &settings).await.expect("done"),
        close(&here, &name("nobody")).await.expect("done"),
    ] {
        assert_eq!(nobody, Err(Refused::NotThere));
    }
}

#[tokio::test]
async fn an_account_that_goes_is_closed_first_and_leaves_nothing() {
    let memory = MemoryEngine::new();
    let shell = shell(&memory).await;
    let name = name("first");
    create(&shell, &name, &account("a", "b")).await.expect("done").expect("new");
    let version = Some("2021-08-06".to_string());
    let changes = Changes { default_version: version, ..Changes::default() };
    shell.execute(&SetServiceProperties::new(&name, Service::Blob, changes)).await.expect("set");

    let queue = QueueName::parse("jobs").expect("right");
    shell.execute(&CreateQueue::new(&name, &queue, Metadata::default())).await.expect("made");
    assert_eq!(holds_anything(&shell, &name).await.expect("read"), Some(Service::Queue));
    assert!(close(&shell, &name).await.expect("done").expect("there").is_closing);
    let rotated = rotate(&shell, &name, KeyName::Key1, &Secret::new("c")).await.expect("done");
    assert_eq!(rotated, Err(Refused::Closing));
    assert!(!reopen(&shell, &name).await.expect("done").expect("there").is_closing);

    remove(&shell, &name).await.expect("removed");
    assert!(all(&shell).await.expect("read").is_empty());
    assert_eq!(properties(&shell, &name, Service::Blob).await.expect("read"), ServiceProperties::default());
}

#[test]
fn settings_in_words() {
    for (text, expected) in [
        ("versioning=true", Ok(Setting::Versioning(true))),
        ("versioning=yes", Err("true or false")),
        ("versioning", Err("NAME=VALUE")),
        ("immutable-storage=false", Ok(Setting::ImmutableStorage(false))),
        ("track-last-access=true", Ok(Setting::TrackLastAccess(true))),
        ("archive-rehydration-seconds=5", Ok(Setting::ArchiveRehydrationSeconds(Some(5)))),
        ("archive-rehydration-seconds=off", Ok(Setting::ArchiveRehydrationSeconds(None))),
        ("archive-rehydration-seconds=-1", Err("number of seconds")),
        ("container-retention-days=365", Ok(Setting::ContainerRetentionDays(Some(365)))),
        ("container-retention-days=366", Err("from 1 to 365")),
        ("share-retention-days=0", Err("from 1 to 365")),
        ("share-retention-days=off", Ok(Setting::ShareRetentionDays(None))),
        ("share-retention-days=x", Err("number of days")),
        ("colour=blue", Err("versioning, immutable-storage, track-last-access")),
    ] {
        match (Setting::parse(text), expected) {
            (Err(error), Err(words)) => assert!(error.contains(words), "{text}: {error}"),
            (parsed, expected) => assert_eq!(parsed.ok(), expected.ok(), "{text}"),
        }
    }
    let all = AccountSettings { versioning: true, share_retention_days: Some(7), ..AccountSettings::default() };
    for (name, value) in all.shown() {
        let mut settings = all;
        Setting::parse(&format!("{name}={value}")).expect("its own words").apply(&mut settings);
        assert_eq!(settings, all, "{name}");
    }
}
