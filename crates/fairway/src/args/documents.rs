//! The flags of `completions` and `man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Prints what makes a shell complete Fairway's commands and flags.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(fairway completions bash)
  fairway completions zsh >~/.zfunc/_fairway
  fairway completions fish >~/.config/fish/completions/fairway.fish

The archives of a release have the files, and its install script puts them where the shells look.")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Writes a man page for each command into a directory.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  fairway man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The directory, which must exist
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}
