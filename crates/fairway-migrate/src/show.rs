//! Prints a report as text, Markdown or a self-contained HTML page.

use std::collections::BTreeSet;
use std::io::{self, Write};

use fairway_model::on_one_line;
use fairway_objects::diagnostic::{Diagnostic, Severity};

use crate::report::{AnnotationReport, IngressReport, Report, Verdict, verdict_of};
use crate::shared::{Effect, SharedService};

/// Maximum number of names that are listed.
const MAX_LISTED_NAMES: usize = 10;

/// The columns of the annotation table.
const VERDICT_COLUMNS: [Verdict; 4] = [Verdict::Same, Verdict::Differs, Verdict::Refused, Verdict::Unknown];

/// Writes the report as text for a terminal.
///
/// # Errors
/// Writing to `out` fails.
pub fn text(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for entry in report.ingresses.iter().filter(|entry| has_something(entry)) {
        let location = entry.place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
        writeln!(out, "Ingress {}{location}: {}", entry.ingress, entry.verdict.word())?;
        for row in &entry.annotations {
            let why = if row.why.is_empty() { String::new() } else { format!(": {}", row.why) };
            let text = on_one_line(&format!("{}{why}", row.annotation));
            writeln!(out, "  {:<7}  {text}", row.verdict.word())?;
            for (name, value) in &row.instead {
                writeln!(out, "           use  {name}: '{}'", on_one_line(value))?;
            }
            for (line, hint) in &row.hints {
                writeln!(out, "           {}: {hint}", on_one_line(line))?;
            }
            for line in &row.without {
                writeln!(out, "           no annotation says: {}", on_one_line(line))?;
            }
        }
        for finding in &entry.findings {
            let Diagnostic { origin, problem, consequence, .. } = finding;
            let text = on_one_line(&format!("{}: {problem}; {consequence}", origin.field));
            writeln!(out, "  {:<7}  {text}", word(finding))?;
        }
        for quirk in &entry.quirks {
            writeln!(out, "  depends  {}: {}", quirk.name, on_one_line(&quirk.what))?;
        }
    }
    for it in &report.shared {
        writeln!(out, "{}:", on_one_line(&strict_heading(it)))?;
        for Effect { on, what } in &it.ended_by_strict {
            writeln!(out, "  shared   {on}: {}", on_one_line(what))?;
        }
    }
    if !report.others.is_empty() {
        writeln!(out, "Other objects")?;
    }
    for finding in &report.others {
        writeln!(out, "  {}", of_other(finding))?;
    }
    writeln!(out, "{}", summary(report))
}

/// The diagnostic of another object: one line, followed by the replacement manifest if its consequence has one.
fn of_other(finding: &Diagnostic) -> String {
    let Diagnostic { severity, code, origin, problem, consequence } = finding;
    let line = on_one_line(&format!("{severity}[{code}]: {origin}: {problem}"));
    format!("{line}; {consequence}")
}

/// The severity of a finding, or `unknown`.
fn word(finding: &Diagnostic) -> &'static str {
    match finding.severity {
        _ if verdict_of(finding) == Verdict::Unknown => Verdict::Unknown.word(),
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

fn has_something(entry: &IngressReport) -> bool {
    !entry.annotations.is_empty() || !entry.findings.is_empty() || !entry.quirks.is_empty()
}

/// The heading for a shared Service.
fn strict_heading(it: &SharedService) -> String {
    format!(
        "{} is shared by {}; fairway.dev/compat: strict would end this",
        it.service,
        list_names(&it.ingresses)
    )
}

fn list_names(names: &BTreeSet<String>) -> String {
    let mut list: Vec<&str> = names.iter().take(MAX_LISTED_NAMES).map(String::as_str).collect();
    let others = count_noun(names.len() - list.len(), "other", "others");
    if names.len() > MAX_LISTED_NAMES {
        list.push(&others);
    }
    list.join(", ")
}

/// The totals as one sentence.
fn summary(report: &Report) -> String {
    let it = &report.summary;
    let others = match it.of_others {
        0 => String::new(),
        count => format!("; {count} of other controllers"),
    };
    let unknown: Vec<_> = it
        .unknown_without
        .iter()
        .map(|(kind, count)| format!("{} unknown without {kind}", count_noun(*count, "finding", "findings")))
        .collect();
    let unknown = if unknown.is_empty() { String::new() } else { format!("; {}", unknown.join(", ")) };
    format!(
        "{}: {} same, {} differ, {} refused{others}{unknown}",
        count_noun(it.ingresses, "Ingress", "Ingresses"),
        it.same,
        it.differing,
        it.refused
    )
}

fn count_noun(count: usize, singular: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { several })
}

