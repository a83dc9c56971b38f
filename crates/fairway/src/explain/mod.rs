//! `fairway explain`: the chain from listener to endpoint for one request, with what lost and what decided.
//!
//! [`asked`] reads the request, [`fetched`] what a running process serves, [`arrival`] finds the listeners that may take it,
//! [`mod@chain`] writes the chain. [`recorded`] shows a request that was served, and [`pages`] gives
//! the dashboard its words.

mod arrival;
mod asked;
mod chain;
mod clients;
mod fetched;
mod pages;
pub(crate) mod recorded;
mod served;
mod words;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::args::ExplainArgs;
use crate::offline::Input;
use crate::terminal::Plain;
use asked::Asked;
use chain::chain;
use served::Served;

pub(crate) use pages::ExplainWords;

/// Explains one request.
pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode> {
    if let (Some(id), Some(admin)) = (&args.request_id, args.admin) {
        let mut text = String::new();
        recorded::recorded(&mut text, admin, id)?;
        Plain(io::stdout()).write_all(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let url = args.url.as_deref().context("there is no URL")?;
    let asked = Asked::read(url, &args.method, &args.headers)?;
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

/// The explanation of one request by `page`, the page `/config` of the process `source`.
///
/// # Errors
/// No client could send such a request, or the page cannot be read.
pub(crate) fn by_config(
    url: &str,
    method: &str,
    headers: &[String],
    source: &str,
    page: &[u8],
) -> Result<String> {
    let asked = Asked::read(url, method, headers)?;
    let served = fetched::read(page).with_context(|| format!("{source}: /config"))?;
    let mut text = String::new();
    chain(&mut text, &asked, &served);
    Ok(text)
}
