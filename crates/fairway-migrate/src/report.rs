//! What moving from ingress-nginx means for each Ingress: what becomes of its annotations, and which peculiarities of
//! ingress-nginx it depends on. Collects; how it is shown is the business of [`crate::show`].

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_ingress::{Known, Support, Translation, known_annotations};
use fairway_model::Origin;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{Object, ObjectKey};
use fairway_objects::options::Compat;
use fairway_objects::resources::Change;
use k8s_openapi::api::networking::v1::Ingress;
use serde::Serialize;

use crate::given::unknown_without;
use crate::quirks::{self, Hosts, Quirk, Redirects};
use crate::shared::{self, SharedService};
use crate::snippets;

/// What is reported on.
#[derive(Debug)]
pub struct Objects<'o> {
    /// All Ingresses.
    pub ingresses: &'o Ingresses,
    /// What translation made of them.
    pub translation: &'o Translation,
    /// All that is said about any object.
    pub diagnostics: &'o [Diagnostic],
    /// The prefix of annotations.
    pub prefix: &'o str,
    /// Whether Ingresses without `fairway.dev/compat` share what they ask for their Services.
    pub compat: Compat,
}

/// Ingresses, each with the place where it was read (`FILE:LINE`).
#[derive(Debug, Default)]
pub struct Ingresses(Vec<(Arc<Ingress>, Option<String>)>);

impl Ingresses {
    /// Those among objects that were read.
    #[must_use]
    pub fn among(changes: &[Change]) -> Self {
        let ingresses = changes.iter().filter_map(|change| match change {
            Change::Set(Object::Ingress(ingress), source) => {
                let place = source.as_ref().map(|source| format!("{}:{}", source.file, source.line));
                Some((Arc::clone(ingress), place))
            }
            _ => None,
        });
        Self(ingresses.collect())
    }

    /// Each of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Ingress, Option<&str>)> {
        self.0.iter().map(|(ingress, place)| (&**ingress, place.as_deref()))
    }
}

/// All Ingresses that would be served.
#[derive(Debug, Serialize)]
pub struct Report {
    /// How many there are of what.
    pub summary: Summary,
    /// In alphabetical order.
    pub ingresses: Vec<Entry>,
    /// Services through which Ingresses change each other.
    pub shared: Vec<SharedService>,
    /// What is said about other objects.
    pub others: Vec<Diagnostic>,
}

/// How many there are of what.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Ingresses that would be served, or not because something is wrong.
    pub ingresses: usize,
    /// Ingresses by the worst verdict on them.
    pub same: usize,
    /// The same.
    pub differing: usize,
    /// The same.
    pub refused: usize,
    /// Ingresses of other controllers.
    pub of_others: usize,
    /// Each annotation with how often it has which verdict.
    pub annotations: BTreeMap<String, BTreeMap<Verdict, usize>>,
    /// Kinds of which no object was seen, each with how much is unknown without them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown_without: BTreeMap<&'static str, usize>,
}

/// One Ingress.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// `NAMESPACE/NAME`.
    pub ingress: String,
    /// Where it was read, where that is a file.
    pub place: Option<String>,
    /// The worst of what is known.
    pub verdict: Verdict,
    /// As they are listed.
    pub annotations: Vec<Row>,
    /// Peculiarities of ingress-nginx that it depends on.
    pub quirks: Vec<Quirk>,
    /// What else is said about it.
    pub findings: Vec<Diagnostic>,
}

/// An annotation of an Ingress.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name with its prefix.
    pub annotation: String,
    /// Its value.
    pub value: String,
    /// What becomes of it.
    pub verdict: Verdict,
    /// How it differs, or why it is refused.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Annotations that say what a snippet says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instead: Vec<(String, String)>,
    /// Lines of a snippet whose annotations need values from elsewhere, each with what to use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<(String, String)>,
    /// Lines of a snippet for which there is no annotation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

/// What becomes of something, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It depends on an object that the reader of the input could not see.
    Unknown,
    /// As with ingress-nginx.
    Same,
    /// Served, and not quite as with ingress-nginx.
    Differs,
    /// Requests are answered 503, or not served at all.
    Refused,
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Same => "same",
            Self::Differs => "differs",
            Self::Refused => "refused",
        }
    }
}

impl Report {
    /// Reports on objects.
    #[must_use]
    pub fn of(found: &Objects<'_>) -> Self {
        let (served, prefix) = (&found.translation.status, found.prefix);
        let mut by_ingress: BTreeMap<(&str, &str), Vec<&Diagnostic>> = BTreeMap::new();
        let mut others = Vec::new();
        for diagnostic in found.diagnostics {
            let Origin { kind, namespace, name, .. } = &diagnostic.origin;
            match &**kind {
                "Ingress" => by_ingress.entry((namespace, name)).or_default().push(diagnostic),
                // Their number says it all.
                "Service" if unknown_without(diagnostic).is_some() => {}
                _ => others.push(diagnostic.clone()),
            }
        }
        let ours: Vec<_> = found
            .ingresses
            .0
            .iter()
            .map(|(ingress, place)| (ObjectKey::of(&ingress.metadata), &**ingress, place))
            .filter(|(key, ..)| {
                let mut said = by_ingress.get(&(&*key.namespace, &*key.name)).into_iter().flatten();
                served.contains_key(key) || said.any(|it| has_no_class(it) || is_refused(it))
            })
            .collect();
        let hosts = Hosts::of(ours.iter().map(|(key, ingress, _)| (key, *ingress)), prefix);
        let redirects = Redirects::of(&found.translation.config);
        let mut ingresses = Vec::new();
        for (key, ingress, place) in &ours {
            let said = by_ingress.remove(&(&*key.namespace, &*key.name)).unwrap_or_default();
            let mut entry = Entry::of(key, ingress, prefix, &said);
            entry.place = (*place).clone();
            entry.quirks = quirks::of(key, ingress, prefix, &hosts, &redirects);
            if !served.contains_key(key) {
                // Only those are judged that are the reason.
                entry.verdict = Verdict::Refused;
                entry.annotations.retain(|row| row.verdict == Verdict::Refused);
            }
            ingresses.push(entry);
        }
        // What is said of objects that cannot be read as Ingresses, and of those that are for others.
        others.extend(by_ingress.into_values().flatten().cloned());
        let every = ours.iter().map(|(key, ingress, _)| (key, *ingress));
        let shared = shared::services(every, found.compat, found.diagnostics);
        ingresses.sort_by(|one, other| one.ingress.cmp(&other.ingress));
        let of_others = found.ingresses.0.len() - ingresses.len();
        let mut summary = Summary::of(&ingresses, of_others);
        for kind in found.diagnostics.iter().filter_map(unknown_without) {
            *summary.unknown_without.entry(kind).or_default() += 1;
        }
        Self { summary, ingresses, shared, others }
    }
}

