//! `check`: prints the diagnostics of the objects that a pod has read, in the format of `fairway check`.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;

use super::fleet::Fleet;
use super::listing;
use super::page::{ConfigPage, PageDiagnostic};
use super::scope::Scope;
use crate::args::{DiagnosticsArgs, ListFormat};
use crate::check::diagnostic_text;
use crate::terminal::PlainText;

/// Prints the diagnostics. Exits with 0 if there are no problems other than notes, otherwise with 1.
pub(super) async fn check(args: &DiagnosticsArgs) -> Result<ExitCode> {
    let fleet = Fleet::find_one(&args.target).await?;
    let scope = Scope::new(&args.scope, fleet.default_namespace());
    let ConfigPage { replica, diagnostics, .. } = ConfigPage::fetch(&fleet).await?;
    let found: Vec<_> = diagnostics.iter().filter(|it| scope.includes(&it.origin.namespace)).collect();
    match args.output {
        ListFormat::Json => listing::json(&found)?,
        ListFormat::Yaml => listing::yaml(&found)?,
        ListFormat::Table | ListFormat::Wide => {
            let mut out = PlainText(io::BufWriter::new(io::stdout().lock()));
            for diagnostic in &found {
                writeln!(out, "{}", line(diagnostic))?;
            }
            writeln!(out, "{} in {scope}, as {replica} has read it", counts(&found))?;
            out.flush()?;
        }
    }
    let is_clean = found.iter().all(|diagnostic| diagnostic.severity == "note");
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn line(diagnostic: &PageDiagnostic) -> String {
    let PageDiagnostic { severity, origin, code, problem, consequence } = diagnostic;
    format!("{}; {consequence}", diagnostic_text(severity, code, origin, problem))
}

fn counts(found: &[&PageDiagnostic]) -> String {
    let count = |severity: &str| {
        let count = found.iter().filter(|diagnostic| diagnostic.severity == severity).count();
        format!("{count} {severity}{}", if count == 1 { "" } else { "s" })
    };
    ["error", "warning", "note"].map(count).join(", ")
}

#[cfg(test)]
mod tests {
    use fairway_model::Origin;

    use super::*;

    #[test]
    fn diagnostics_are_printed_in_the_format_of_check_and_counted() {
        let diagnostic = |severity: &str| PageDiagnostic {
            severity: severity.to_owned(),
            origin: Origin::object("Ingress", "shop", "web").at("spec.rules[0]"),
            code: "missing-reference".to_owned(),
            problem: "there is no Service".to_owned(),
            consequence: "its paths return 503".to_owned(),
        };
        let [one, other] = ["error", "note"].map(diagnostic);
        assert_eq!(
            line(&one),
            "error[missing-reference]: Ingress shop/web spec.rules[0]: there is no Service; its paths return 503"
        );
        assert_eq!(counts(&[&one, &other, &other]), "1 error, 0 warnings, 2 notes");
    }
}
