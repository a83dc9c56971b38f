//! The diagnostics page: what is wrong, where, and the consequence.

use std::fmt::Write;

use fairway_objects::diagnostic::{Diagnostic, Severity};
use serde::Serialize;

use super::listing::{Paging, paginate};
use super::object::{ObjectLink, ObjectName};
use super::page::Page;
use super::problem::Problem;
use super::query::Query;
use super::search::Search;
use crate::pipeline::View;

const SEVERITIES: [Severity; 3] = [Severity::Error, Severity::Warning, Severity::Note];

#[derive(Serialize)]
struct Diagnostics<'q> {
    q: &'q str,
    severity: &'q str,
    object: &'q str,
    paging: Paging,
    diagnostics: Vec<DiagnosticRow>,
}

/// A diagnostic as a table row.
#[derive(Serialize)]
pub(super) struct DiagnosticRow {
    severity: Severity,
    code: &'static str,
    object: ObjectLink,
    problem: String,
    consequence: String,
}

/// The diagnostics that match the parameters.
pub(super) fn page(view: &View, query: &Query) -> Result<Page, Problem> {
    let (search, object, severity) =
        (Search::from_query(query), ObjectName::from_query(query)?, severity(query)?);
    let mut text = String::new();
    let is_wanted = |it: &&Diagnostic| {
        let is_asked_for = severity.is_none_or(|severity| severity == it.severity)
            && object.is_none_or(|object| object.matches_origin(&it.origin));
        if !is_asked_for || search.is_empty() {
            return is_asked_for;
        }
        text.clear();
        // Writing to a String cannot fail.
        _ = write!(text, "{it}");
        search.finds(&mut text)
    };
    let (shown, paging) = paginate(view.diagnostics().filter(is_wanted), query)?;
    let content = Diagnostics {
        q: query.value("q").unwrap_or_default(),
        severity: query.value("severity").unwrap_or_default(),
        object: query.value("object").unwrap_or_default(),
        paging,
        diagnostics: shown.into_iter().map(row).collect(),
    };
    Ok(Page::new("diagnostics.html", "diagnostics", "Diagnostics", content))
}

/// A diagnostic as a table row.
pub(super) fn row(it: &Diagnostic) -> DiagnosticRow {
    DiagnosticRow {
        severity: it.severity,
        code: it.code,
        object: ObjectLink::from_origin(&it.origin),
        problem: it.problem.clone(),
        consequence: it.consequence.clone(),
    }
}

/// The number of diagnostics per severity.
pub(super) fn counts(view: &View) -> [(Severity, usize); 3] {
    let mut counts = SEVERITIES.map(|severity| (severity, 0));
    for it in view.diagnostics() {
        if let Some((_, count)) = counts.iter_mut().find(|(severity, _)| *severity == it.severity) {
            *count += 1;
        }
    }
    counts
}

fn severity(query: &Query) -> Result<Option<Severity>, Problem> {
    let Some(name) = query.value("severity") else { return Ok(None) };
    let known = SEVERITIES.into_iter().find(|severity| severity.to_string() == name);
    let problem = || Problem::bad_parameter("severity", format!("{name:?} is none of error, warning, note"));
    known.map(Some).ok_or_else(problem)
}
