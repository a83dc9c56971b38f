//! `fairway explain`: prints the chain from listener to endpoint for one request, and why other rules do not serve it.
//!
//! [`request`] parses the request, [`fetched`] reads the configuration of a running process, [`receiving_listeners`] finds the listeners that may
//! receive the request, and [`mod@chain`] prints the chain. [`recorded`] explains a recorded request, and [`pages`] provides the
//! texts of the dashboard.

mod chain;
mod clients;
mod descriptions;
mod fetched;
mod pages;
mod receiving_listeners;
pub(crate) mod recorded;
mod request;
mod served;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::args::ExplainArgs;
use crate::offline::Input;
use crate::terminal::PlainText;
use chain::chain;
use request::RequestToExplain;
use served::ServedConfig;

pub(crate) use pages::ExplainWords;

/// Explains one request.
pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode> {
    if let (Some(id), Some(admin)) = (&args.request_id, args.admin) {
        let mut text = String::new();
        recorded::explain_recorded(&mut text, admin, id)?;
        PlainText(io::stdout()).write_all(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let url = args.url.as_deref().context("no URL was given")?;
    let request = RequestToExplain::read(url, &args.method, &args.headers)?;
    if !args.kubernetes {
        args.cluster.refuse_without_cluster(if args.admin.is_some() { "--admin" } else { "--manifests" })?;
    }
    let served = match args.admin {
        Some(admin) => fetched::fetch(admin)?,
        None => {
            let ExplainArgs { manifests, cluster, translation, .. } = args;
            ServedConfig::from_offline(
                Input { manifests: manifests.as_deref(), cluster, translation, addresses: None }
                    .read_and_translate()?,
            )
        }
    };
    let mut text = String::new();
    chain(&mut text, &request, &served);
    PlainText(io::stdout()).write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Explains one request with `page`, the page `/config` of the process `source`.
///
/// # Errors
/// The request is invalid, or the page cannot be read.
pub(crate) fn by_config(
    url: &str,
    method: &str,
    headers: &[String],
    source: &str,
    page: &[u8],
) -> Result<String> {
    let request = RequestToExplain::read(url, method, headers)?;
    let served = fetched::read(page).with_context(|| format!("{source}: /config"))?;
    let mut text = String::new();
    chain(&mut text, &request, &served);
    Ok(text)
}
