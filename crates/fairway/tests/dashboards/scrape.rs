//! A scrape as Prometheus stores it: typed series, with the labels that the target adds. Parses the text format strictly.

use std::collections::{BTreeMap, BTreeSet};

/// Labels by name.
pub(crate) type Labels = BTreeMap<String, String>;

/// The labels that Prometheus adds to every series of a pod found by a ServiceMonitor.
pub(crate) const TARGET: [(&str, &str); 7] = [
    ("namespace", "fairway"),
    ("pod", "fairway-0"),
    ("service", "fairway-metrics"),
    ("instance", "192.0.2.1:10255"),
    ("job", "fairway-metrics"),
    ("endpoint", "metrics"),
    ("container", "fairway"),
];

/// What happens to labels that both the series and its target have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HonorLabels {
    /// The labels of the series win.
    Yes,
    /// The labels of the target win; those of the series are renamed to `exported_...`.
    No,
}

/// One series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) labels: Labels,
}

/// All series of a scrape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrape {
    /// The types of the metrics.
    pub(crate) types: BTreeMap<String, String>,
    pub(crate) series: Vec<Series>,
}

impl Scrape {
    /// Parses the text format.
    ///
    /// # Panics
    ///
    /// A line is invalid, a series has no type, or a series is repeated.
    pub(crate) fn parse(text: &str) -> Self {
        let (mut scrape, mut received) = (Self::default(), BTreeSet::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a type has a name and a kind");
                let before = scrape.types.insert(name.to_owned(), kind.to_owned());
                assert_eq!(before, None, "{name} has two types");
            } else if !line.starts_with('#') {
                let series = series(line).unwrap_or_else(|| panic!("cannot be read: {line}"));
                assert!(received.insert(series.clone()), "twice: {line}");
                assert!(scrape.kind(&series.name).is_some(), "without a type: {line}");
                scrape.series.push(series);
            }
        }
        scrape
    }

    /// The metric of a series, with its type: series of histograms have other names.
    pub(crate) fn kind(&self, series: &str) -> Option<(&str, &str)> {
        let part_of = |suffix: &str| self.types.get_key_value(series.strip_suffix(suffix)?);
        let histogram = || ["_bucket", "_sum", "_count"].into_iter().find_map(part_of);
        let histogram = || histogram().filter(|(_, kind)| *kind == "histogram");
        let found = self.types.get_key_value(series).or_else(histogram);
        found.map(|(name, kind)| (name.as_str(), kind.as_str()))
    }

    /// The series as Prometheus stores them.
    pub(crate) fn after_relabeling(&self, honor: HonorLabels) -> Self {
        let series = self.series.iter().map(|series| series.after_relabeling(honor)).collect();
        Self { types: self.types.clone(), series }
    }

    /// The series of this name.
    pub(crate) fn named<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Series> {
        self.series.iter().filter(move |series| series.name == name)
    }
}

impl Series {
    fn after_relabeling(&self, honor: HonorLabels) -> Self {
        // An empty label counts as absent.
        let mut labels = self.labels.clone();
        labels.retain(|_, value| !value.is_empty());
        for (name, value) in TARGET {
            match (labels.remove(name), honor) {
                (Some(own), HonorLabels::Yes) => _ = labels.insert(name.to_owned(), own),
                (own, _) => {
                    labels.extend(own.map(|own| (format!("exported_{name}"), own)));
                    labels.insert(name.to_owned(), value.to_owned());
                }
            }
        }
        Self { name: self.name.clone(), labels }
    }
}

fn series(line: &str) -> Option<Series> {
    let end = line.find(|c: char| !is_name(c))?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Labels::new();
    let mut before = '{';
    while let Some(inside) = rest.strip_prefix(before) {
        let (label, after) = inside.split_once("=\"")?;
        let (value, after) = quoted(after)?;
        let known = labels.insert(label.to_owned(), value);
        assert!(label.chars().all(is_name) && known.is_none(), "the label {label}: {line}");
        (before, rest) = (',', after);
    }
    let value = if labels.is_empty() { rest } else { rest.strip_prefix('}')? };
    let value = value.strip_prefix(' ')?;
    value.parse::<f64>().ok()?;
    Some(Series { name: name.to_owned(), labels })
}

/// The value up to its closing quote, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

#[test]
fn a_scrape_is_parsed_with_escapes_and_gets_the_labels_of_its_target() {
    let text = "# HELP a x\n# TYPE a counter\na{namespace=\"x\",path=\"/\\\"}\\\\\",none=\"\"} 2\n\
                # TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\n";
    let scrape = Scrape::parse(text);
    assert_eq!(scrape.kind("h_bucket"), Some(("h", "histogram")));
    assert_eq!(scrape.kind("a_sum"), None);
    assert_eq!(scrape.series[0].labels["path"], "/\"}\\");
    assert!(!scrape.after_relabeling(HonorLabels::Yes).series[0].labels.contains_key("none"));
    let label = |honor, name: &str| scrape.after_relabeling(honor).series[0].labels.get(name).cloned();
    assert_eq!(label(HonorLabels::Yes, "namespace").as_deref(), Some("x"));
    assert_eq!(label(HonorLabels::No, "namespace").as_deref(), Some("fairway"));
    assert_eq!(label(HonorLabels::No, "exported_namespace").as_deref(), Some("x"));
    assert_eq!(label(HonorLabels::Yes, "exported_namespace"), None);
}
