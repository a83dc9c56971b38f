//! `fairway completions` and `fairway man`: files that are generated from the definitions of the flags.

use std::fs;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};

use crate::args::{Cli, CompletionsArgs, ManArgs};

/// Prints the completion script of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode> {
    // Generate into memory: the generator panics if its writer fails, for example because the reader closed the pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "fairway", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes `fairway.1`, `fairway-run.1` and so on.
pub(crate) fn man(args: &ManArgs) -> Result<ExitCode> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    for (name, command) in pages("fairway", &root) {
        let path = args.directory.join(format!("{name}.1"));
        let mut page = Vec::new();
        let version = format!("fairway {}", env!("CARGO_PKG_VERSION"));
        clap_mangen::Man::new(command.display_name(name))
            .source(version)
            .manual("Fairway")
            .render(&mut page)?;
        fs::write(&path, page).with_context(|| format!("{}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A command and all its subcommands, each with its full name, such as `fairway-migrate-values`.
fn pages(name: &str, command: &Command) -> Vec<(String, Command)> {
    let mut found = vec![(name.to_owned(), command.clone())];
    for below in command.get_subcommands() {
        found.extend(pages(&format!("{name}-{}", below.get_name()), below));
    }
    found
}
