//! Parses series from the Prometheus text format, by the name of their metric.

use std::borrow::Cow;

/// A series: one line of the text.
#[derive(Debug, PartialEq)]
pub(super) struct Series<'t> {
    labels: Vec<(&'t str, Cow<'t, str>)>,
    pub(super) value: f64,
}

/// The series of the metric `name` in `text`. Skips lines that cannot be parsed.
pub(super) fn series<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = Series<'t>> {
    text.lines().filter_map(move |line| read(line.strip_prefix(name)?))
}

impl Series<'_> {
    /// The value of a label. An absent label is the same as an empty one, as in Prometheus.
    pub(super) fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|(label, _)| *label == name).map_or("", |(_, value)| value)
    }
}

/// Label names and values.
type Labels<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// Parses the part after the name.
fn read(rest: &str) -> Option<Series<'_>> {
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(labels) => read_labels(labels)?,
        // The name may be a prefix of another metric's name.
        None if rest.starts_with(' ') => (Vec::new(), rest),
        None => return None,
    };
    // A timestamp may follow the value.
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Series { labels, value })
}

/// Parses the labels. Returns them with the text after the closing brace.
fn read_labels(text: &str) -> Option<(Labels<'_>, &str)> {
    let (mut labels, mut rest) = (Vec::new(), text);
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, value) = rest.split_once("=\"")?;
        let end = end_of_value(value)?;
        labels.push((name, unescaped(&value[..end])));
        rest = &value[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

/// The position of the closing quote of a value.
fn end_of_value(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

fn unescaped(value: &str) -> Cow<'_, str> {
    if !value.contains('\\') {
        return Cow::Borrowed(value);
    }
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        text.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP a What.\n# TYPE a counter\na{x=\"1\",y=\"}\\\"\\\\\\n,\"} 2\na{x=\"2\",} 3.5 1700000000\n\
                        ab{x=\"1\"} 7\nb +Inf\na{x=\"3\" 4\na\n";

    #[test]
    fn series_are_found_by_the_whole_name_with_their_labels() {
        let found: Vec<_> = series(TEXT, "a").map(|it| (it.label("x").to_owned(), it.value)).collect();
        assert_eq!(found, [("1".to_owned(), 2.0), ("2".to_owned(), 3.5)]);
        let first = series(TEXT, "a").next().unwrap();
        assert_eq!((first.label("y"), first.label("z")), ("}\"\\\n,", ""));
        assert_eq!(series(TEXT, "b").next().unwrap().value, f64::INFINITY);
        assert_eq!(series(TEXT, "c").count(), 0);
    }
}
