//! `fairway explain`: the chain from listener to endpoint for one request, with what lost and what decided.
//!
//! [`asked`] reads the request, [`fetched`] what a running process serves, [`arrival`] finds the listeners that may take it,
//! [`mod@chain`] writes the chain.

mod arrival;
mod asked;
mod chain;
mod clients;
mod fetched;
mod served;
mod words;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;

use crate::args::ExplainArgs;
use crate::offline::Input;
use crate::terminal::Plain;
use asked::Asked;
use chain::chain;
use served::Served;

/// Explains one request.
pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode> {
    let asked = Asked::read(&args.url, &args.method, &args.headers)?;
    if !args.kubernetes {
        args.cluster.refuse_without_cluster(if args.admin.is_some() { "--admin" } else { "--manifests" })?;
    }
    let served = match args.admin {
        Some(admin) => fetched::fetch(admin)?,
        None => {
            let ExplainArgs { manifests, cluster, translation, .. } = args;
            Served::of(
                Input { manifests: manifests.as_deref(), cluster, translation, addresses: None }.offline()?,
            )
        }
    };
    let mut text = String::new();
    chain(&mut text, &asked, &served);
    Plain(io::stdout()).write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
