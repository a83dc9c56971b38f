//! A report for people: as text, as Markdown, and as one HTML page that needs nothing else.

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::report::{Entry, Report, Row, Verdict};
use crate::shared::{Effect, SharedService};

/// Names that are listed one by one.
const MOST_NAMES: usize = 10;

/// Text for a terminal.
///
/// # Errors
/// Those of `out`.
pub fn text(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for entry in report.ingresses.iter().filter(|entry| has_something(entry)) {
        let place = entry.place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
        writeln!(out, "Ingress {}{place}: {}", entry.ingress, entry.verdict.word())?;
        for row in &entry.annotations {
            let why = if row.why.is_empty() { String::new() } else { format!(": {}", row.why) };
            writeln!(out, "  {:<7}  {}{why}", row.verdict.word(), row.annotation)?;
            for (name, value) in &row.instead {
                writeln!(out, "           use  {name}: '{value}'")?;
            }
            for line in &row.without {
                writeln!(out, "           no annotation says: {line}")?;
            }
        }
        for finding in &entry.findings {
            writeln!(
                out,
                "  {:<7}  {}: {}; {}",
                finding.severity, finding.origin.field, finding.problem, finding.consequence
            )?;
        }
        for quirk in &entry.quirks {
            writeln!(out, "  depends  {}: {}", quirk.name, quirk.what)?;
        }
    }
    for it in &report.shared {
        writeln!(out, "{}:", ended(it))?;
        for Effect { on, what } in &it.ended_by_strict {
            writeln!(out, "  shared   {on}: {what}")?;
        }
    }
    if !report.others.is_empty() {
        writeln!(out, "Other objects")?;
    }
    for finding in &report.others {
        writeln!(out, "  {finding}")?;
    }
    writeln!(out, "{}", summary(report))
}

fn has_something(entry: &Entry) -> bool {
    !entry.annotations.is_empty() || !entry.findings.is_empty() || !entry.quirks.is_empty()
}

/// The beginning of what is said of a Service.
fn ended(it: &SharedService) -> String {
    format!(
        "{} is shared by {}; fairway.dev/compat: strict would end this",
        it.service,
        listed(&it.ingresses)
    )
}

fn listed(names: &BTreeSet<String>) -> String {
    let mut list: Vec<&str> = names.iter().take(MOST_NAMES).map(String::as_str).collect();
    let others = counted(names.len() - list.len(), "other", "others");
    if names.len() > MOST_NAMES {
        list.push(&others);
    }
    list.join(", ")
}

/// One sentence.
fn summary(report: &Report) -> String {
    let it = &report.summary;
    let others = match it.of_others {
        0 => String::new(),
        count => format!("; {count} of other controllers"),
    };
    format!(
        "{}: {} same, {} differ, {} refused{others}",
        counted(it.ingresses, "Ingress", "Ingresses"),
        it.same,
        it.differing,
        it.refused
    )
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// Markdown, for a ticket or a pull request.
///
/// # Errors
/// Those of `out`.
pub fn markdown(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "# Moving from ingress-nginx\n\n{}.\n", summary(report))?;
    writeln!(out, "| annotation | same | differs | refused |\n|---|---|---|---|")?;
    for (name, verdicts) in &report.summary.annotations {
        let count = |verdict| verdicts.get(&verdict).copied().unwrap_or(0);
        let [same, differs, refused] = [Verdict::Same, Verdict::Differs, Verdict::Refused].map(count);
        writeln!(out, "| `{name}` | {same} | {differs} | {refused} |")?;
    }
    for entry in report.ingresses.iter().filter(|entry| has_something(entry)) {
        writeln!(out, "\n## {}: {}\n", entry.ingress, entry.verdict.word())?;
        for row in &entry.annotations {
            let why = if row.why.is_empty() { String::new() } else { format!(": {}", row.why) };
            writeln!(out, "* {}: `{}`{why}", row.verdict.word(), row.annotation)?;
            for (name, value) in &row.instead {
                writeln!(out, "  * use `{name}: '{value}'`")?;
            }
            for line in &row.without {
                writeln!(out, "  * no annotation says `{line}`")?;
            }
        }
        for finding in &entry.findings {
            writeln!(
                out,
                "* {}: `{}`: {}; {}",
                finding.severity, finding.origin.field, finding.problem, finding.consequence
            )?;
        }
        for quirk in &entry.quirks {
            writeln!(out, "* depends on *{}*: {}", quirk.name, quirk.what)?;
        }
    }
    for it in &report.shared {
        writeln!(out, "\n## {}\n\n{}:\n", it.service, ended(it))?;
        for Effect { on, what } in &it.ended_by_strict {
            writeln!(out, "* {on}: {what}")?;
        }
    }
    if !report.others.is_empty() {
        writeln!(out, "\n## Other objects\n")?;
    }
    for finding in &report.others {
        writeln!(out, "* {finding}")?;
    }
    Ok(())
}

