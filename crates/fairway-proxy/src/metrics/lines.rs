//! Lines of the Prometheus text format. Knows no metric.

use std::fmt::{Display, Write};

/// Says of which type a metric is.
pub(crate) fn head(out: &mut String, name: &str, kind: &str) {
    writeln!(out, "# TYPE {name} {kind}").expect("a string takes every write");
}

/// The value of one series; `labels` are those between the braces, as text.
pub(crate) fn line(out: &mut String, name: &str, labels: &str, value: impl Display) {
    let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
    writeln!(out, "{name}{open}{labels}{close} {value}").expect("a string takes every write");
}

/// The two, of a metric with one series.
pub(crate) fn single(out: &mut String, name: &str, kind: &str, labels: &str, value: impl Display) {
    head(out, name, kind);
    line(out, name, labels, value);
}

/// Labels as text, one after the other; either may be empty.
pub(crate) fn joined(labels: &str, more: &str) -> String {
    let comma = if labels.is_empty() || more.is_empty() { "" } else { "," };
    format!("{labels}{comma}{more}")
}

/// The value of a label.
pub(crate) fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