/// Writes the report as Markdown, for a ticket or a pull request.
///
/// # Errors
/// Writing to `out` fails.
pub fn markdown(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "# Moving from ingress-nginx\n\n{}.\n", summary(report))?;
    writeln!(out, "| annotation | same | differs | refused | unknown |\n|---|---|---|---|---|")?;
    for (name, verdicts) in &report.summary.annotations {
        let count = |verdict| verdicts.get(&verdict).copied().unwrap_or(0);
        let [same, differs, refused, unknown] = VERDICT_COLUMNS.map(count);
        // A bar ends a cell even inside code.
        let name = code_span(name).replace('|', "\\|");
        writeln!(out, "| {name} | {same} | {differs} | {refused} | {unknown} |")?;
    }
    for entry in report.ingresses.iter().filter(|entry| has_something(entry)) {
        writeln!(out, "\n## {}: {}\n", escape_markdown(&entry.ingress), entry.verdict.word())?;
        for row in &entry.annotations {
            let why =
                if row.why.is_empty() { String::new() } else { format!(": {}", escape_markdown(&row.why)) };
            writeln!(out, "* {}: {}{why}", row.verdict.word(), code_span(&row.annotation))?;
            for (name, value) in &row.instead {
                writeln!(out, "  * use {}", code_span(&format!("{name}: '{value}'")))?;
            }
            for (line, hint) in &row.hints {
                writeln!(out, "  * {}: {}", code_span(line), escape_markdown(hint))?;
            }
            for line in &row.without {
                writeln!(out, "  * no annotation says {}", code_span(line))?;
            }
        }
        for finding in &entry.findings {
            let Diagnostic { origin, problem, consequence, .. } = finding;
            let text = format!("{problem}; {consequence}");
            writeln!(out, "* {}: {}: {}", word(finding), code_span(&origin.field), escape_markdown(&text))?;
        }
        for quirk in &entry.quirks {
            writeln!(out, "* depends on *{}*: {}", quirk.name, escape_markdown(&quirk.what))?;
        }
    }
    for it in &report.shared {
        writeln!(
            out,
            "\n## {}\n\n{}:\n",
            escape_markdown(&it.service),
            escape_markdown(&strict_heading(it))
        )?;
        for Effect { on, what } in &it.ended_by_strict {
            writeln!(out, "* {}: {}", escape_markdown(on), escape_markdown(what))?;
        }
    }
    if !report.others.is_empty() {
        writeln!(out, "\n## Other objects\n")?;
    }
    for finding in &report.others {
        markdown_other(out, &of_other(finding))?;
    }
    Ok(())
}

/// Writes the diagnostic of another object, with the lines after the first as code.
fn markdown_other(out: &mut impl Write, text: &str) -> io::Result<()> {
    let (first, manifest) = text.split_once('\n').unwrap_or((text, ""));
    writeln!(out, "* {}", escape_markdown(first))?;
    if !manifest.is_empty() {
        writeln!(out)?;
    }
    for line in manifest.lines() {
        // Lines that are indented four columns more than the item's text are code (CommonMark 0.31.2 §4.4).
        writeln!(out, "      {}", on_one_line(line))?;
    }
    Ok(())
}

/// Escapes text of objects for Markdown and keeps it on one line.
fn escape_markdown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in on_one_line(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '[' | '|' | '<') {
            shown.push('\\');
        }
        shown.push(c);
    }
    shown
}

