//! Variables of the environment: those that mean nothing, and which one a wrong value came from.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use super::commands::CommandLine;
use super::nearest::did_you_mean;

const PREFIX: &str = "LAZULI_";

/// What others put there: Kubernetes for a service of the name `lazuli`, and the project's own tests.
const OF_OTHERS: [&str; 3] = ["LAZULI_SERVICE_", "LAZULI_PORT", "LAZULI_TEST_"];

/// A warning for each variable that looks like one of ours and is not.
pub fn unknown_variables(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<String> {
    let mut known = Vec::new();
    note_variables(&CommandLine::command(), &mut known);
    let names = variables.map(|(name, _)| name.to_string_lossy().into_owned());
    let ours = names.filter(|name| name.starts_with(PREFIX) && !OF_OTHERS.iter().any(|start| name.starts_with(start)));
    let unknown = ours.filter(|name| !known.contains(name));
    unknown
        .map(|name| {
            let meant = did_you_mean(&name, known.iter().map(String::as_str));
            format!("the variable {name} is no setting and is not looked at{meant}")
        })
        .collect()
}

fn note_variables(command: &Command, known: &mut Vec<String>) {
    let variables = command.get_arguments().filter_map(|arg| arg.get_env());
    known.extend(variables.map(|name| name.to_string_lossy().into_owned()));
    for inner in command.get_subcommands() {
        note_variables(inner, known);
    }
}

/// Says what is wrong with the command line, or with the variable that a wrong value came from.
pub fn refuse(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    let _ = error.print(); // whoever asked may be gone
    if let Some(name) = variable_of(error, arguments) {
        eprintln!("The value is that of the variable {name}.");
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
}

/// A wrong value that is not on the command line came from a variable: its name.
fn variable_of(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return None;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = flag.split([' ', '=']).next().unwrap_or_default();
    if arguments.iter().any(|argument| argument.to_string_lossy().split('=').next() == Some(flag)) {
        return None;
    }
    let name = format!("{PREFIX}{}", flag.trim_start_matches('-').replace('-', "_").to_uppercase());
    let mut known = Vec::new();
    note_variables(&CommandLine::command(), &mut known);
    known.contains(&name).then_some(name)
}
