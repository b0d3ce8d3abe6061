//! The command line as it is shown: `serve --help` is what most people need on one screen; the page of settings has everything. Both are
//! printed from the flags themselves.

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::commands::CommandLine;

/// What `serve --help` shows, under which heading. All other flags are on the page of settings.
const SHOWN: [(&str, &[&str]); 4] = [
    ("Data", &["data", "durability", "engine"]),
    (
        "Listening",
        &[
            "host",
            "blob-port",
            "queue-port",
            "table-port",
            "file-port",
            "smb-port",
            "web-port",
            "console-port",
            "tls",
            "tls-cert",
            "tls-key",
        ],
    ),
    ("Who may come in", &["account", "dev-token-port", "copy-source"]),
    ("The program", &["config", "log", "log-format", "otlp-endpoint", "help"]),
];

const MORE: &str = "\
Every flag is also a variable (LAZULI_BLOB_PORT) and a key of the file (blob-port = 10000).
All of them: `lazuli settings`. What holds, and where it comes from: `lazuli config`.";

const NEXT: &str = "\
`lazuli` alone serves on this machine, with the development account. `lazuli serve --help` has the flags.";

/// The command line with its help.
pub fn command() -> Command {
    let brief = |command: Command| {
        let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print this");
        let command = command.disable_help_flag(true).arg(help).after_help(MORE);
        command.mut_args(|arg| {
            let name = arg.get_long().unwrap_or_default().to_owned();
            let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
            let arg = arg.hide_env(true);
            let arg = if takes_value { arg.hide_possible_values(true) } else { arg };
            match SHOWN.iter().find(|(_, names)| names.contains(&name.as_str())) {
                Some((heading, _)) => arg.help_heading(*heading),
                None => arg.hide_short_help(true).hide_long_help(true),
            }
        })
    };
    CommandLine::command()
        .after_help(NEXT)
        .mut_args(|arg| match arg.get_id().as_str() {
            "help" | "version" => arg,
            _ => arg.hide_short_help(true).hide_long_help(true),
        })
        .mut_subcommand("serve", brief)
        .mut_subcommand("config", brief)
        .mut_subcommand("settings", |command| command.after_help(settings_page(Page::Terminal)))
}