/// Text of objects as a code span, with a fence longer than any run of backticks in it (CommonMark 0.31.2 §6.1).
fn code_span(text: &str) -> String {
    let text = on_one_line(text);
    let limit = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(limit + 1);
    // One space at each end is stripped with the fence.
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// The style sheet of a page. Class `v` marks verdicts, class `w` wraps wide tables.
pub const PAGE_STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2430;background:#fff}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #d8dee6;vertical-align:top}\
td.n,th:not(:first-child){text-align:right}code{font:14px ui-monospace,monospace;overflow-wrap:anywhere}\
.v{display:inline-block;min-width:4.5rem;padding:0 .4rem;border-radius:.2rem;font-size:14px;text-align:center}\
.same{background:#dcefe1}.differs{background:#fbeccb}.refused{background:#f6d5d3;font-weight:600}.unknown{background:#e3e7ec}\
details{border:1px solid #d8dee6;border-radius:.3rem;margin:.6rem 0;padding:.4rem .8rem}summary{cursor:pointer}\
ul{margin:.4rem 0;padding-left:1.2rem}.w{overflow-x:auto}\
@media print{details{break-inside:avoid}}@media(prefers-color-scheme:dark){body{background:#14181d;color:#dde3ea}\
th,td,details{border-color:#3a434e}.same{background:#1f4a2c}.differs{background:#584415}.refused{background:#5c2422}.unknown{background:#39424d}}";

/// Writes the report as one HTML page.
///
/// # Errors
/// Writing to `out` fails.
pub fn html(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
    writeln!(out, "<title>Moving from ingress-nginx</title>\n<style>{PAGE_STYLE}</style>")?;
    writeln!(out, "<h1>Moving from ingress-nginx</h1>\n<p>{}.</p>", escape_html(&summary(report)))?;
    writeln!(out, "<div class=\"w\"><table>\n<tr><th>annotation<th>same<th>differs<th>refused<th>unknown")?;
    for (name, verdicts) in &report.summary.annotations {
        let count = |verdict| verdicts.get(&verdict).copied().unwrap_or(0);
        let [same, differs, refused, unknown] = VERDICT_COLUMNS.map(count);
        writeln!(
            out,
            "<tr><td><code>{}</code><td class=\"n\">{same}<td class=\"n\">{differs}<td class=\"n\">{refused}\
             <td class=\"n\">{unknown}",
            escape_html(name)
        )?;
    }
    writeln!(out, "</table></div>")?;
    for entry in report.ingresses.iter().filter(|entry| has_something(entry)) {
        html_entry(out, entry)?;
    }
    for it in &report.shared {
        writeln!(
            out,
            "<h2>{}</h2>\n<p>{}:\n<ul>",
            escape_html(&it.service),
            escape_html(&strict_heading(it))
        )?;
        for Effect { on, what } in &it.ended_by_strict {
            writeln!(out, "<li>{}: {}", escape_html(on), escape_html(what))?;
        }
        writeln!(out, "</ul>")?;
    }
    if !report.others.is_empty() {
        writeln!(out, "<h2>Other objects</h2>\n<ul>")?;
        for finding in &report.others {
            writeln!(out, "<li>{}", escape_html(&finding.to_string()))?;
        }
        writeln!(out, "</ul>")?;
    }
    writeln!(out, "</html>")
}

fn html_entry(out: &mut impl Write, entry: &IngressReport) -> io::Result<()> {
    // Entries that need a decision are open.
    let open = if entry.verdict == Verdict::Same { "" } else { " open" };
    writeln!(
        out,
        "<details{open}><summary>{} {}</summary>\n<ul>",
        badge(entry.verdict),
        escape_html(&entry.ingress)
    )?;
    for row in &entry.annotations {
        html_row(out, row)?;
    }
    for it in &entry.findings {
        let verdict = verdict_of(it);
        let text = format!("{}; {}", it.problem, it.consequence);
        writeln!(
            out,
            "<li>{} <code>{}</code> {}",
            badge(verdict),
            escape_html(&it.origin.field),
            escape_html(&text)
        )?;
    }
    for quirk in &entry.quirks {
        writeln!(out, "<li>depends on <em>{}</em>: {}", quirk.name, escape_html(&quirk.what))?;
    }
    writeln!(out, "</ul></details>")
}

fn html_row(out: &mut impl Write, row: &AnnotationReport) -> io::Result<()> {
    writeln!(
        out,
        "<li>{} <code>{}</code> {}",
        badge(row.verdict),
        escape_html(&row.annotation),
        escape_html(&row.why)
    )?;
    for (name, value) in &row.instead {
        writeln!(out, "<br>use <code>{}: '{}'</code>", escape_html(name), escape_html(value))?;
    }
    for (line, hint) in &row.hints {
        writeln!(out, "<br><code>{}</code>: {}", escape_html(line), escape_html(hint))?;
    }
    for line in &row.without {
        writeln!(out, "<br>no annotation says <code>{}</code>", escape_html(line))?;
    }
    Ok(())
}

fn badge(verdict: Verdict) -> String {
    let word = verdict.word();
    format!("<span class=\"v {word}\">{word}</span>")
}

/// Escapes untrusted text of objects for HTML.
#[must_use]
pub fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fairway_model::Origin;

    use super::*;
    use crate::report::Summary;

    /// Untrusted text.
    const WILD: &str = "a|b `c` <b>d</b>\n# e";

    /// A report on an Ingress with that text in all its fields.
    fn report() -> Report {
        let origin = Origin::object("Ingress", "shop", "web").at(WILD);
        let finding = Diagnostic::new(Severity::Warning, "invalid", origin).because(WILD, "it stays");
        let row = AnnotationReport {
            annotation: WILD.to_owned(),
            value: String::new(),
            verdict: Verdict::Refused,
            why: WILD.to_owned(),
            instead: vec![("fairway.dev/deny".to_owned(), "``".to_owned())],
            hints: vec![("error_page `404`\n/".to_owned(), "use default-backend".to_owned())],
            without: vec!["`return`".to_owned()],
        };
        let entry = IngressReport {
            ingress: "shop/web".to_owned(),
            place: None,
            verdict: Verdict::Refused,
            annotations: vec![row],
            quirks: Vec::new(),
            findings: vec![finding],
        };
        let annotations = BTreeMap::from([(WILD.to_owned(), BTreeMap::from([(Verdict::Refused, 1)]))]);
        let summary = Summary { ingresses: 1, refused: 1, annotations, ..Summary::default() };
        Report { summary, ingresses: vec![entry], shared: Vec::new(), others: Vec::new() }
    }

    #[test]
    fn text_of_objects_cannot_break_a_line() {
        let mut out = Vec::new();
        text(&mut out, &report()).unwrap();
        let hostile = "a|b `c` <b>d</b>?# e";
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!(
                "Ingress shop/web: refused\n  refused  {hostile}: {hostile}\n           use  fairway.dev/deny: '``'\n           \
                 error_page `404`?/: use default-backend\n           no annotation says: `return`\n  warning  {hostile}: {hostile}; it stays\n\
                 1 Ingress: 0 same, 0 differ, 1 refused\n"
            )
        );
    }

    #[test]
    fn markdown_shows_text_of_objects_unchanged() {
        let mut out = Vec::new();
        markdown(&mut out, &report()).unwrap();
        let (code, prose) = ("``a|b `c` <b>d</b>?# e``", r"a\|b \`c\` \<b>d\</b>?# e");
        let cell = code.replace('|', r"\|");
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!(
                "# Moving from ingress-nginx\n\n1 Ingress: 0 same, 0 differ, 1 refused.\n\n\
                 | annotation | same | differs | refused | unknown |\n|---|---|---|---|---|\n\
                 | {cell} | 0 | 0 | 1 | 0 |\n\n## shop/web: refused\n\n\
                 * refused: {code}: {prose}\n  * use ```fairway.dev/deny: '``'```\n  * ``error_page `404`?/``: use default-backend\n  \
                 * no annotation says `` `return` ``\n\
                 * warning: {code}: {prose}; it stays\n"
            )
        );
    }

    #[test]
    fn a_manifest_in_markdown_is_code_that_its_text_cannot_end() {
        let mut out = Vec::new();
        markdown_other(&mut out, "note: *.a.test is old:\nspec:\n  a: \"\r# b\"").unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "* note: \\*.a.test is old:\n\n      spec:\n        a: \"?# b\"\n"
        );
    }
}