impl Summary {
    fn of(ingresses: &[Entry], of_others: usize) -> Self {
        let mut summary = Self { ingresses: ingresses.len(), of_others, ..Self::default() };
        for entry in ingresses {
            match entry.verdict {
                Verdict::Unknown | Verdict::Same => summary.same += 1,
                Verdict::Differs => summary.differing += 1,
                Verdict::Refused => summary.refused += 1,
            }
            for row in &entry.annotations {
                let verdicts = summary.annotations.entry(row.annotation.clone()).or_default();
                *verdicts.entry(row.verdict).or_default() += 1;
            }
        }
        summary
    }
}

impl Entry {
    fn of(key: &ObjectKey, ingress: &Ingress, prefix: &str, said: &[&Diagnostic]) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        let mut of_rows = Vec::new();
        for (name, value) in ingress.metadata.annotations.iter().flatten() {
            let of_nginx = name.strip_prefix(prefix).and_then(|name| name.strip_prefix('/'));
            if of_nginx.is_none() && !name.starts_with("fairway.dev/") {
                continue;
            }
            let field = format!("metadata.annotations[\"{name}\"]");
            let about: Vec<_> = said.iter().copied().filter(|it| *it.origin.field == *field).collect();
            of_rows.push(field);
            let mut row = Row::of(name, value.trim(), of_nginx.and_then(known), &about);
            if name.ends_with("configuration-snippet") {
                let proposal = snippets::proposal(value, prefix);
                (row.instead, row.hints, row.without) = (proposal.annotations, proposal.hints, proposal.left);
            }
            rows.push(row);
        }
        let findings: Vec<Diagnostic> = said
            .iter()
            .filter(|it| {
                let counts = it.severity != Severity::Note || unknown_without(it).is_some();
                counts && !of_rows.iter().any(|field| **field == *it.origin.field)
            })
            .map(|it| (*it).clone())
            .collect();
        let of_findings = findings.iter().map(verdict_of);
        let verdict = rows.iter().map(|row| row.verdict).chain(of_findings).fold(Verdict::Same, Verdict::max);
        Self {
            ingress: key.to_string(),
            place: None,
            verdict,
            annotations: rows,
            quirks: Vec::new(),
            findings,
        }
    }
}

impl Row {
    fn of(name: &str, value: &str, known: Option<&'static Known>, about: &[&Diagnostic]) -> Self {
        let mut row = Self {
            annotation: name.to_owned(),
            value: value.to_owned(),
            verdict: Verdict::Same,
            why: String::new(),
            instead: Vec::new(),
            hints: Vec::new(),
            without: Vec::new(),
        };
        let worst = about.iter().copied().min_by_key(|it| (it.severity, unknown_without(it).is_none()));
        let verdict = worst.map(verdict_of);
        if let (Some(worst), Some(verdict)) = (worst, verdict) {
            row.verdict = verdict;
            row.why = format!("{}; {}", worst.problem, worst.consequence);
        }
        // What is unknown of one object hides no difference that every object has.
        if let (None | Some(Verdict::Unknown), Some(Known { support: Support::Differs { how }, .. })) =
            (verdict, known)
        {
            let unknown = if row.why.is_empty() { String::new() } else { format!(". {}", row.why) };
            row.verdict = Verdict::Differs;
            row.why = without_links(how) + &unknown;
        }
        row
    }
}

/// Whether this says that an Ingress is not served because ingress-nginx would not configure it.
fn is_refused(said: &Diagnostic) -> bool {
    matches!(said.code, "refused-annotation" | "unsupported-protection")
}

/// Whether this says that an Ingress is served by nobody because its class does not exist.
fn has_no_class(said: &Diagnostic) -> bool {
    said.code == "ingress-class" && said.severity != Severity::Note
}

/// What becomes of an object of which this is said.
pub(crate) fn verdict_of(said: &Diagnostic) -> Verdict {
    match said.severity {
        _ if unknown_without(said).is_some() => Verdict::Unknown,
        Severity::Error => Verdict::Refused,
        Severity::Warning => Verdict::Differs,
        Severity::Note => Verdict::Same,
    }
}

/// Text of a document of Fairway's, without what leads to other places in it.
fn without_links(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, link)) = rest.split_once(" ([") {
        text.push_str(before);
        rest = link.split_once("))").map_or("", |(_, after)| after);
    }
    text + rest
}

/// What is known of an annotation by its name without prefix.
fn known(name: &str) -> Option<&'static Known> {
    let all = known_annotations();
    all.binary_search_by(|known| known.name.cmp(name)).ok().map(|at| &all[at])
}
