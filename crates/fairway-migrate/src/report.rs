//! The report on moving from ingress-nginx: for each Ingress, the verdicts on its annotations and the quirks that it depends on.
//! [`crate::show`] prints it.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_ingress::{KnownAnnotation, Support, Translation, known_annotations};
use fairway_model::Origin;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{Object, ObjectKey};
use fairway_objects::options::Compat;
use fairway_objects::resources::Change;
use k8s_openapi::api::networking::v1::Ingress;
use serde::Serialize;

use crate::external_references::unknown_without;
use crate::quirks::{self, Hosts, Quirk, Redirects};
use crate::shared::{self, SharedService};
use crate::snippets;

/// The input of the report.
#[derive(Debug)]
pub struct Objects<'o> {
    /// All Ingresses.
    pub ingresses: &'o Ingresses,
    /// Their translation.
    pub translation: &'o Translation,
    /// The diagnostics of all objects.
    pub diagnostics: &'o [Diagnostic],
    /// The prefix of annotations.
    pub prefix: &'o str,
    /// Whether Ingresses without `fairway.dev/compat` share settings of their Services.
    pub compat: Compat,
}

/// Ingresses, each with its origin (`FILE:LINE`).
#[derive(Debug, Default)]
pub struct Ingresses(Vec<(Arc<Ingress>, Option<String>)>);

impl Ingresses {
    /// The Ingresses among the objects that were read.
    #[must_use]
    pub fn among(changes: &[Change]) -> Self {
        let ingresses = changes.iter().filter_map(|change| match change {
            Change::Set(Object::Ingress(ingress), source) => {
                let location = source.as_ref().map(|source| format!("{}:{}", source.file, source.line));
                Some((Arc::clone(ingress), location))
            }
            _ => None,
        });
        Self(ingresses.collect())
    }

    /// Iterates over the Ingresses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Ingress, Option<&str>)> {
        self.0.iter().map(|(ingress, place)| (&**ingress, place.as_deref()))
    }
}

/// The report on all Ingresses that would be served.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The totals.
    pub summary: Summary,
    /// In alphabetical order.
    pub ingresses: Vec<IngressReport>,
    /// Services through which Ingresses affect each other.
    pub shared: Vec<SharedService>,
    /// Diagnostics of other objects.
    pub others: Vec<Diagnostic>,
}

/// The totals of a report.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Ingresses of the served classes.
    pub ingresses: usize,
    /// Ingresses whose worst verdict is `same`.
    pub same: usize,
    /// Ingresses whose worst verdict is `differs`.
    pub differing: usize,
    /// Ingresses whose worst verdict is `refused`.
    pub refused: usize,
    /// Ingresses of other controllers.
    pub of_others: usize,
    /// Number of verdicts per annotation.
    pub annotations: BTreeMap<String, BTreeMap<Verdict, usize>>,
    /// Number of findings that are unknown because the input has no objects of a kind, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown_without: BTreeMap<&'static str, usize>,
}

/// The report on one Ingress.
#[derive(Debug, Serialize)]
pub struct IngressReport {
    /// `NAMESPACE/NAME`.
    pub ingress: String,
    /// File and line, if it was read from a file.
    pub place: Option<String>,
    /// The worst known verdict.
    pub verdict: Verdict,
    /// Its annotations in their order.
    pub annotations: Vec<AnnotationReport>,
    /// Quirks of ingress-nginx that it depends on.
    pub quirks: Vec<Quirk>,
    /// Its other diagnostics.
    pub findings: Vec<Diagnostic>,
}

/// An annotation of an Ingress.
#[derive(Debug, Serialize)]
pub struct AnnotationReport {
    /// Its name with its prefix.
    pub annotation: String,
    /// Its value.
    pub value: String,
    /// The verdict.
    pub verdict: Verdict,
    /// How it differs, or why it is refused.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Annotations that replace a snippet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instead: Vec<(String, String)>,
    /// Lines of a snippet whose annotations need other values, each with a hint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<(String, String)>,
    /// Lines of a snippet that no annotation replaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

/// How an Ingress or annotation works with Fairway, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It depends on an object that the input does not contain.
    Unknown,
    /// The same as with ingress-nginx.
    Same,
    /// Served, but not exactly as with ingress-nginx.
    Differs,
    /// Requests get 503, or are not served at all.
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
    /// Builds the report.
    #[must_use]
    pub fn from_objects(found: &Objects<'_>) -> Self {
        let (served, prefix) = (&found.translation.status, found.prefix);
        let mut by_ingress: BTreeMap<(&str, &str), Vec<&Diagnostic>> = BTreeMap::new();
        let mut others = Vec::new();
        for diagnostic in found.diagnostics {
            let Origin { kind, namespace, name, .. } = &diagnostic.origin;
            match &**kind {
                "Ingress" => by_ingress.entry((namespace, name)).or_default().push(diagnostic),
                // Only their number is reported.
                "Service" if unknown_without(diagnostic).is_some() => {}
                _ => others.push(diagnostic.clone()),
            }
        }
        let ours: Vec<_> = found
            .ingresses
            .0
            .iter()
            .map(|(ingress, place)| (ObjectKey::from_metadata(&ingress.metadata), &**ingress, place))
            .filter(|(key, ..)| {
                let mut findings = by_ingress.get(&(&*key.namespace, &*key.name)).into_iter().flatten();
                served.contains_key(key) || findings.any(|it| has_no_class(it) || is_refused(it))
            })
            .collect();
        let hosts = Hosts::from_ingresses(ours.iter().map(|(key, ingress, _)| (key, *ingress)), prefix);
        let redirects = Redirects::from_config(&found.translation.config);
        let mut ingresses = Vec::new();
        for (key, ingress, place) in &ours {
            let findings = by_ingress.remove(&(&*key.namespace, &*key.name)).unwrap_or_default();
            let mut entry = IngressReport::from_ingress(key, ingress, prefix, &findings);
            entry.place = (*place).clone();
            entry.quirks = quirks::quirks_of(key, ingress, prefix, &hosts, &redirects);
            if !served.contains_key(key) {
                // Give a verdict only on the annotations that are the reason.
                entry.verdict = Verdict::Refused;
                entry.annotations.retain(|row| row.verdict == Verdict::Refused);
            }
            ingresses.push(entry);
        }
        // Diagnostics of objects that cannot be read as Ingresses, and of Ingresses of other controllers.
        others.extend(by_ingress.into_values().flatten().cloned());
        let every = ours.iter().map(|(key, ingress, _)| (key, *ingress));
        let shared = shared::shared_services(every, found.compat, found.diagnostics);
        ingresses.sort_by(|one, other| one.ingress.cmp(&other.ingress));
        let of_others = found.ingresses.0.len() - ingresses.len();
        let mut summary = Summary::count(&ingresses, of_others);
        for kind in found.diagnostics.iter().filter_map(unknown_without) {
            *summary.unknown_without.entry(kind).or_default() += 1;
        }
        Self { summary, ingresses, shared, others }
    }
}

