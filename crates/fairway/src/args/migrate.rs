//! The flags of `migrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Turns the installation of another controller into one of Fairway.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// What to turn
    #[command(subcommand)]
    pub(crate) what: MigrateWhat,
}

/// What is turned.
#[derive(Debug, Subcommand)]
pub(crate) enum MigrateWhat {
    /// Turn values of the Helm chart of ingress-nginx into values of Fairway's chart
    Values(ValuesArgs),
}

/// Turns values of the Helm chart of ingress-nginx into values of Fairway's chart.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fairway migrate values ingress-nginx.yaml --output fairway.yaml
  helm get values ingress-nginx -n ingress-nginx -o yaml | fairway migrate values - >fairway.yaml

Standard error names what needs attention:
  lost: PATHS: WHAT   Fairway does not do this as ingress-nginx did, or needs a value by hand
  note: PATHS: WHAT   what to know about a value that was taken over, or why it is not needed

Values that the input does not set take the defaults of Fairway's chart. So do empty values
(\"\", {}, [], null): they ask for nothing. The keys of controller.config are judged as
`fairway check` judges those of the settings ConfigMap.

Exit codes:
  0  nothing is lost
  1  something is lost; the values are written all the same
  2  the input cannot be read as values, or the output cannot be written")]
pub(crate) struct ValuesArgs {
    /// The values, YAML or JSON; - is the standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Write the values here instead of to standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