/// For a shell to finish what is typed.
pub fn completions(shell: clap_complete::Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(), "lazuli", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The man page, with every command on it.
pub fn man_page() -> Result<String, String> {
    let mut command = command();
    command.build();
    let mut text = Vec::new();
    let failed = |error: std::io::Error| format!("cannot print: {error}");
    clap_mangen::Man::new(command.clone()).render(&mut text).map_err(failed)?;
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        let man = clap_mangen::Man::new(inner.clone());
        text.extend_from_slice(format!(".SH \"LAZULI {}\"\n", inner.get_name().to_uppercase()).as_bytes());
        man.render_description_section(&mut text).map_err(failed)?;
        man.render_synopsis_section(&mut text).map_err(failed)?;
        man.render_options_section(&mut text).map_err(failed)?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// One setting, in all its words.
pub struct Setting {
    /// The flag without its dashes, and the key of the file.
    pub name: String,
    pub value: Option<String>,
    pub variable: String,
    pub default: Option<String>,
    pub help: String,
    pub is_list: bool,
    pub is_secret: bool,
}

/// The settings of `serve`, in the order of its flags.
pub fn settings() -> Vec<Setting> {
    let command = CommandLine::command();
    let flags = command.find_subcommand("serve").into_iter().flat_map(Command::get_arguments);
    flags.filter_map(setting).collect()
}

fn setting(arg: &Arg) -> Option<Setting> {
    let text = |help: Option<&clap::builder::StyledStr>| help.map(|help| help.to_string());
    let help = text(arg.get_long_help()).or_else(|| text(arg.get_help())).unwrap_or_default();
    let (before, rest) = help.split_once(" [default: ").unwrap_or((&help, ""));
    let (default, after) = rest.split_once(']').unwrap_or(("", ""));
    let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
    Some(Setting {
        name: arg.get_long()?.to_owned(),
        value: arg.get_value_names().filter(|_| !is_flag).and_then(|names| names.first().map(ToString::to_string)),
        variable: arg.get_env()?.to_string_lossy().into_owned(),
        default: (!default.is_empty()).then(|| default.to_owned()),
        help: sentences(before, after),
        is_list: matches!(arg.get_action(), ArgAction::Append),
        is_secret: arg.is_hide_env_values_set(),
    })
}

/// A headline and what is said below it.
fn sentences(first: &str, rest: &str) -> String {
    let joined = if rest.trim().is_empty() { first.to_owned() } else { format!("{first}. {rest}") };
    joined.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches('.').to_owned()
}

/// What only the file can say, by table.
pub const ONLY_IN_THE_FILE: [(&str, &[(&str, &str)]); 4] = [
    (
        "[account.NAME]",
        &[
            ("keys", "its one or two keys; the development account needs none here, nor does one that a flag gives"),
            ("versioning", "what is overwritten or deleted stays as an earlier version [default: false]"),
            ("immutable-storage", "blobs may have immutability policies and legal holds [default: false]"),
            ("track-last-access", "when each blob was read last is kept, to a day [default: false]"),
            ("archive-rehydration-seconds", "how long a blob takes to leave the archive [default: 60]"),
            ("container-retention-days", "for how long a deleted container can be restored [default: not at all]"),
            ("share-retention-days", "for how long a deleted share can be restored [default: not at all]"),
        ],
    ),
    (
        "[tokens]",
        &[
            ("issuers", "whose bearer tokens are trusted (docs/tokens.md)"),
            ("audiences", "for whom they must be made"),
            ("keys", "a file with the issuers' JSON Web Key Set"),
            ("authority", "where clients are told to get a token"),
            ("assign", "who has which role: `[[tokens.assign]]`"),
        ],
    ),
    (
        "[[tokens.assign]]",
        &[
            ("principal", "who"),
            ("role", "has this role"),
            ("account", "in this account [default: in all]"),
            ("within", "in this container, queue, table or share [default: in all]"),
        ],
    ),
    (
        "[[events]]",
        &[
            ("name", "of a subscription to what becomes of blobs (docs/events.md)"),
            ("account", "whose blobs [default: of all accounts]"),
            ("to", "who is told: `https://…`, or `queue:NAME` of the same account"),
            ("types", "of what [default: of everything]"),
            ("subject-begins-with", "only of subjects that begin so"),
            ("subject-ends-with", "only of subjects that end so"),
            ("dead-letter", "the container for what could not be delivered [default: none]"),
        ],
    ),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Terminal,
    Markdown,
}

const HEAD: &str = "\
A setting is a flag of `lazuli serve`, a variable, and a key of the file that `--config` names. The flag wins over the variable, the variable
over the file, the file over the default.";

/// Every setting there is.
pub fn settings_page(page: Page) -> String {
    let settings = settings();
    let mut text = String::new();
    match page {
        Page::Terminal => {
            text.push_str(&HEAD.replace('`', ""));
            text.push_str("\n\n");
            for setting in &settings {
                let Setting { name, variable, help, .. } = setting;
                let value = setting.value.as_ref().map_or(String::new(), |value| format!(" {value}"));
                let default = setting.default.as_deref().unwrap_or("none");
                text.push_str(&format!("--{name}{value}, {variable}\n    {help} [default: {default}]\n"));
            }
        }
        Page::Markdown => {
            text.push_str(&format!("# Settings\n{HEAD} `lazuli config` says what holds and where it comes from.\n\n"));
            text.push_str("This page is what `lazuli settings --markdown` prints.\n\n");
            text.push_str("| flag | variable | default | what it is |\n| --- | --- | --- | --- |\n");
            for Setting { name, value, variable, default, help, .. } in &settings {
                let value = value.as_ref().map_or(String::new(), |value| format!(" {value}"));
                let (default, help) = (default.as_deref().unwrap_or("none"), help.replace('|', "\\|"));
                text.push_str(&format!("| `--{name}{value}` | `{variable}` | {default} | {help} |\n"));
            }
            text.push_str("\nThe key in the file is the flag's name, as `blob-port = 10000`.");
        }
    }
    text.push_str(match page {
        Page::Terminal => "\nOnly in the file:\n",
        Page::Markdown => " Only in the file are:\n\n| table | key | what it is |\n| --- | --- | --- |\n",
    });
    for (table, keys) in ONLY_IN_THE_FILE {
        for (key, help) in keys {
            match page {
                Page::Terminal => text.push_str(&format!("{table} {key}\n    {help}\n")),
                Page::Markdown => text.push_str(&format!("| `{table}` | `{key}` | {help} |\n")),
            }
        }
    }
    text
}
