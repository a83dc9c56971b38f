//! `fairway check`: prints all diagnostics, or a report on what moving from ingress-nginx changes for each Ingress.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use fairway_migrate::{Objects, Report};
use fairway_model::{Origin, on_one_line};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::Compat;

use crate::args::{CheckArgs, Output};
use crate::offline::{Input, OfflineTranslation, ReadObjects};
use crate::terminal::{EscapedJson, PlainText};

/// Prints all diagnostics or the report. Exits with 0 if there are no problems other than notes, otherwise with 1.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode> {
    let CheckArgs { manifests, cluster, translation, addresses, .. } = args;
    let input = Input { manifests: manifests.as_deref(), cluster, translation, addresses: Some(addresses) };
    let read = input.read()?;
    let (prefix, compat) = (read.options.annotations_prefix.clone(), read.options.hosts.compat);
    let found = check_objects(read)?;
    let report = || report(&found, &prefix, compat);
    let mut out = io::BufWriter::new(io::stdout().lock());
    match (args.output, args.report) {
        (Output::Text, false) => text(&mut PlainText(&mut out), &found)?,
        (Output::Json, false) => json(&mut EscapedJson(&mut out), &found)?,
        (Output::Text, true) => fairway_migrate::text(&mut PlainText(&mut out), &report())?,
        (Output::Json, true) => {
            serde_json::to_writer_pretty(EscapedJson(&mut out), &report())?;
            writeln!(out)?;
        }
        (Output::Markdown, _) => fairway_migrate::markdown(&mut out, &report())?,
        (Output::Html, _) => fairway_migrate::html(&mut PlainText(&mut out), &report())?,
    }
    out.flush()?;
    Ok(if is_clean(&found) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Translates objects and collects all diagnostics, including those about objects that ingress-nginx still has to serve.
///
/// # Errors
/// Never: the first update always has an outcome.
pub(crate) fn check_objects(read: ReadObjects) -> Result<OfflineTranslation> {
    let seen_kinds = read.seen_kinds();
    let left_out = fairway_migrate::left_to_ingress_nginx(&read.changes, &read.options);
    let mut found = read.translate()?;
    found.diagnostics.extend(left_out);
    seen_kinds.soften_unknown_references(&mut found.diagnostics);
    Ok(found)
}

/// Whether all diagnostics are notes.
pub(crate) fn is_clean(found: &OfflineTranslation) -> bool {
    found.diagnostics.iter().all(|diagnostic| diagnostic.severity == Severity::Note)
}

fn report(found: &OfflineTranslation, prefix: &str, compat: Compat) -> Report {
    let OfflineTranslation { outcome, diagnostics, ingresses, .. } = found;
    Report::from_objects(&Objects {
        ingresses,
        translation: &outcome.translation,
        diagnostics,
        prefix,
        compat,
    })
}

/// Writes every diagnostic, followed by their number.
pub(crate) fn text(out: &mut impl Write, found: &OfflineTranslation) -> Result<()> {
    for diagnostic in &found.diagnostics {
        writeln!(out, "{}", line(diagnostic))?;
    }
    let counts: Vec<_> = [Severity::Error, Severity::Warning, Severity::Note]
        .into_iter()
        .map(|severity| (severity, found.diagnostics.iter().filter(|it| it.severity == severity).count()))
        .map(|(severity, count)| count_noun(count, &severity.to_string()))
        .collect();
    let objects = count_noun(found.objects, "object");
    match found.files {
        Some(files) => {
            writeln!(out, "{} in {} with {objects}", counts.join(", "), count_noun(files, "file"))?;
        }
        None => writeln!(out, "{} in {objects} of the cluster", counts.join(", "))?,
    }
    Ok(())
}

fn json(out: &mut impl Write, found: &OfflineTranslation) -> Result<()> {
    for diagnostic in &found.diagnostics {
        serde_json::to_writer(&mut *out, diagnostic)?;
        writeln!(out)?;
    }
    Ok(())
}

/// `file:line: error[code]: object field: problem; consequence`, in the format of compilers, so that editors can jump to it. The
/// consequence may contain a manifest, whose lines follow.
pub(crate) fn line(diagnostic: &Diagnostic) -> String {
    let Diagnostic { severity, origin, code, problem, consequence } = diagnostic;
    format!("{}; {consequence}", diagnostic_text(&severity.to_string(), code, origin, problem))
}

/// The part of a diagnostic's line before the consequence.
pub(crate) fn diagnostic_text(severity: &str, code: &str, origin: &Origin, problem: &str) -> String {
    let location =
        origin.source.as_ref().map(|source| format!("{}:{}: ", source.file, source.line)).unwrap_or_default();
    let mut object = origin.clone();
    object.source = None;
    let object = object.to_string();
    let object = if object.trim().is_empty() { String::new() } else { format!("{}: ", object.trim()) };
    on_one_line(&format!("{location}{severity}[{code}]: {object}{problem}"))
}

/// A count with its noun, in the plural unless the count is 1.
pub(crate) fn count_noun(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_objects_cannot_break_a_line_and_a_manifest_keeps_its_lines() {
        let origin = Origin::object("Ingress", "shop", "web").at("metadata.annotations[\"a\nb\"]");
        let problem = "\"5\n0 errors, 0\u{202e} warnings\u{85}\u{2028}\" is no number";
        let remedied =
            Diagnostic::new(Severity::Error, "invalid", origin).because(problem, "write:\nspec: {}");
        assert_eq!(
            line(&remedied),
            "error[invalid]: Ingress shop/web metadata.annotations[\"a?b\"]: \"5?0 errors, 0? warnings??\" is no number; \
             write:\nspec: {}"
        );
    }
}
