//! Parses the Prometheus text format as this process writes it: types and samples.

/// A parsed line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line<'a> {
    /// `# TYPE NAME KIND`.
    Type { name: &'a str, kind: MetricKind },
    /// `NAME{LABELS} VALUE`.
    Sample(Sample<'a>),
}

/// The metric types that are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// One sample.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample<'a> {
    pub(crate) name: &'a str,
    pub(crate) labels: Vec<(&'a str, String)>,
    pub(crate) value: f64,
}

/// Parses a line; `None` for comments and anything else.
pub(crate) fn parse_line(line: &str) -> Option<Line<'_>> {
    if let Some(comment) = line.strip_prefix('#') {
        let (name, kind) = comment.trim_start().strip_prefix("TYPE ")?.split_once(' ')?;
        let kind = match kind.trim() {
            "counter" => MetricKind::Counter,
            "gauge" => MetricKind::Gauge,
            "histogram" => MetricKind::Histogram,
            _ => return None,
        };
        return Some(Line::Type { name, kind });
    }
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = match value.trim() {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        value => value.parse().ok()?,
    };
    Some(Line::Sample(Sample { name, labels, value }))
}

/// Parses labels up to the closing `}`; returns them and the rest.
fn parse_labels(mut rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, after) = parse_quoted(quoted)?;
        labels.push((name, value));
        rest = after;
    }
}

/// Parses a quoted text; returns it and the rest.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let end = text.find(['"', '\\'])?;
    // Nearly every value has no escapes.
    if text.as_bytes()[end] == b'"' {
        return Some((text[..end].to_owned(), &text[end + 1..]));
    }
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample<'a>(name: &'a str, labels: &[(&'a str, &str)], value: f64) -> Option<Line<'a>> {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Some(Line::Sample(Sample { name, labels, value }))
    }

    #[test]
    fn types_and_samples_are_read() {
        assert_eq!(parse_line("# TYPE a counter"), Some(Line::Type { name: "a", kind: MetricKind::Counter }));
        assert_eq!(parse_line("a 1"), sample("a", &[], 1.0));
        assert_eq!(parse_line("a{} 1.5e3"), sample("a", &[], 1500.0));
        assert_eq!(parse_line("a{b=\"c\",d=\"\"} 7"), sample("a", &[("b", "c"), ("d", "")], 7.0));
        assert_eq!(parse_line(r#"a{le="+Inf"} +Inf"#), sample("a", &[("le", "+Inf")], f64::INFINITY));
        assert_eq!(parse_line(r#"a{b="\"\\\n}é,x=\"y"} 0"#), sample("a", &[("b", "\"\\\n}é,x=\"y")], 0.0));
    }

    #[test]
    fn other_lines_are_skipped() {
        for line in [
            "",
            "# HELP a text",
            "# TYPE a summary",
            "# TYPE a",
            "#",
            "a",
            "a{b=\"c\" 1",
            "a{b} 1",
            "a{b=\"c} 1",
            "a{b=\"\\",
            "a{b=\"c\"} x",
            "a x",
        ] {
            assert_eq!(parse_line(line), None, "{line}");
        }
    }
}
