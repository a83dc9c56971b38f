//! The binary: parses arguments, wires the crates together and maps results to exit codes. Contains no logic of its own.
//!
//! Exit codes: 0 success, 1 problems found (or the data plane failed), 2 unusable input.

mod admin_client;
mod allocator;
mod args;
mod blast_radius;
mod check;
mod compare;
mod documents;
mod echo;
mod explain;
mod kubectl;
mod logging;
mod migrate;
mod nginx_flags;
mod offline;
mod own_addresses;
mod run;
mod standard_input;
mod terminal;
mod version;
mod wait;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, KubectlArgs, KubectlCli};
use terminal::PlainText;

fn main() -> ExitCode {
    let (cli, lost) = command_line();
    let outcome = match cli.command {
        Command::Run(run) => run::run(&run, &lost),
        Command::Check(check) if !check.against.against.is_empty() => blast_radius::check(&check),
        Command::Check(check) => check::check(&check),
        Command::Explain(explain) => explain::explain(&explain),
        Command::Migrate(migrate) => migrate::migrate(&migrate.what),
        Command::Compare(compare) => compare::compare(&compare),
        Command::Wait(wait) => wait::wait(&wait),
        Command::Kubectl(kubectl) => kubectl::kubectl(&kubectl.command),
        Command::Echo(echo) => echo::echo(echo),
        Command::Completions(completions) => documents::completions(&completions),
        Command::Man(man) => documents::man(&man),
        Command::Version => version::print(),
    };
    outcome.unwrap_or_else(|error| {
        // A reader that closed the pipe, such as head, is no error. A failure to write the message cannot be reported.
        if !is_closed_output(&error) {
            _ = writeln!(PlainText(std::io::stderr()), "fairway: {error:#}");
        }
        ExitCode::from(2)
    })
}

/// Whether the error is that the reader of standard output closed it.
fn is_closed_output(error: &anyhow::Error) -> bool {
    let kind = match error.downcast_ref::<std::io::Error>() {
        Some(error) => Some(error.kind()),
        None => error.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind),
    };
    kind == Some(ErrorKind::BrokenPipe)
}

/// Parses the command line. Also returns warnings about flags of other controllers that have no effect.
fn command_line() -> (Cli, Vec<String>) {
    if std::env::args_os().next().is_some_and(|program| kubectl::is_plugin(&program)) {
        let KubectlCli { command } = KubectlCli::parse();
        return (Cli { command: Command::Kubectl(KubectlArgs { command }) }, Vec::new());
    }
    let arguments: Result<Vec<String>, _> =
        std::env::args_os().map(std::ffi::OsString::into_string).collect();
    let namespace = std::env::var("POD_NAMESPACE").ok();
    let translated = arguments.ok().and_then(|given| nginx_flags::translate(&given, namespace.as_deref()));
    match translated {
        Some(it) => (Cli::parse_from(it.arguments), it.lost),
        None => (Cli::parse(), Vec::new()),
    }
}
