//! Prints a plan as text, and a report as text or as a self-contained HTML page.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use fairway_migrate::{PAGE_STYLE, escape_html};

use crate::explain::Cause;
use crate::plan::Plan;
use crate::probe::PROBE_HEADER;
use crate::report::{Difference, Report};
use crate::session::Pacing;
use crate::side::Target;

/// Number of examples per difference and cause.
const EXAMPLES: usize = 3;
/// Number of hosts that a plan lists.
const MAX_LISTED_HOSTS: usize = 20;

/// Left-aligns the columns, which contain text.
const LEFT_ALIGNED_STYLE: &str = "th:not(:first-child){text-align:left}";

/// Writes what would be sent.
///
/// # Errors
/// Writing to `out` fails.
pub fn write_plan(
    out: &mut impl Write,
    plan: &Plan,
    targets: [&Target; 2],
    pacing: &Pacing,
) -> io::Result<()> {
    let kinds = plan.kinds().into_iter().map(|(kind, count)| match kind.method() {
        Some(method) => format!("{count} {method}"),
        None => format!("{count} TLS handshakes"),
    });
    writeln!(out, "{} probes ({}) to each of", plan.probes.len(), kinds.collect::<Vec<_>>().join(", "))?;
    for target in targets {
        writeln!(out, "  {target} (ports {} and {})", target.address.http, target.address.https)?;
    }
    let seconds = plan.duration(pacing.rate).as_secs_f64().ceil();
    writeln!(
        out,
        "Each is sent twice, and those that differ up to four times more, at {} per second and side with at most {} connections: \
         about {seconds} s. Requests have no body and the header {}: {}. Redirects are not followed.",
        pacing.rate, pacing.connections, PROBE_HEADER.0, PROBE_HEADER.1
    )?;
    let hosts = plan.hosts();
    writeln!(out, "Hosts:")?;
    for (host, count) in hosts.iter().take(MAX_LISTED_HOSTS) {
        writeln!(out, "  {host}: {count}")?;
    }
    if hosts.len() > MAX_LISTED_HOSTS {
        writeln!(out, "  and {} more", hosts.len() - MAX_LISTED_HOSTS)?;
    }
    for skipped in &plan.skipped {
        writeln!(out, "Not sent: {} {}", skipped.count, skipped.why)?;
    }
    Ok(())
}

/// Differences of the same kind and for the same reason.
struct Group<'r> {
    /// The causes, which name different objects.
    causes: BTreeSet<&'r Cause>,
    differences: Vec<&'r Difference>,
}

/// Groups the differences by cause, those with the most probes first. Objects with the same differences form one group.
fn groups(report: &Report) -> Vec<Group<'_>> {
    let mut by_cause: BTreeMap<&Cause, Vec<&Difference>> = BTreeMap::new();
    for difference in &report.differences {
        by_cause.entry(&difference.cause).or_default().push(difference);
    }
    let mut alike: BTreeMap<(&str, BTreeSet<String>), Group<'_>> = BTreeMap::new();
    for (cause, all) in by_cause {
        let cases = all.iter().map(|difference| case(difference)).collect();
        let group = alike.entry((cause.why.as_str(), cases));
        let group = group.or_insert_with(|| Group { causes: BTreeSet::new(), differences: Vec::new() });
        group.causes.insert(cause);
        group.differences.extend(all);
    }
    let mut groups: Vec<_> = alike.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.differences.len()));
    groups
}

impl<'r> Group<'r> {
    /// The probes of each kind of difference.
    fn cases(&self) -> Vec<(String, Vec<&'r Difference>)> {
        let mut cases: BTreeMap<String, Vec<&Difference>> = BTreeMap::new();
        for difference in &self.differences {
            cases.entry(case(difference)).or_default().push(difference);
        }
        cases.into_iter().collect()
    }

