//! Messages on the standard error; the access log has the standard output for itself.

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::LogFormat;

/// What the Kubernetes client says below errors, the cluster source says better: every broken watch is one warning there.
const QUIET: &str = "kube_client=error";

/// Starts them.
///
/// # Errors
/// `level` is no level or filter.
pub(crate) fn start(format: LogFormat, level: &str) -> Result<()> {
    let filter = EnvFilter::builder().parse(level).with_context(|| format!("--log-level {level}"))?;
    let filter = if level.contains("kube_client") { filter } else { filter.add_directive(QUIET.parse()?) };
    let messages =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match format {
        LogFormat::Text => messages.with_ansi(false).finish().try_init(),
        LogFormat::Json => messages.json().flatten_event(true).finish().try_init(),
    }
    .context("messages are started once")
}