/// The style of a page; its classes are `v` with `same`, `differs` or `refused`, and `w` around wide tables.
pub const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2430;background:#fff}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #d8dee6;vertical-align:top}\
td.n,th:not(:first-child){text-align:right}code{font:14px ui-monospace,monospace;overflow-wrap:anywhere}\
.v{display:inline-block;min-width:4.5rem;padding:0 .4rem;border-radius:.2rem;font-size:14px;text-align:center}\
.same{background:#dcefe1}.differs{background:#fbeccb}.refused{background:#f6d5d3;font-weight:600}\
details{border:1px solid #d8dee6;border-radius:.3rem;margin:.6rem 0;padding:.4rem .8rem}summary{cursor:pointer}\
ul{margin:.4rem 0;padding-left:1.2rem}.w{overflow-x:auto}\
@media print{details{break-inside:avoid}}@media(prefers-color-scheme:dark){body{background:#14181d;color:#dde3ea}\
th,td,details{border-color:#3a434e}.same{background:#1f4a2c}.differs{background:#584415}.refused{background:#5c2422}}";

/// One page.
///
/// # Errors
/// Those of `out`.
pub fn html(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
    writeln!(out, "<title>Moving from ingress-nginx</title>\n<style>{STYLE}</style>")?;
    writeln!(out, "<h1>Moving from ingress-nginx</h1>\n<p>{}.</p>", escaped(&summary(report)))?;
    writeln!(out, "<div class=\"w\"><table>\n<tr><th>annotation<th>same<th>differs<th>refused")?;
    for (name, verdicts) in &report.summary.annotations {
        let count = |verdict| verdicts.get(&verdict).copied().unwrap_or(0);
        let [same, differs, refused] = [Verdict::Same, Verdict::Differs, Verdict::Refused].map(count);
        writeln!(
            out,
            "<tr><td><code>{}</code><td class=\"n\">{same}<td class=\"n\">{differs}<td class=\"n\">{refused}",
            escaped(name)
        )?;
    }
    writeln!(out, "</table></div>")?;
    for entry in report.ingresses.iter().filter(|entry| has_something(entry)) {
        html_entry(out, entry)?;
    }
    for it in &report.shared {
        writeln!(out, "<h2>{}</h2>\n<p>{}:\n<ul>", escaped(&it.service), escaped(&ended(it)))?;
        for Effect { on, what } in &it.ended_by_strict {
            writeln!(out, "<li>{}: {}", escaped(on), escaped(what))?;
        }
        writeln!(out, "</ul>")?;
    }
    if !report.others.is_empty() {
        writeln!(out, "<h2>Other objects</h2>\n<ul>")?;
        for finding in &report.others {
            writeln!(out, "<li>{}", escaped(&finding.to_string()))?;
        }
        writeln!(out, "</ul>")?;
    }
    writeln!(out, "</html>")
}

fn html_entry(out: &mut impl Write, entry: &Entry) -> io::Result<()> {
    // What needs a decision is open.
    let open = if entry.verdict == Verdict::Same { "" } else { " open" };
    writeln!(
        out,
        "<details{open}><summary>{} {}</summary>\n<ul>",
        badge(entry.verdict),
        escaped(&entry.ingress)
    )?;
    for row in &entry.annotations {
        html_row(out, row)?;
    }
    for it in &entry.findings {
        let verdict = crate::report::verdict_of(it.severity);
        let text = format!("{}; {}", it.problem, it.consequence);
        writeln!(
            out,
            "<li>{} <code>{}</code> {}",
            badge(verdict),
            escaped(&it.origin.field),
            escaped(&text)
        )?;
    }
    for quirk in &entry.quirks {
        writeln!(out, "<li>depends on <em>{}</em>: {}", quirk.name, escaped(&quirk.what))?;
    }
    writeln!(out, "</ul></details>")
}

fn html_row(out: &mut impl Write, row: &Row) -> io::Result<()> {
    writeln!(
        out,
        "<li>{} <code>{}</code> {}",
        badge(row.verdict),
        escaped(&row.annotation),
        escaped(&row.why)
    )?;
    for (name, value) in &row.instead {
        writeln!(out, "<br>use <code>{}: '{}'</code>", escaped(name), escaped(value))?;
    }
    for line in &row.without {
        writeln!(out, "<br>no annotation says <code>{}</code>", escaped(line))?;
    }
    Ok(())
}

fn badge(verdict: Verdict) -> String {
    let word = verdict.word();
    format!("<span class=\"v {word}\">{word}</span>")
}

/// Text of objects, which anybody may have written.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
