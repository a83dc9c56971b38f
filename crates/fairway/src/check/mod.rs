//! `fairway check`: every diagnostic, and an exit code.

mod snippets;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use fairway_translate::{Diagnostic, Severity};

use crate::args::{CheckArgs, Output};
use crate::offline::{self, Offline};

/// Says everything; 0 when there is nothing but notes, 1 otherwise.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode> {
    let options = args.translation.options()?;
    let found = match &args.manifests {
        Some(manifests) => {
            args.cluster.refuse_without_cluster("a directory")?;
            offline::read(manifests, options)?
        }
        None => offline::read_cluster(&args.cluster, options)?,
    };
    let mut out = io::stdout().lock();
    match args.output {
        Output::Text => text(&mut out, &found)?,
        Output::Json => json(&mut out, &found)?,
    }
    let clean = found.diagnostics.iter().all(|diagnostic| diagnostic.severity == Severity::Note);
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn text(out: &mut impl Write, found: &Offline) -> Result<()> {
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

/// `file:line: error[code]: object field: problem; consequence`, as compilers write it, so that editors can jump there.
pub(crate) fn line(diagnostic: &Diagnostic) -> String {
    let Diagnostic { severity, origin, code, problem, consequence } = diagnostic;
    let place =
        origin.source.as_ref().map(|source| format!("{}:{}: ", source.file, source.line)).unwrap_or_default();
    let mut object = origin.clone();
    object.source = None;
    let object = object.to_string();
    let object = if object.trim().is_empty() { String::new() } else { format!("{}: ", object.trim()) };
    format!("{place}{severity}[{code}]: {object}{problem}; {consequence}")
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
