//! `lazuli sas`: shared access signatures, made and explained. What is signed and what is checked stands in the HTTP front end.

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use contract::Service;
use env::{Clock, SystemClock, Timestamp};
use http::account::Account;
use http::client::{self, Visit, Wanted};

use crate::config::WhoFlags;

/// A version that clients of the last years know.
const VERSION: &str = "2024-11-04";
const DEFAULT_SECONDS: u64 = 3600;

#[derive(Subcommand, Clone, Debug)]
pub enum SasCommand {
    /// Make a token and print it
    Make(Box<MakeFlags>),
    /// Say in words what a token grants and until when, and why it would be refused
    ///
    /// Ends with 0 if nothing speaks against it, with 1 if it would be refused, and with 2 if it is no token.
    Explain(ExplainFlags),
}

#[derive(Args, Clone, Debug)]
pub struct MakeFlags {
    /// What for: account, blob/CONTAINER[/NAME], queue/NAME, table/NAME or share/NAME[/PATH]
    #[arg(value_name = "WHAT")]
    what: String,
    /// The letters of what may be done, as r or racwdl
    #[arg(short = 'p', long, value_name = "LETTERS", default_value = "")]
    permissions: String,
    /// For how long, as 90s, 30m, 12h or 7d [default: 1h, unless a policy says]
    #[arg(long = "for", value_name = "TIME", conflicts_with = "expiry")]
    lasting: Option<String>,
    /// Until when, as 2030-01-01T00:00:00Z
    #[arg(long, value_name = "TIME")]
    expiry: Option<String>,
    /// From when [default: at once]
    #[arg(long, value_name = "TIME", default_value = "")]
    start: String,
    /// The stored access policy that says the rest
    #[arg(long, value_name = "ID", default_value = "")]
    policy: String,
    /// Only from this IPv4 address, or from FIRST-LAST
    #[arg(long, value_name = "ADDR", default_value = "")]
    ip: String,
    /// Only over https
    #[arg(long)]
    https_only: bool,
    /// Of an account's token: the services, of b, q, t and f
    #[arg(long, value_name = "LETTERS", default_value = "bqtf")]
    services: String,
    /// Of an account's token: on what, of s (services), c (containers) and o (objects)
    #[arg(long, value_name = "LETTERS", default_value = "sco")]
    resource_types: String,
    /// The snapshot of a blob
    #[arg(long, value_name = "TIME", conflicts_with = "version_id")]
    snapshot: Option<String>,
    /// The version of a blob
    #[arg(long, value_name = "ID")]
    version_id: Option<String>,
    /// Of a table's token: the first keys, PARTITION[,ROW]
    #[arg(long, value_name = "KEYS", default_value = "")]
    from: String,
    /// Of a table's token: the last keys, PARTITION[,ROW]
    #[arg(long, value_name = "KEYS", default_value = "")]
    to: String,
    /// Headers to answer instead of those that are stored
    #[arg(long, value_name = "VALUE", default_value = "")]
    cache_control: String,
    #[arg(long, value_name = "VALUE", default_value = "")]
    content_disposition: String,
    #[arg(long, value_name = "VALUE", default_value = "")]
    content_encoding: String,
    #[arg(long, value_name = "VALUE", default_value = "")]
    content_language: String,
    #[arg(long, value_name = "VALUE", default_value = "")]
    content_type: String,
    /// A user delegation SAS in the name of this principal, OBJECT[,TENANT]: its key is derived from the account's, as this server does
    #[arg(long, value_name = "ID", conflicts_with = "policy")]
    principal: Option<String>,
    /// The version that it is signed by
    #[arg(long, value_name = "DATE", default_value = VERSION)]
    signed_version: String,
    /// Print the whole address, below this endpoint, as http://127.0.0.1:10000/devstoreaccount1
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Which account, if several are known
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    who: WhoFlags,
}

#[derive(Args, Clone, Debug)]
pub struct ExplainFlags {
    /// An address with a token, or a token alone
    #[arg(value_name = "URL-OR-TOKEN")]
    text: String,
    /// The address it would come from [default: this machine]
    #[arg(long, value_name = "ADDR")]
    ip: Option<IpAddr>,
    #[command(flatten)]
    who: WhoFlags,
}

