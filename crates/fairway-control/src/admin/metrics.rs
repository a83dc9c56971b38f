//! What the control side counts, in the Prometheus text format. The data plane's metrics come from elsewhere.

use std::fmt::Write;
use std::time::UNIX_EPOCH;

use fairway_translate::Severity;

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
            "1 while it is the last good one of an earlier process.",
            f64::from(u8::from(view.freshness == Freshness::Stale)),
        ),
        ("config_kept_snapshots", "Snapshots in memory, the published one included.", view.kept as f64),
        ("config_hosts", "Its virtual hosts.", config.hosts.len() as f64),
        ("config_backends", "Its backends.", config.backends.len() as f64),
        ("config_certificates", "Its certificates.", config.certificates.len() as f64),
    ] {
        gauge(&mut out, &format!("fairway_{name}"), help);
        line(&mut out, &format!("fairway_{name}"), value);
    }
    gauge(&mut out, "fairway_config_info", "1; the label names the published configuration by its content.");
    line(&mut out, &format!("fairway_config_info{{digest=\"{}\"}}", outcome.digest), 1.0);
    diagnostics(&mut out, view);
    expirations(&mut out, view);
    out
}

fn diagnostics(out: &mut String, view: &View) {
    gauge(out, "fairway_diagnostics", "What is wrong with the configuration's sources now.");
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        let count = view.diagnostics().filter(|it| it.severity == severity).count();
        line(out, &format!("fairway_diagnostics{{severity=\"{severity}\"}}"), count as f64);
    }
}

/// The metric of ingress-nginx, so that its alerts go on working.
fn expirations(out: &mut String, view: &View) {
    let name = "nginx_ingress_controller_ssl_expire_time_seconds";
    gauge(out, name, "The end of validity of a certificate in seconds since 1970.");
    let config = &view.outcome.translation.config;
    for host in config.hosts.values() {
        let certificate = host.certificate.as_ref().and_then(|key| config.certificates.get(key));
        let Some(certificate) = certificate else { continue };
        let labels = format!(
            "host=\"{}\",namespace=\"{}\",secret_name=\"{}\"",
            escaped(&host.key.host.to_string()),
            escaped(&certificate.origin.namespace),
            escaped(&certificate.origin.name),
        );
        line(out, &format!("{name}{{{labels}}}"), certificate.not_after as f64);
    }
}

fn gauge(out: &mut String, name: &str, help: &str) {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge").expect("writing to a String cannot fail");
}

fn line(out: &mut String, series: &str, value: f64) {
    writeln!(out, "{series} {value}").expect("writing to a String cannot fail");
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
