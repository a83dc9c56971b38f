//! Formats lines of the Prometheus text format.

use std::fmt::{Display, Write};

/// The `HELP` and `TYPE` lines of a metric.
pub fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("writing to a String cannot fail");
}

/// A sample line; `labels` is the text between the braces.
pub fn line(out: &mut String, name: &str, labels: &str, value: impl Display) {
    let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
    writeln!(out, "{name}{open}{labels}{close} {value}").expect("writing to a String cannot fail");
}

/// Both, for a metric with a single series.
pub fn single(out: &mut String, name: &str, kind: &str, help: &str, labels: &str, value: impl Display) {
    head(out, name, kind, help);
    line(out, name, labels, value);
}

/// Escapes a label value.
pub fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