pub fn run(command: SasCommand) -> Result<ExitCode, String> {
    let now = SystemClock.now();
    match command {
        SasCommand::Make(flags) => {
            let account = one_of(flags.who.accounts()?, flags.name.as_deref())?;
            crate::print(&format!("{}\n", make(&flags, &account, now)?))?;
            Ok(ExitCode::SUCCESS)
        }
        SasCommand::Explain(flags) => {
            let accounts = flags.who.accounts()?;
            match explain(&flags, &accounts, now) {
                Ok((text, is_good)) => {
                    crate::print(&text)?;
                    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
                }
                Err(error) => {
                    eprintln!("lazuli: {error}");
                    Ok(ExitCode::from(2))
                }
            }
        }
    }
}

/// The account that is meant.
pub fn one_of(accounts: Vec<Account>, name: Option<&str>) -> Result<Account, String> {
    let names = accounts.iter().map(|account| account.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut found = accounts.into_iter().filter(|account| name.is_none_or(|name| account.name.as_str() == name));
    match (found.next(), found.next()) {
        (Some(account), None) => Ok(account),
        (Some(_), Some(_)) => Err(format!("which account? --name is one of {names}")),
        (None, _) => Err(format!("there is no account {}; known are {names}", name.unwrap_or_default())),
    }
}

/// What a token is for.
struct What {
    service: Service,
    /// Container, queue, table or share, and what is in it; empty for the account.
    name: String,
    is_account: bool,
}

fn parse_what(text: &str) -> Result<What, String> {
    let text = text.trim_end_matches('/');
    if text == "account" {
        return Ok(What { service: Service::Blob, name: String::new(), is_account: true });
    }
    let (kind, name) = text.split_once('/').unwrap_or((text, ""));
    let service = match kind {
        "blob" | "container" => Service::Blob,
        "queue" => Service::Queue,
        "table" => Service::Table,
        "share" | "file" => Service::File,
        _ => {
            return Err(format!(
                "{text}: it is account, blob/CONTAINER[/NAME], queue/NAME, table/NAME or share/NAME[/PATH]"
            ));
        }
    };
    if name.is_empty() {
        return Err(format!("{text}: the name is missing, as in {kind}/NAME"));
    }
    if matches!(service, Service::Queue | Service::Table) && name.contains('/') {
        return Err(format!("{text}: a {kind} has nothing below it that a token could be for"));
    }
    Ok(What { service, name: name.to_owned(), is_account: false })
}

fn make(flags: &MakeFlags, account: &Account, now: Timestamp) -> Result<String, String> {
    let what = parse_what(&flags.what)?;
    let fields = fields(flags, &what, now)?;
    let visit = Visit { now, client: IpAddr::V4(Ipv4Addr::LOCALHOST), tls: flags.https_only };
    let wanted = Wanted { service: what.service, name: &what.name, fields: &fields };
    let token = client::make(account, &wanted, visit).map_err(|error| format!("{}: {error}", flags.what))?;
    Ok(match &flags.endpoint {
        None => token,
        Some(endpoint) => {
            let endpoint = endpoint.trim_end_matches('/');
            format!("{endpoint}/{}?{token}", client::percent_encode(&what.name, "/"))
        }
    })
}

fn fields(flags: &MakeFlags, what: &What, now: Timestamp) -> Result<Vec<(&'static str, String)>, String> {
    let expiry = match (&flags.expiry, &flags.lasting) {
        (Some(expiry), _) => expiry.clone(),
        (None, Some(text)) => seconds(now.plus_seconds(parse_duration(text)?)),
        (None, None) if !flags.policy.is_empty() => String::new(),
        (None, None) => seconds(now.plus_seconds(DEFAULT_SECONDS)),
    };
    if flags.permissions.is_empty() && flags.policy.is_empty() {
        return Err("what may be done with it? --permissions has the letters, as r or racwdl; or --policy names a stored policy".into());
    }
    let mut fields: Vec<(&'static str, String)> = vec![
        ("sv", flags.signed_version.clone()),
        ("st", flags.start.clone()),
        ("se", expiry.clone()),
        ("sp", flags.permissions.clone()),
        ("sip", flags.ip.clone()),
        ("spr", if flags.https_only { "https".to_owned() } else { String::new() }),
        ("si", flags.policy.clone()),
    ];
    let refuse = |is_given: bool, flag: &str, of: &str| match is_given {
        true => Err(format!("{flag} is about the token of {of}")),
        false => Ok(()),
    };
    let is_blob = what.service == Service::Blob && what.name.contains('/');
    refuse(!is_blob && flags.snapshot.is_some(), "--snapshot", "a blob")?;
    refuse(!is_blob && flags.version_id.is_some(), "--version-id", "a blob")?;
    let is_table = what.service == Service::Table;
    let is_ranged = !flags.from.is_empty() || !flags.to.is_empty();
    refuse(!is_table && is_ranged, "--from and --to", "a table")?;
    let overrides = [
        ("rscc", &flags.cache_control),
        ("rscd", &flags.content_disposition),
        ("rsce", &flags.content_encoding),
        ("rscl", &flags.content_language),
        ("rsct", &flags.content_type),
    ];
    let has_overrides = !what.is_account && matches!(what.service, Service::Blob | Service::File);
    let are_given = overrides.iter().any(|(_, value)| !value.is_empty());
    refuse(!has_overrides && are_given, "--content-type and its like", "blobs and files")?;
    if what.is_account {
        refuse(!flags.policy.is_empty(), "--policy", "a container, queue, table or share")?;
        refuse(flags.principal.is_some(), "--principal", "a container, blob, queue, share or file")?;
        fields.extend([("ss", flags.services.clone()), ("srt", flags.resource_types.clone())]);
        return Ok(fields);
    }
    fields.extend(overrides.map(|(name, value)| (name, value.clone())));
    let kind = match what.service {
        Service::Blob if flags.snapshot.is_some() => "bs",
        Service::Blob if flags.version_id.is_some() => "bv",
        Service::Blob if is_blob => "b",
        Service::Blob => "c",
        Service::File if what.name.contains('/') => "f",
        Service::File => "s",
        Service::Queue | Service::Table => "",
    };
    fields.push(("sr", kind.to_owned()));
    fields.push(("snapshot", flags.snapshot.clone().unwrap_or_default()));
    fields.push(("versionid", flags.version_id.clone().unwrap_or_default()));
    if is_table {
        let keys = |text: &str| {
            let (partition, row) = text.split_once(',').unwrap_or((text, ""));
            (partition.to_owned(), row.to_owned())
        };
        let ((spk, srk), (epk, erk)) = (keys(&flags.from), keys(&flags.to));
        fields.extend([("tn", what.name.clone()), ("spk", spk), ("srk", srk), ("epk", epk), ("erk", erk)]);
    }
    if let Some(principal) = &flags.principal {
        let (object, tenant) = principal.split_once(',').unwrap_or((principal, "00000000-0000-0000-0000-000000000000"));
        let start = if flags.start.is_empty() { seconds(now) } else { flags.start.clone() };
        fields.extend([
            ("skoid", object.to_owned()),
            ("sktid", tenant.to_owned()),
            ("skt", start),
            ("ske", expiry),
            ("sks", what.service.letter().to_string()),
            ("skv", flags.signed_version.clone()),
        ]);
    }
    Ok(fields)
}

/// As clients write times in tokens: to the second.
fn seconds(moment: Timestamp) -> String {
    let text = moment.iso8601();
    format!("{}Z", text.split('.').next().unwrap_or_default())
}

/// `90s`, `30m`, `12h`, `7d`.
fn parse_duration(text: &str) -> Result<u64, String> {
    let bad = || format!("{text}: a time is a number with its unit, as 90s, 30m, 12h or 7d");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(bad)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return Err(bad()),
    };
    number.parse::<u32>().map(|number| u64::from(number) * unit).map_err(|_| bad())
}

