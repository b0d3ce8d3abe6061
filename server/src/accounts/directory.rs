//! Accounts that a data directory keeps, beside those that flags and file give to its server.
//!
//! 1. An account is in one place. One that is given and kept as well is refused: nobody could tell which keys hold.
//! 2. The development account is served where nobody names an account. The first account that is kept ends that; if the development account
//!    holds anything it is entered as well, so that nothing is lost from sight.
//! 3. A server with the directory is asked by its socket and serves by the change before it answers; otherwise the directory is opened.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use contract::names::AccountName;
use embedded::OpenError;
use engine::BoxFuture;
use http::account::{Account, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use http::{AccountsSource, App};
use partition::Shell;
use partition::account::{self, AccountSettings, Secret, StoredAccount};

use super::{Asking, Deed, Holder, parse_key, served, words};
use crate::config::{AccountsFrom, Settings};
use crate::control::{self, OnAccounts};
use crate::storage::Storage;

/// What is given beside what is kept, and what of the settings bears on it.
#[derive(Clone)]
struct Given {
    from: AccountsFrom,
    settings: Settings,
}

/// The accounts of a server: given and kept.
pub struct Kept {
    shell: Arc<Shell>,
    given: RwLock<Given>,
    /// Changes, one after the other: what is refused is judged by what is there.
    changing: tokio::sync::Mutex<()>,
}

impl Kept {
    pub fn new(shell: &Arc<Shell>, settings: &Settings) -> Kept {
        let given = Given { from: settings.accounts_from, settings: settings.clone() };
        Kept { shell: shell.clone(), given: RwLock::new(given), changing: tokio::sync::Mutex::default() }
    }

    fn given(&self) -> Given {
        self.given.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From here on these are given; what was before is told.
    pub fn configure(&self, settings: &Settings) -> Settings {
        let new = Given { from: settings.accounts_from, settings: settings.clone() };
        let mut given = self.given.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *given, new).settings
    }

    pub fn put_back(&self, settings: Settings) {
        let _ = self.configure(&settings); // what could not be used is forgotten
    }

    pub async fn accounts(&self) -> Result<Vec<Account>, String> {
        let given = self.given();
        together(given.from, &given.settings.accounts, served(&self.shell).await?)
    }

    /// Does what comes by the socket.
    pub fn answers(self: &Arc<Kept>, app: &Arc<App>) -> OnAccounts {
        let (kept, app) = (self.clone(), Arc::downgrade(app));
        Arc::new(move |asking| -> BoxFuture<'static, Result<String, String>> {
            let (kept, app) = (kept.clone(), app.clone());
            Box::pin(async move {
                let app = app.upgrade().ok_or("the server is stopping")?;
                let asking: Asking =
                    serde_json::from_str(&asking).map_err(|error| format!("not understood: {error}"))?;
                let deed = Deed::parse(asking)?;
                let _one_at_a_time = kept.changing.lock().await;
                let directory = Directory { shell: &kept.shell, server: Some((kept.as_ref(), app.as_ref())) };
                let said = directory.act(deed).await?;
                tracing::info!(accounts = app.accounts().len(), "accounts were asked for or changed");
                Ok(said)
            })
        })
    }
}

impl AccountsSource for Kept {
    /// Every change is made by this process.
    fn is_stale(&self) -> bool {
        false
    }

    fn read(&self) -> BoxFuture<'_, Result<Vec<Account>, String>> {
        Box::pin(self.accounts())
    }
}

/// What is served: see the head of this file.
fn together(from: AccountsFrom, given: &[Account], kept: Vec<Account>) -> Result<Vec<Account>, String> {
    if let Some(twice) = kept.iter().find(|account| from != AccountsFrom::Default && has(given, &account.name)) {
        let name = twice.name.as_str();
        return Err(format!(
            "the account {name} is given with --account, a variable or the file, and is kept in the data directory as well: take it out of \
             the one or out of the other (`lazuli account remove {name} --keep-data`)"
        ));
    }
    Ok(match (from, kept.is_empty()) {
        (AccountsFrom::Default, false) => kept,
        (_, _) => given.iter().cloned().chain(kept).collect(),
    })
}

fn has(accounts: &[Account], name: &AccountName) -> bool {
    accounts.iter().any(|account| account.name == *name)
}

/// A directory that is open here, with its server if it has one.
pub struct Directory<'a> {
    pub shell: &'a Shell,
    pub server: Option<(&'a Kept, &'a App)>,
}

