//! The flags of `completions` and `man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Prints a shell completion script for Fairway's commands and flags.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(fairway completions bash)
  fairway completions zsh >~/.zfunc/_fairway
  fairway completions fish >~/.config/fish/completions/fairway.fish

Release archives contain these files, and the install script puts them where the shells look for them.")]
pub(crate) struct CompletionsArgs {
    /// Shell to print the script for
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Writes a man page for each command into a directory.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  fairway man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Existing directory to write to
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}
