//! The page as a whole: the order of chapters, and the frame with its content security policy. Never a figure itself.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use fairway_lab_results::{Results, Run};

use super::bars::{COST, bars};
use super::builder::PageBuilder;
use super::glance::{Kind, glance};
use super::html::{Cell, Html, Table};
use super::palette::Palette;
use super::{
    capacity, curves, deliveries, effects, errors, figures, headline, moments, number, provenance, published,
    stretch, verdict,
};

const STYLE: &str = include_str!("page.css");
const PLOT: &str = include_str!("plot.js");
const SCRIPT: &str = include_str!("page.js");
/// The order of scenarios; others follow as they come.
const SCENARIOS: [&str; 5] = ["dynamic", "capacity", "comparison", "timeline", "propagation"];

/// The report of runs, a whole HTML file.
///
/// # Errors
/// The published figures that are part of this program cannot be read.
pub fn page(results: &[Results]) -> anyhow::Result<String> {
    let mut builder = PageBuilder::new(Palette::of(results));
    opening(results, &mut builder);
    verdict::chapter(results, &mut builder)?;
    for (at, one) in results.iter().enumerate() {
        at_a_glance(at, results.len(), one, &mut builder);
    }
    for (place, (at, run)) in in_order(results).into_iter().enumerate() {
        builder.html.raw("<section class=\"scenario\"").attribute("id", &format!("scenario-{}", place + 1));
        builder.html.raw("><h2>").text(&run.scenario).text(&of_run(at, results.len())).raw("</h2>");
        scenario(run, &mut builder);
        builder.html.raw("</section>");
    }
    builder.html.raw("<section id=\"published\"><h2>Published figures beside ours</h2>");
    published::chapter(results, &mut builder)?;
    builder.html.raw("</section>");
    for (at, one) in results.iter().enumerate() {
        grounds(at, results.len(), one, &mut builder);
    }
    Ok(framed(builder))
}

fn in_order(results: &[Results]) -> Vec<(usize, &Run)> {
    let all = results.iter().enumerate().flat_map(|(at, one)| one.runs.iter().map(move |run| (at, run)));
    let mut all: Vec<(usize, &Run)> = all.collect();
    all.sort_by_key(|(_, run)| {
        SCENARIOS.iter().position(|known| *known == run.scenario).unwrap_or(SCENARIOS.len())
    });
    all
}

fn of_run(at: usize, runs: usize) -> String {
    if runs > 1 { format!(", run {}", at + 1) } else { String::new() }
}

fn opening(results: &[Results], builder: &mut PageBuilder) {
    builder.html.raw("<header><h1>Ingress controllers, measured</h1><button type=\"button\" id=\"theme\" hidden>Dark</button></header>");
    builder.html.raw("<p class=\"lead\">The five published benchmarks of ingress controllers, run again by <code>fairway-lab</code>.");
    for (at, one) in results.iter().enumerate() {
        let environment = &one.environment;
        let text = format!(
            " Begun {}{}, on {}, {} CPUs; it took {}.",
            one.begun.replace('T', " ").replace('Z', " UTC"),
            of_run(at, results.len()),
            environment.cpu,
            environment.cpus,
            number::duration(one.seconds)
        );
        builder.html.text(&text);
    }
    builder.html.raw("</p>");
    provenance::partial(results, builder);
    if results.is_empty() {
        builder.note("There are no results in this report.");
    }
    builder.html.raw("<nav aria-label=\"Contents\"><a href=\"#answer\">The answer</a><a href=\"#glance-1\">At a glance</a>");
    for (place, (at, run)) in in_order(results).into_iter().enumerate() {
        builder.html.raw("<a").attribute("href", &format!("#scenario-{}", place + 1)).raw(">");
        builder.html.text(&format!("{}{}", run.scenario, of_run(at, results.len()))).raw("</a>");
    }
    builder.html.raw("<a href=\"#published\">Published figures</a><a href=\"#grounds-1\">Machine, versions, configurations</a></nav>");
}

fn at_a_glance(at: usize, runs: usize, results: &Results, builder: &mut PageBuilder) {
    builder.html.raw("<section").attribute("id", &format!("glance-{}", at + 1)).raw("><h2>At a glance");
    builder.html.text(&of_run(at, runs)).raw("</h2><h3>Ratios</h3>");
    headline::ratios(results, builder);
    let glance = glance(results, &builder.palette);
    let mut columns = vec![String::new()];
    columns.extend(glance.peers.iter().map(|peer| format!("#{peer}")));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("Main figures, recommended settings", &columns);
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
    if !results.absent.is_empty() {
        builder.html.raw("<h3>Absent</h3>");
        provenance::absent(results, builder);
    }
    if !results.limitations.is_empty() {
        builder.html.raw("<h3>Before you believe a figure</h3>");
        builder.html.list(results.limitations.iter().map(String::as_str));
    }
    builder.html.raw("</section>");
}

fn scenario(run: &Run, builder: &mut PageBuilder) {
    builder.html.element("<p class=\"lead\">", &run.purpose, "</p>");
    provenance::parameters(run, builder);
    figures::table(run, builder);
    stretch::table(run, builder);
    capacity::by_workers(run, builder);
    moments::over_time(run, builder);
    effects::spikes(run, builder);
    effects::propagation(run, builder);
    curves::curves(run, builder);
    bars(&COST, run, builder);
    provenance::notes(run, builder);
    errors::table(run, builder);
    deliveries::table(run, builder);
    provenance::discarded(run, builder);
    provenance::generator(run, builder);
}

fn grounds(at: usize, runs: usize, results: &Results, builder: &mut PageBuilder) {
    builder
        .html
        .raw("<section")
        .attribute("id", &format!("grounds-{}", at + 1))
        .raw("><h2>Machine, versions, configurations");
    builder.html.text(&of_run(at, runs)).raw("</h2>");
    provenance::environment(results, builder);
    builder.html.raw("<h3>Peers</h3>");
    provenance::peers(results, builder);
    builder.html.raw("<h3>Absent</h3>");
    provenance::absent(results, builder);
    builder.html.raw("<h3>Limitations</h3>");
    builder.html.list(results.limitations.iter().map(String::as_str)).raw("</section>");
}

/// The scripts, as they stand in the file.
fn script() -> String {
    format!("{PLOT}\n{SCRIPT}")
}

fn framed(builder: PageBuilder) -> String {
    let (body, figures) = builder.closed();
    let script = script();
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(digest(&SHA256, text.as_bytes())));
    let policy = format!(
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src {}; script-src {}",
        hash(STYLE),
        hash(&script)
    );
    let mut head = Html::default();
    head.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    head.raw("<meta http-equiv=\"Content-Security-Policy\"").attribute("content", &policy).raw(">");
    head.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    head.raw(
        "<meta name=\"referrer\" content=\"no-referrer\"><meta name=\"color-scheme\" content=\"light dark\">",
    );
    head.raw("<link rel=\"icon\" href=\"data:,\"><title>fairway-lab report</title><style>").embedded(STYLE);
    head.raw("</style></head><body><main>");
    let mut text = head.into_text();
    text.push_str(&body);
    let mut tail = Html::default();
    // In a script element `<` could end it, or begin a comment.
    let json = figures.to_string().replace('<', "\\u003c");
    tail.raw("</main><script type=\"application/json\" id=\"figures\">").embedded(&json);
    tail.raw("</script><script>").embedded(&script).raw("</script></body></html>\n");
    text.push_str(&tail.into_text());
    text
}