impl Directory<'_> {
    pub async fn tell(&self) -> Result<(), String> {
        match self.server {
            Some((_, app)) => app.read_accounts_again().await,
            None => Ok(()),
        }
    }

    async fn act(&self, deed: Deed) -> Result<String, String> {
        self.refuse(&deed).await?;
        let mut said = self.keep_development_account(&deed).await?;
        let is_list = matches!(deed, Deed::List { .. });
        said.push_str(&deed.done(&Holder::Directory(self)).await?);
        if let (true, Some((kept, _))) = (is_list, self.server) {
            let given = kept.given();
            let shown = kept.accounts().await?;
            let names = given.settings.accounts.iter().filter(|account| has(&shown, &account.name));
            let names =
                names.filter(|account| !said.lines().any(|line| line.split(' ').next() == Some(account.name.as_str())));
            let names: Vec<&str> = names.map(|account| account.name.as_str()).collect();
            for name in names {
                said.push_str(&format!("{name} (given to the server, not kept)\n"));
            }
        }
        Ok(said)
    }

    /// What would leave the server with accounts that it may not serve.
    async fn refuse(&self, deed: &Deed) -> Result<(), String> {
        let Some((kept, _)) = self.server else { return Ok(()) };
        let given = kept.given();
        let named = match deed {
            Deed::List { .. } => None,
            Deed::Create(name, ..) | Deed::Rotate(name, ..) | Deed::Set(name, _) => Some(name),
            Deed::Show { name, .. } | Deed::Delete { name, .. } => Some(name),
        };
        let all = account::all(&kept.shell).await.map_err(words)?;
        let is_kept = |name: &AccountName| all.iter().any(|(other, _)| other == name);
        if let Some(name) = named.filter(|name| !is_kept(name) && has(&given.settings.accounts, name)) {
            let is_default = given.from == AccountsFrom::Default;
            if !is_default {
                return Err(format!(
                    "{}: it is given to the server with --account, a variable or the file; change it there",
                    name.as_str()
                ));
            }
            if !matches!(deed, Deed::Create(..)) {
                return Err(format!(
                    "{0}: it is served because nobody named an account; `lazuli account add {0}` gives it keys of its own",
                    name.as_str()
                ));
            }
        }
        match deed {
            Deed::Create(name, new, _) => {
                let keys = new.keys.each_ref().map(|key| key.reveal());
                let new = Account::new(name.as_str(), &keys).map_err(|error| format!("{}: {error}", name.as_str()))?;
                given.settings.refuse_published_key_on_network(&[new])
            }
            Deed::Rotate(name, _, key, _) => {
                let new = Account::new(name.as_str(), &[key.reveal()]).map_err(|error| error.to_string())?;
                given.settings.refuse_published_key_on_network(&[new])
            }
            Deed::Delete { name, .. } if given.from == AccountsFrom::Default && all.len() == 1 && is_kept(name) => {
                given.settings.refuse_published_key_on_network(&[Account::development()])
            }
            _ => Ok(()),
        }
    }

    /// The first account that is kept ends the time of the development account, unless that holds something.
    async fn keep_development_account(&self, deed: &Deed) -> Result<String, String> {
        let Deed::Create(name, ..) = deed else { return Ok(String::new()) };
        let is_given = self.server.is_some_and(|(kept, _)| kept.given().from != AccountsFrom::Default);
        let is_first = account::all(self.shell).await.map_err(words)?.is_empty();
        let development = AccountName::parse(DEVELOPMENT_ACCOUNT).ok_or("the development account has no name")?;
        if is_given || !is_first || *name == development {
            return Ok(String::new());
        }
        if account::holds_anything(self.shell, &development).await.map_err(words)?.is_none() {
            return Ok("# the development account is not served any more: the directory has an account of its own\n"
                .to_owned());
        }
        let keys = [Secret::new(DEVELOPMENT_KEY), parse_key(None)?];
        let stored = StoredAccount { keys, settings: AccountSettings::default(), is_closing: false };
        super::changed(&development, account::create(self.shell, &development, &stored).await)?;
        Ok(format!("# {DEVELOPMENT_ACCOUNT} holds something and is kept as well, with its published key\n"))
    }
}

/// By whoever has the directory.
pub async fn ask(data: &Path, asking: Asking, deed: Deed) -> Result<String, String> {
    let makes = matches!(deed, Deed::Create(..));
    if !makes && !embedded::is_data_directory(data) {
        return Err(format!("{} is no data directory: there is no FORMAT in it", data.display()));
    }
    let options = embedded::Options::new(data);
    let opened = tokio::task::spawn_blocking(|| embedded::Embedded::open(options)).await;
    match opened.map_err(|error| error.to_string())? {
        Ok(engine) => {
            let storage = Storage::of(engine).await?;
            let shell = storage.shell();
            let done = Directory { shell: &shell, server: None }.act(deed).await;
            drop(shell);
            let closed = storage.close().await;
            done.and_then(|said| closed.map(|()| said))
        }
        Err(OpenError::Locked { .. }) => {
            let asking = serde_json::to_string(&asking).map_err(|error| error.to_string())?;
            let path = data.to_owned();
            let asked = tokio::task::spawn_blocking(move || control::ask_accounts(&path, &asking)).await;
            asked.map_err(|error| error.to_string())?.map_err(|error| {
                format!(
                    "{} is in use by another process, and nothing answers at the socket in it ({error}): the server is starting or \
                     stopping, or could not make the socket and said so in its log",
                    data.display()
                )
            })?
        }
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_and_kept() {
        let account = |name: &str| Account::new(name, &["a2V5"]).expect("right");
        let names = |found: Result<Vec<Account>, String>| {
            found.map(|all| all.iter().map(|account| account.name.as_str().to_owned()).collect::<Vec<_>>().join(" "))
        };
        let given = [account("abc")];
        for (from, kept, expected) in [
            (AccountsFrom::Default, vec![], Ok("abc")),
            (AccountsFrom::Default, vec!["def"], Ok("def")),
            (AccountsFrom::Default, vec!["abc", "def"], Ok("abc def")),
            (AccountsFrom::Given, vec![], Ok("abc")),
            (AccountsFrom::Given, vec!["def"], Ok("abc def")),
            (AccountsFrom::Azurite, vec!["def"], Ok("abc def")),
            (AccountsFrom::Given, vec!["abc"], Err("--keep-data")),
            (AccountsFrom::Azurite, vec!["def", "abc"], Err("--keep-data")),
        ] {
            let found = names(together(from, &given, kept.iter().map(|name| account(name)).collect()));
            match (&found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{from:?} {kept:?}"),
                (Err(error), Err(words)) => assert!(error.contains(words), "{error}"),
                _ => panic!("{from:?} {kept:?}: {found:?}, not {expected:?}"),
            }
        }
    }
}
