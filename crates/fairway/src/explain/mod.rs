//! `fairway explain`: the chain from listener to endpoint for one request, with what lost and what decided.
//!
//! [`asked`] reads the request, [`fetched`] what a running process serves, [`told`] writes the chain.

mod asked;
mod fetched;
mod told;
mod words;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use fairway_model::Origin;
use fairway_routing::Snapshot;

use crate::args::ExplainArgs;
use crate::check;
use crate::offline::{self, Offline};
use asked::Asked;

/// What requests are explained by.
struct Served {
    snapshot: Arc<Snapshot>,
    /// Each with the object it is about.
    diagnostics: Vec<(Origin, String)>,
}

impl Served {
    fn of(found: Offline) -> Self {
        let told = found.diagnostics.iter().map(|it| (it.origin.clone(), check::line(it)));
        Self { diagnostics: told.collect(), snapshot: found.outcome.snapshot }
    }
}

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
    told::chain(&mut text, &asked, &served);
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