    fn diagnostics(&self) -> BTreeSet<&'r str> {
        self.differences.iter().flat_map(|difference| &difference.said).map(String::as_str).collect()
    }

    fn has_changed(&self) -> bool {
        self.differences.iter().any(|difference| difference.changed)
    }

    fn location(&self) -> String {
        let mut objects =
            self.causes.iter().map(|cause| format!("{} {}", cause.object, cause.field).trim_end().to_owned());
        let first = objects.next().unwrap_or_default();
        match objects.count() {
            0 => first,
            1 => format!("{first} and 1 more object"),
            more => format!("{first} and {more} more objects"),
        }
    }

    fn why(&self) -> &'r str {
        self.causes.first().map_or("", |cause| &cause.why)
    }
}

fn case(difference: &Difference) -> String {
    let value = |value: &Option<String>| match value.as_deref() {
        None => "none".to_owned(),
        Some("") => "empty".to_owned(),
        Some(value) => value.to_owned(),
    };
    let also = if difference.also.is_empty() { "" } else { " (and other parts of the response)" };
    format!("{}: {} -> {}{also}", difference.part, value(&difference.from), value(&difference.to))
}

/// The totals as one sentence.
fn summary(report: &Report) -> String {
    let counts = &report.probes;
    let mut text = format!("{} of {} probes got identical responses", counts.identical, counts.compared);
    if counts.different > 0 {
        let causes = groups(report).len();
        let noun = if causes == 1 { "cause" } else { "causes" };
        text += &format!("; {} differ, with {causes} {noun}", counts.different);
    }
    text
}

/// Warnings that come before the differences.
fn warnings(report: &Report) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(why) = &report.partial {
        let Report { probes, .. } = report;
        all.push(format!(
            "PARTIAL: {why}; {} of {} planned probes were compared",
            probes.compared, probes.planned
        ));
    }
    if !report.changed.is_empty() {
        all.push(format!("changed while comparing: {}", report.changed.join(", ")));
    }
    all.extend(report.notes.iter().cloned());
    all
}

fn left_out(report: &Report) -> Option<String> {
    let parts: Vec<_> = report.left_out.iter().map(|(part, count)| format!("{part} ({count})")).collect();
    (!parts.is_empty())
        .then(|| format!("excluded because it changes on its own or is random: {}", parts.join(", ")))
}

