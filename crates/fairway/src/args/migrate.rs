//! The flags of `migrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Turns the installation of another controller into one of Fairway.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// What of it
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
  helm get values ingress-nginx --namespace ingress-nginx -o yaml | fairway migrate values - >fairway.yaml

Standard error has a line per value: lost (with what to do by hand), or note (it means nothing with Fairway).
Values that the input does not set are those of Fairway's chart.

Exit codes: 0 every value has a meaning, 1 something is lost, 2 the file cannot be read.")]
pub(crate) struct ValuesArgs {
    /// The values, YAML or JSON; - is the standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Write here instead of to standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
