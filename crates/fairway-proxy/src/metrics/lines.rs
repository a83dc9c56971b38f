//! Lines of the Prometheus text format. Knows no metrics.

use std::fmt::{Display, Write};

/// Writes the type line of a metric.
pub(crate) fn write_type(out: &mut String, name: &str, kind: &str) {
    writeln!(out, "# TYPE {name} {kind}").expect("a string takes every write");
}

/// Writes one series; `labels` is the text between the braces.
pub(crate) fn write_line(out: &mut String, name: &str, labels: &str, value: impl Display) {
    let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
    writeln!(out, "{name}{open}{labels}{close} {value}").expect("a string takes every write");
}

/// Writes type and value of a metric with one series.
pub(crate) fn write_metric(out: &mut String, name: &str, kind: &str, labels: &str, value: impl Display) {
    write_type(out, name, kind);
    write_line(out, name, labels, value);
}

/// Joins two label texts; either may be empty.
pub(crate) fn join_labels(labels: &str, labels_to_add: &str) -> String {
    let comma = if labels.is_empty() || labels_to_add.is_empty() { "" } else { "," };
    format!("{labels}{comma}{labels_to_add}")
}

/// Escapes a label value.
pub(crate) fn escape_label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
