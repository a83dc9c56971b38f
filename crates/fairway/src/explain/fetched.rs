//! Fetches the running configuration of a process from its admin server.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use fairway_model::{Config, Origin};
use fairway_routing::compile;
use serde::Deserialize;

use super::served::ServedConfig;
use crate::admin_client;

/// The page `/config`.
#[derive(Deserialize)]
struct ConfigPage {
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

/// Fetches and compiles the configuration of the process with the admin address `admin`.
pub(super) fn fetch(admin: SocketAddr) -> Result<ServedConfig> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let body = runtime.block_on(admin_client::page(admin, "/config"))?;
    read(&body).with_context(|| format!("--admin {admin}: /config"))
}

/// Compiles the configuration in `body`, the page `/config` of a process.
pub(super) fn read(body: &[u8]) -> Result<ServedConfig> {
    let page: ConfigPage = serde_json::from_slice(body)?;
    let compiled = compile(&page.config, None);
    let diagnostics = page.diagnostics.into_iter().map(|it| (it.origin.clone(), it.line())).collect();
    Ok(ServedConfig { snapshot: compiled.snapshot, diagnostics })
}

impl Diagnostic {
    fn line(&self) -> String {
        let Self { severity, origin, code, problem, consequence } = self;
        format!("{severity}[{code}]: {origin}: {problem}; {consequence}")
    }
}
