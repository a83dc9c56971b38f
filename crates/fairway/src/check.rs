//! `fairway check`: every diagnostic, or what moving from ingress-nginx means for each Ingress, and an exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use fairway_migrate::{Objects, Report};
use fairway_model::{Origin, on_one_line};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::options::Compat;

use crate::args::{CheckArgs, Output};
use crate::offline::{Input, Offline, Read};
use crate::terminal::{EscapedJson, Plain};

/// Says everything; 0 when there is nothing but notes, 1 otherwise.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode> {
    let CheckArgs { manifests, cluster, translation, addresses, .. } = args;
    let input = Input { manifests: manifests.as_deref(), cluster, translation, addresses: Some(addresses) };
    let read = input.read()?;
    let (prefix, compat) = (read.options.annotations_prefix.clone(), read.options.hosts.compat);
    let found = judged(read)?;
    let report = || report(&found, &prefix, compat);
    let mut out = io::BufWriter::new(io::stdout().lock());
    match (args.output, args.report) {
        (Output::Text, false) => text(&mut Plain(&mut out), &found)?,
        (Output::Json, false) => json(&mut EscapedJson(&mut out), &found)?,
        (Output::Text, true) => fairway_migrate::text(&mut Plain(&mut out), &report())?,
        (Output::Json, true) => {
            serde_json::to_writer_pretty(EscapedJson(&mut out), &report())?;
            writeln!(out)?;
        }
        (Output::Markdown, _) => fairway_migrate::markdown(&mut out, &report())?,
        (Output::Html, _) => fairway_migrate::html(&mut Plain(&mut out), &report())?,
    }
    out.flush()?;
    Ok(if is_clean(&found) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What objects mean, with everything that there is to say.
///
/// # Errors
/// Never: the first update always has an outcome.
pub(crate) fn judged(read: Read) -> Result<Offline> {
    let given = read.given();
    let left = fairway_migrate::left_to_ingress_nginx(&read.changes, &read.options);
    let mut found = read.judged()?;
    found.diagnostics.extend(left);
    given.judge(&mut found.diagnostics);
    Ok(found)
}

/// Whether there is nothing but notes.
pub(crate) fn is_clean(found: &Offline) -> bool {
    found.diagnostics.iter().all(|diagnostic| diagnostic.severity == Severity::Note)
}

fn report(found: &Offline, prefix: &str, compat: Compat) -> Report {
    let Offline { outcome, diagnostics, ingresses, .. } = found;
    Report::of(&Objects { ingresses, translation: &outcome.translation, diagnostics, prefix, compat })
}

/// Writes every diagnostic, and how many there are.
pub(crate) fn text(out: &mut impl Write, found: &Offline) -> Result<()> {
    for diagnostic in &found.diagnostics {
        writeln!(out, "{}", line(diagnostic))?;
    }
    let counts: Vec<_> = [Severity::Error, Severity::Warning, Severity::Note]
        .into_iter()
        .map(|severity| (severity, found.diagnostics.iter().filter(|it| it.severity == severity).count()))
        .map(|(severity, count)| counted(count, &severity.to_string()))
        .collect();
    let objects = counted(found.objects, "object");
    match found.files {
        Some(files) => writeln!(out, "{} in {} with {objects}", counts.join(", "), counted(files, "file"))?,
        None => writeln!(out, "{} in {objects} of the cluster", counts.join(", "))?,
    }
    Ok(())
}

fn json(out: &mut impl Write, found: &Offline) -> Result<()> {
    for diagnostic in &found.diagnostics {
        serde_json::to_writer(&mut *out, diagnostic)?;
        writeln!(out)?;
    }
    Ok(())
}

/// `file:line: error[code]: object field: problem; consequence`, as compilers write it, so that editors can jump there. Lines after
/// it are a manifest that the consequence has.
pub(crate) fn line(diagnostic: &Diagnostic) -> String {
    let Diagnostic { severity, origin, code, problem, consequence } = diagnostic;
    format!("{}; {consequence}", worded(&severity.to_string(), code, origin, problem))
}

/// The part of such a line that stands before the consequence.
pub(crate) fn worded(severity: &str, code: &str, origin: &Origin, problem: &str) -> String {
    let place =
        origin.source.as_ref().map(|source| format!("{}:{}: ", source.file, source.line)).unwrap_or_default();
    let mut object = origin.clone();
    object.source = None;
    let object = object.to_string();
    let object = if object.trim().is_empty() { String::new() } else { format!("{}: ", object.trim()) };
    on_one_line(&format!("{place}{severity}[{code}]: {object}{problem}"))
}

/// A number of things.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_object_says_ends_no_line_and_a_manifest_keeps_its_lines() {
        let origin = Origin::object("Ingress", "shop", "web").at("metadata.annotations[\"a\nb\"]");
        let problem = "\"5\n0 errors, 0\u{202e} warnings\u{85}\u{2028}\" is no number";
        let said = Diagnostic::new(Severity::Error, "invalid", origin).because(problem, "write:\nspec: {}");
        assert_eq!(
            line(&said),
            "error[invalid]: Ingress shop/web metadata.annotations[\"a?b\"]: \"5?0 errors, 0? warnings??\" is no number; \
             write:\nspec: {}"
        );
    }
}
