//! The control side's metrics in the Prometheus text format. The data plane's metrics come from elsewhere.

use std::time::UNIX_EPOCH;

use fairway_objects::diagnostic::Severity;
use fairway_objects::resources::Resources;

use crate::exposition::{head, line, single};
use crate::pipeline::{Freshness, View};

/// The control side's metrics.
#[must_use]
pub fn text(view: &View) -> String {
    let mut out = String::new();
    let outcome = &view.outcome;
    let durations = outcome.durations;
    let published = view.published.duration_since(UNIX_EPOCH).unwrap_or_default();
    let config = &outcome.translation.config;
    for (name, help, value) in [
        ("config_version", "The version of the published configuration.", outcome.snapshot.version() as f64),
        ("config_published_timestamp_seconds", "When it was published.", published.as_secs_f64()),
        ("config_delay_seconds", "From the source's event to its publication.", view.delay.as_secs_f64()),
        ("config_translate_seconds", "The time its translation took.", durations.translate.as_secs_f64()),
        ("config_compile_seconds", "The time its compilation took.", durations.compile.as_secs_f64()),
        (
            "config_stale",
            "1 while it is the last good configuration of an earlier process.",
            f64::from(u8::from(view.freshness == Freshness::Stale)),
        ),
        ("config_kept_snapshots", "Snapshots in memory, the published one included.", view.retained as f64),
        ("config_listeners", "Its listeners.", config.listeners.len() as f64),
        ("config_hosts", "Its virtual hosts.", config.hosts.len() as f64),
        ("config_backends", "Its backends.", config.backends.len() as f64),
        ("config_certificates", "Its certificates.", config.certificates.len() as f64),
    ] {
        single(&mut out, &format!("fairway_{name}"), "gauge", help, "", value);
    }
    let help = "1; the label names the published configuration by its content.";
    let digest = format!("digest=\"{}\"", outcome.digest);
    single(&mut out, "fairway_config_info", "gauge", help, &digest, 1);
    objects(&mut out, &outcome.resources);
    diagnostics(&mut out, view);
    out
}

fn objects(out: &mut String, resources: &Resources) {
    let name = "fairway_objects";
    head(out, name, "gauge", "Objects that are read, by kind.");
    for (kind, count) in resources.counts() {
        line(out, name, &format!("kind=\"{}\"", kind.name()), count);
    }
}

fn diagnostics(out: &mut String, view: &View) {
    let name = "fairway_diagnostics";
    head(out, name, "gauge", "Current problems with the configuration's sources.");
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        let count = view.diagnostics().filter(|it| it.severity == severity).count();
        line(out, name, &format!("severity=\"{severity}\""), count);
    }
}
