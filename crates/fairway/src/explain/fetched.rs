//! What a running process serves, from its admin server.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use fairway_model::{Config, Origin};
use fairway_routing::compile;
use serde::Deserialize;

use super::served::Served;
use crate::ask;

/// The page `/config`.
#[derive(Deserialize)]
struct Page {
    config: Config,
    diagnostics: Vec<Diagnostic>,
}

/// A diagnostic of that page.
#[derive(Deserialize)]
struct Diagnostic {
    severity: String,
    origin: Origin,
    code: String,
    problem: String,
    consequence: String,
}

/// Asks the process with the admin address `admin`; compiles what it serves here.
pub(super) fn fetch(admin: SocketAddr) -> Result<Served> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let body = runtime.block_on(ask::page(admin, "/config"))?;
    read(&body).with_context(|| format!("--admin {admin}: /config"))
}

/// What a process serves whose page `/config` is `body`; compiles it here.
pub(super) fn read(body: &[u8]) -> Result<Served> {
    let page: Page = serde_json::from_slice(body)?;
    let compiled = compile(&page.config, None);
    let diagnostics = page.diagnostics.into_iter().map(|it| (it.origin.clone(), it.line())).collect();
    Ok(Served { snapshot: compiled.snapshot, diagnostics })
}

impl Diagnostic {
    fn line(&self) -> String {
        let Self { severity, origin, code, problem, consequence } = self;
        format!("{severity}[{code}]: {origin}: {problem}; {consequence}")
    }
}
