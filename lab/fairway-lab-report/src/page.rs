//! The page as a whole: the order of chapters, and the frame with its content security policy. Never a figure itself.

use fairway_lab_measure::results::Results;

use super::builder::PageBuilder;
use super::gather::{Scenario, gather};
use super::glance::{Kind, glance};
use super::html::{Cell, Html, Table};
use super::palette::Palette;
use super::pool::distinct;
use super::{
    capacity, curves, deliveries, effects, errors, figures, findings, headline, moments, number, provenance,
    published,
};

const STYLE: &str = include_str!("page.css");

/// The report of runs, a whole HTML file.
///
/// # Errors
/// The published figures that are part of this program cannot be read.
pub fn page(results: &[Results]) -> anyhow::Result<String> {
    let scenarios = gather(results);
    let mut builder = PageBuilder::new(Palette::of(results));
    opening(results, &scenarios, &mut builder);
    at_a_glance(results, &scenarios, &mut builder);
    for (place, run) in scenarios.iter().enumerate() {
        builder.html.raw("<section class=\"scenario\"").attribute("id", &format!("scenario-{}", place + 1));
        builder.html.raw("><h2>").text(&run.title()).raw("</h2>");
        apart(run, &mut builder);
        scenario(run, &mut builder);
        builder.html.raw("</section>");
    }
    builder.html.raw("<section id=\"published\"><h2>Published figures beside ours</h2>");
    published::chapter(&scenarios, &mut builder)?;
    builder.html.raw("</section>");
    provenance::grounds(results, &mut builder);
    Ok(framed(&builder))
}

/// Why a set of runs is not one with the set before it.
fn apart(run: &Scenario, builder: &mut PageBuilder) {
    if !run.apart.is_empty() {
        builder.html.raw("<div class=\"note\"><b>Why this stands apart.</b> Runs become one set of tables when machine, versions and parameters are the same. Compared with the first set of this scenario:");
        builder.html.list(run.apart.iter().map(String::as_str)).raw("</div>");
    }
}

fn opening(results: &[Results], scenarios: &[Scenario], builder: &mut PageBuilder) {
    builder.html.raw("<header><h1>Ingress controllers, measured</h1></header>");
    builder.html.raw("<p class=\"lead\">The five published benchmarks of ingress controllers, run again by <code>fairway-lab</code>.");
    let machines = results.iter().map(|one| (&one.environment.cpu, one.environment.cpus));
    for (cpu, cpus) in distinct(machines) {
        let own = results.iter().filter(|one| (&one.environment.cpu, one.environment.cpus) == (cpu, cpus));
        let begun = own.map(|one| {
            let when = one.begun.replace('T', " ").replace('Z', " UTC");
            format!("{when} ({})", number::duration(one.seconds))
        });
        let text = format!(" Measured on {cpu}, {cpus} CPUs: {}.", begun.collect::<Vec<_>>().join("; "));
        builder.html.text(&text);
    }
    builder.html.raw("</p>");
    provenance::partial(results, builder);
    if results.is_empty() {
        builder.note("There are no results in this report.");
    }
    builder.html.raw("<nav aria-label=\"Contents\"><a href=\"#glance\">At a glance</a>");
    for (place, run) in scenarios.iter().enumerate() {
        builder.html.raw("<a").attribute("href", &format!("#scenario-{}", place + 1)).raw(">");
        builder.html.text(&run.title()).raw("</a>");
    }
    builder.html.raw("<a href=\"#published\">Published figures</a><a href=\"#grounds\">Machine, versions, configurations</a></nav>");
}

fn at_a_glance(results: &[Results], scenarios: &[Scenario], builder: &mut PageBuilder) {
    builder.html.raw("<section id=\"glance\"><h2>At a glance</h2><h3>Ratios</h3>");
    headline::ratios(scenarios, builder);
    let glance = glance(&scenarios.iter().collect::<Vec<_>>(), &builder.palette);
    let mut columns = vec![String::new()];
    columns.extend(glance.peers.iter().map(|peer| format!("#{peer}")));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("Main figures; recommended settings where nothing else is said", &columns);
    // The ratios stand above, with more to them.
    for row in glance.rows.into_iter().filter(|row| row.kind != Kind::Ratio) {
        table.group(&row.place);
        let figure = [Cell::Text(row.figure)];
        table.row(figure.into_iter().chain(row.cells.into_iter().map(Cell::Number)).collect());
    }
    if !table.is_empty() {
        builder.html.raw("<h3>Main figures</h3><div class=\"glance\">");
        builder.table(&table);
        builder.html.raw("</div>");
    }
    if results.iter().any(|one| !one.absent.is_empty()) {
        builder.html.raw("<h3>Absent</h3>");
        provenance::absent(results, builder);
    }
    let limitations = distinct(results.iter().flat_map(|one| &one.limitations));
    if !limitations.is_empty() {
        builder.html.raw("<h3>Before you believe a figure</h3>");
        builder.html.list(limitations.into_iter().map(String::as_str));
    }
    builder.html.raw("</section>");
}

fn scenario(run: &Scenario, builder: &mut PageBuilder) {
    builder.html.element("<p class=\"lead\">", &run.question.purpose, "</p>");
    provenance::parameters(run, builder);
    figures::table(run, builder);
    capacity::by_workers(run, builder);
    moments::over_time(run, builder);
    effects::spikes(run, builder);
    effects::propagation(run, builder);
    findings::table(run, builder);
    curves::curves(run, builder);
    provenance::notes(run, builder);
    errors::table(run, builder);
    deliveries::table(run, builder);
    provenance::discarded(run, builder);
    provenance::generator(run, builder);
}

fn framed(builder: &PageBuilder) -> String {
    let mut head = Html::default();
    head.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    head.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'\">");
    head.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    head.raw(
        "<meta name=\"referrer\" content=\"no-referrer\"><meta name=\"color-scheme\" content=\"light dark\">",
    );
    head.raw("<link rel=\"icon\" href=\"data:,\"><title>fairway-lab report</title><style>").raw(STYLE);
    head.raw("</style></head><body><main>").append(&builder.html).raw("</main></body></html>\n");
    head.into_text()
}
