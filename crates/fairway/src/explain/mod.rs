//! `fairway explain`: the chain from listener to endpoint for one request, with what lost and what decided.
//!
//! [`asked`] reads the request, [`fetched`] what a running process serves, [`mod@chain`] writes the chain.

mod asked;
mod chain;
mod fetched;
mod served;
mod words;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;

use crate::args::ExplainArgs;
use crate::offline;
use asked::Asked;
use chain::chain;
use served::Served;

/// Explains one request.
pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode> {
    let asked = Asked::read(&args.url, &args.method, &args.headers)?;
    if !args.kubernetes {
        args.cluster.refuse_without_cluster(if args.admin.is_some() { "--admin" } else { "--manifests" })?;
    }
    let served = match (&args.manifests, args.admin) {
        (Some(manifests), _) => Served::of(offline::read(manifests, args.translation.options()?)?),
        (None, Some(admin)) => fetched::fetch(admin)?,
        (None, None) => Served::of(offline::read_cluster(&args.cluster, args.translation.options()?)?),
    };
    let mut text = String::new();
    chain(&mut text, &asked, &served);
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