/// What is to be said of it, and whether nothing speaks against it.
fn explain(flags: &ExplainFlags, accounts: &[Account], now: Timestamp) -> Result<(String, bool), String> {
    let client = flags.ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let find = |name: &str| accounts.iter().find(|account| account.name.as_str() == name).cloned();
    // A token alone is tried with the one account that is known.
    let find = |name: &str| if name.is_empty() { accounts.first().cloned() } else { find(name) };
    let judged = client::judge(&flags.text, find, Visit { now, client, tls: false })?;
    let mut text = judged.explanation.kind.trim_start_matches("an ").trim_start_matches("a ").to_owned();
    if let Some((account, inside)) = &judged.place {
        text.push_str(&format!(", {} service of {account}", judged.service.name()));
        if !inside.is_empty() {
            text.push_str(&format!(", {inside}"));
        }
    }
    text.push('\n');
    for (name, value, meaning) in &judged.explanation.fields {
        text.push_str(&format!("  {:<40} {meaning}\n", format!("{name}={value}")));
    }
    if let Ok(string) = &judged.explanation.string_to_sign
        && !string.is_empty()
    {
        text.push_str(&format!("  signed is {string:?}\n"));
    }
    for unknown in &judged.unknown {
        text.push_str(&format!("not known: {unknown}\n"));
    }
    for why in &judged.refusals {
        text.push_str(&format!("refused: {why}\n"));
    }
    if judged.refusals.is_empty() {
        text.push_str("nothing speaks against it\n");
    }
    Ok((text, judged.refusals.is_empty()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: SasCommand,
    }

    fn now() -> Timestamp {
        Timestamp::parse_iso8601("2029-12-31T00:00:00Z").expect("a time")
    }

    fn made(words: &str) -> Result<String, String> {
        let line = Line::try_parse_from(["sas", "make"].into_iter().chain(words.split(' ')));
        let SasCommand::Make(flags) = line.map_err(|error| error.to_string())?.command else { panic!("make") };
        make(&flags, &Account::development(), now())
    }

    #[test]
    fn tokens_that_are_made() {
        for (words, expected) in [
            ("account -p rl", "sv=2024-11-04&se=2029-12-31T01%3A00%3A00Z&sp=rl&ss=bqtf&srt=sco&sig="),
            ("blob/cont -p rl --for 7d", "se=2030-01-07T00%3A00%3A00Z&sp=rl&sr=c&sig="),
            ("blob/cont/d/x -p r --content-type text/plain", "rsct=text%2Fplain&sr=b&sig="),
            ("blob/cont/x -p r --snapshot 2024-01-02T03:04:05.0000000Z", "sr=bs&snapshot="),
            ("blob/cont/x -p r --version-id 2024-01-02T03:04:05.0000000Z", "sr=bv&versionid="),
            ("blob/cont --policy p", "sv=2024-11-04&si=p&sr=c&sig="),
            ("queue/line -p p --https-only", "spr=https&sig="),
            ("table/Table -p r --from a,1 --to b", "tn=Table&spk=a&srk=1&epk=b&sig="),
            ("share/share -p r", "sr=s&sig="),
            ("share/share/d/f -p r", "sr=f&sig="),
            ("blob/cont/x -p r --principal o,t", "skoid=o&sktid=t&skt=2029-12-31T00%3A00%3A00Z"),
            ("blob/cont/x -p r --endpoint http://h/a/", "http://h/a/cont/x?sv="),
        ] {
            let token = made(words).unwrap_or_else(|error| panic!("{words}: {error}"));
            assert!(token.contains(expected), "{words}: {token}");
        }
    }

    #[test]
    fn refused_in_words() {
        for (words, expected) in [
            ("blob -p r", "the name is missing"),
            ("box/c -p r", "it is account"),
            ("queue/line/m -p r", "nothing below it"),
            ("blob/cont", "--permissions"),
            ("blob/cont -p r --for soon", "as 90s"),
            ("blob/cont -p r --for 1h --expiry 2030-01-01", "cannot be used with"),
            ("blob/cont -p r --snapshot x", "--snapshot is about"),
            ("queue/line -p r --content-type x", "blobs and files"),
            ("share/share -p r --from a", "a table"),
            ("account -p r --policy p", "--policy is about"),
            ("account -p r --services x", "ss has an unknown letter"),
            ("blob/cont -p q", "sp has an unknown letter"),
            ("blob/cont -p r --signed-version new", "sv is not valid"),
            ("blob/c -p r", "blob/c: "),
        ] {
            let error = made(words).err().unwrap_or_else(|| panic!("{words} was made"));
            assert!(error.contains(expected), "{words}: {error}");
        }
    }

    #[test]
    fn durations() {
        for (text, expected) in [
            ("90s", Some(90)),
            ("2m", Some(120)),
            ("1h", Some(3600)),
            ("1d", Some(86400)),
            ("1", None),
            ("", None),
            ("ü", None),
        ] {
            assert_eq!(parse_duration(text).ok(), expected, "{text}");
        }
    }
}
