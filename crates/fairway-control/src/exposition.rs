//! Lines of the Prometheus text format. Knows no metric.

use std::fmt::{Display, Write};

/// Says what a metric is.
pub fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("writing to a String cannot fail");
}

/// The value of one series; `labels` are those between the braces, as text.
pub fn line(out: &mut String, name: &str, labels: &str, value: impl Display) {
    let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
    writeln!(out, "{name}{open}{labels}{close} {value}").expect("writing to a String cannot fail");
}

/// The two, of a metric with one series.
pub fn single(out: &mut String, name: &str, kind: &str, help: &str, labels: &str, value: impl Display) {
    head(out, name, kind, help);
    line(out, name, labels, value);
}

/// The value of a label.
pub fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