fn examples(all: &[&Difference]) -> String {
    let shown = all
        .iter()
        .take(EXAMPLES)
        .map(|difference| difference.probe.to_string())
        .collect::<Vec<_>>()
        .join("; ");
    match all.len().saturating_sub(EXAMPLES) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// Writes the report as text for a terminal.
///
/// # Errors
/// Writing to `out` fails.
pub fn text(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for warning in warnings(report) {
        writeln!(out, "{warning}")?;
    }
    for group in groups(report) {
        let changed = if group.has_changed() { " (it changed while comparing)" } else { "" };
        writeln!(out, "{}{changed}\n  because {}", group.location(), group.why())?;
        for (case, all) in group.cases() {
            writeln!(out, "  {case}\n    {}", examples(&all))?;
        }
        for diagnostic in group.diagnostics() {
            writeln!(out, "  see also {diagnostic}")?;
        }
    }
    if let Some(left_out) = left_out(report) {
        writeln!(out, "{left_out}")?;
    }
    for skipped in &report.skipped {
        writeln!(out, "not sent: {} {}", skipped.count, skipped.why)?;
    }
    writeln!(out, "{} ({} -> {})", summary(report), report.from, report.to)
}

/// Writes the report as one HTML page.
///
/// # Errors
/// Writing to `out` fails.
pub fn html(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let title = format!("{} compared with {}", report.to, report.from);
    writeln!(out, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">")?;
    writeln!(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">")?;
    writeln!(
        out,
        "<title>{}</title>\n<style>{PAGE_STYLE}{LEFT_ALIGNED_STYLE}</style>\n<h1>{}</h1>",
        escape_html(&title),
        escape_html(&title)
    )?;
    writeln!(out, "<p>{}.</p>", escape_html(&summary(report)))?;
    for warning in warnings(report) {
        writeln!(out, "<p><strong>{}</strong></p>", escape_html(&warning))?;
    }
    for group in groups(report) {
        html_group(out, report, &group)?;
    }
    if let Some(left_out) = left_out(report) {
        writeln!(out, "<p>{}.</p>", escape_html(&left_out))?;
    }
    if !report.skipped.is_empty() {
        writeln!(out, "<h2>Not sent</h2>\n<ul>")?;
        for skipped in &report.skipped {
            writeln!(out, "<li>{} {}", skipped.count, escape_html(&skipped.why))?;
        }
        writeln!(out, "</ul>")?;
    }
    writeln!(out, "</html>")
}

fn html_group(out: &mut impl Write, report: &Report, group: &Group<'_>) -> io::Result<()> {
    let changed = if group.has_changed() { " (it changed while comparing)" } else { "" };
    let count = group.differences.len();
    writeln!(
        out,
        "<details open><summary><span class=\"v differs\">{count}</span> <code>{}</code>{changed}</summary>\n<p>{}.</p>",
        escape_html(&group.location()),
        escape_html(group.why())
    )?;
    let (from, to) = (escape_html(&report.from), escape_html(&report.to));
    writeln!(out, "<div class=\"w\"><table>\n<tr><th>part<th>{from}<th>{to}<th>probes")?;
    for (_, all) in group.cases() {
        let Some(one) = all.first() else { continue };
        let value = |value: &Option<String>| value.as_deref().map_or("none".to_owned(), escape_html);
        writeln!(
            out,
            "<tr><td>{}<td><code>{}</code><td><code>{}</code><td>{}",
            escape_html(&one.part.to_string()),
            value(&one.from),
            value(&one.to),
            escape_html(&examples(&all))
        )?;
    }
    writeln!(out, "</table></div>")?;
    for diagnostic in group.diagnostics() {
        writeln!(out, "<p>See also <code>{}</code></p>", escape_html(diagnostic))?;
    }
    writeln!(out, "</details>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Probe, ProbeKind, Purpose, Scheme};
    use crate::report::ProbeCounts;
    use crate::response::Part;

    fn difference(path: &str) -> Difference {
        let host = "a<b>.test".into();
        Difference {
            probe: Probe::request(Scheme::Http, &host, ProbeKind::Get, path, Purpose::Path),
            part: Part::Status,
            from: Some("200".to_owned()),
            to: None,
            also: vec![Part::Body],
            cause: Cause {
                object: "Ingress a/web".to_owned(),
                field: "spec.rules[0]".to_owned(),
                why: "of <this>".to_owned(),
            },
            said: vec!["warned".to_owned()],
            changed: true,
        }
    }

    fn report() -> Report {
        Report {
            from: "one".to_owned(),
            to: "two".to_owned(),
            partial: Some("interrupted".to_owned()),
            probes: ProbeCounts { planned: 9, compared: 8, identical: 3, different: 5, unanswered: 0 },
            differences: ["/1", "/2", "/3", "/4", "/5"].map(difference).into(),
            left_out: [("body".to_owned(), 2)].into(),
            changed: vec!["Ingress a/web".to_owned()],
            notes: Vec::new(),
            skipped: Vec::new(),
        }
    }

    #[test]
    fn text_groups_differences_by_cause_and_marks_partial_reports() {
        let mut out = Vec::new();
        text(&mut out, &report()).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "PARTIAL: interrupted; 8 of 9 planned probes were compared\n\
             changed while comparing: Ingress a/web\n\
             Ingress a/web spec.rules[0] (it changed while comparing)\n  \
             because of <this>\n  \
             status: 200 -> none (and other parts of the response)\n    \
             GET http://a<b>.test/1; GET http://a<b>.test/2; GET http://a<b>.test/3; and 2 more\n  \
             see also warned\n\
             excluded because it changes on its own or is random: body (2)\n\
             3 of 8 probes got identical responses; 5 differ, with 1 cause (one -> two)\n"
        );
    }

    #[test]
    fn the_page_escapes_text_of_objects_and_responses() {
        let mut out = Vec::new();
        html(&mut out, &report()).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(page.contains("of &lt;this&gt;") && page.contains("a&lt;b&gt;.test"), "{page}");
        assert!(!page.contains("<this>") && !page.contains("a<b>"), "{page}");
    }
}