impl Summary {
    fn count(ingresses: &[IngressReport], of_others: usize) -> Self {
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

impl IngressReport {
    fn from_ingress(key: &ObjectKey, ingress: &Ingress, prefix: &str, reported: &[&Diagnostic]) -> Self {
        let mut rows: Vec<AnnotationReport> = Vec::new();
        let mut of_rows = Vec::new();
        for (name, value) in ingress.metadata.annotations.iter().flatten() {
            let of_nginx = name.strip_prefix(prefix).and_then(|name| name.strip_prefix('/'));
            if of_nginx.is_none() && !name.starts_with("fairway.dev/") {
                continue;
            }
            let field = format!("metadata.annotations[\"{name}\"]");
            let about: Vec<_> = reported.iter().copied().filter(|it| *it.origin.field == *field).collect();
            of_rows.push(field);
            let mut row = AnnotationReport::from_annotation(
                name,
                value.trim(),
                of_nginx.and_then(find_annotation),
                &about,
            );
            if name.ends_with("configuration-snippet") {
                let proposal = snippets::proposal(value, prefix);
                (row.instead, row.hints, row.without) =
                    (proposal.annotations, proposal.hints, proposal.remaining);
            }
            rows.push(row);
        }
        let findings: Vec<Diagnostic> = reported
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

impl AnnotationReport {
    fn from_annotation(
        name: &str,
        value: &str,
        known: Option<&'static KnownAnnotation>,
        about: &[&Diagnostic],
    ) -> Self {
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
        // An unknown finding does not hide a difference that applies to every Ingress.
        if let (
            None | Some(Verdict::Unknown),
            Some(KnownAnnotation { support: Support::Differs { how }, .. }),
        ) = (verdict, known)
        {
            let unknown = if row.why.is_empty() { String::new() } else { format!(". {}", row.why) };
            row.verdict = Verdict::Differs;
            row.why = without_links(how) + &unknown;
        }
        row
    }
}

/// Whether a diagnostic says that an annotation is refused or asks for unsupported protection.
fn is_refused(diagnostic: &Diagnostic) -> bool {
    matches!(diagnostic.code, "refused-annotation" | "unsupported-protection")
}

/// Whether a diagnostic says that an Ingress is not served because its class does not exist.
fn has_no_class(diagnostic: &Diagnostic) -> bool {
    diagnostic.code == "ingress-class" && diagnostic.severity != Severity::Note
}

/// The verdict on an object with this diagnostic.
pub(crate) fn verdict_of(diagnostic: &Diagnostic) -> Verdict {
    match diagnostic.severity {
        _ if unknown_without(diagnostic).is_some() => Verdict::Unknown,
        Severity::Error => Verdict::Refused,
        Severity::Warning => Verdict::Differs,
        Severity::Note => Verdict::Same,
    }
}

/// Markdown of Fairway's documentation without its links.
fn without_links(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, link)) = rest.split_once('[') {
        let parts = link.split_once("](").and_then(|(label, after)| Some((label, after.split_once(')')?.1)));
        text.push_str(before);
        match parts {
            // A reference in parentheses: nothing is left of it.
            Some((_, after)) if before.ends_with(" (") && after.starts_with(')') => {
                text.truncate(text.len() - 2);
                rest = &after[1..];
            }
            Some((label, after)) => {
                text.push_str(label);
                rest = after;
            }
            None => {
                text.push('[');
                rest = link;
            }
        }
    }
    text + rest
}

/// The documented annotation with this name, without prefix.
fn find_annotation(name: &str) -> Option<&'static KnownAnnotation> {
    let all = known_annotations();
    all.binary_search_by(|known| known.name.cmp(name)).ok().map(|at| &all[at])
}
