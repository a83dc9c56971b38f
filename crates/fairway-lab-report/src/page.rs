//! The page as a whole: the order of chapters, and the frame with its content security policy. Never a figure itself.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use fairway_lab_results::{Results, Run};

use super::bars::{COST, bars};
use super::book::Book;
use super::glance::{Kind, glance};
use super::html::{Cell, Html, Table};
use super::palette::Palette;
use super::{
    capacity, curves, deliveries, effects, errors, figures, headline, moments, number, provenance, published,
    stretch,
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
    let mut book = Book::new(Palette::of(results));
    opening(results, &mut book);
    for (at, one) in results.iter().enumerate() {
        at_a_glance(at, results.len(), one, &mut book);
    }
    for (place, (at, run)) in in_order(results).into_iter().enumerate() {
        book.html.raw("<section class=\"scenario\"").attribute("id", &format!("scenario-{}", place + 1));
        book.html.raw("><h2>").text(&run.scenario).text(&of_run(at, results.len())).raw("</h2>");
        scenario(run, &mut book);
        book.html.raw("</section>");
    }
    book.html.raw("<section id=\"published\"><h2>Published figures beside ours</h2>");
    published::chapter(results, &mut book)?;
    book.html.raw("</section>");
    for (at, one) in results.iter().enumerate() {
        grounds(at, results.len(), one, &mut book);
    }
    Ok(framed(book))
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

fn opening(results: &[Results], book: &mut Book) {
    book.html.raw("<header><h1>Ingress controllers, measured</h1><button type=\"button\" id=\"theme\" hidden>Dark</button></header>");
    book.html.raw("<p class=\"lead\">The five published benchmarks of ingress controllers, run again by <code>fairway-lab</code>.");
    for (at, one) in results.iter().enumerate() {
        let environment = &one.environment;
        let told = format!(
            " Begun {}{}, on {}, {} CPUs; it took {}.",
            one.begun.replace('T', " ").replace('Z', " UTC"),
            of_run(at, results.len()),
            environment.cpu,
            environment.cpus,
            number::duration(one.seconds)
        );
        book.html.text(&told);
    }
    book.html.raw("</p>");
    provenance::partial(results, book);
    if results.is_empty() {
        book.note("There are no results in this report.");
    }
    book.html.raw("<nav aria-label=\"Contents\"><a href=\"#glance-1\">At a glance</a>");
    for (place, (at, run)) in in_order(results).into_iter().enumerate() {
        book.html.raw("<a").attribute("href", &format!("#scenario-{}", place + 1)).raw(">");
        book.html.text(&format!("{}{}", run.scenario, of_run(at, results.len()))).raw("</a>");
    }
    book.html.raw("<a href=\"#published\">Published figures</a><a href=\"#grounds-1\">Machine, versions, configurations</a></nav>");
}

fn at_a_glance(at: usize, runs: usize, results: &Results, book: &mut Book) {
    book.html.raw("<section").attribute("id", &format!("glance-{}", at + 1)).raw("><h2>At a glance");
    book.html.text(&of_run(at, runs)).raw("</h2><h3>Ratios</h3>");
    headline::ratios(results, book);
    let glance = glance(results, &book.palette);
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
        book.html.raw("<h3>Main figures</h3><div class=\"glance\">");
        book.table(&table);
        book.html.raw("</div>");
    }
    if !results.absent.is_empty() {
        book.html.raw("<h3>Absent</h3>");
        provenance::absent(results, book);
    }
    if !results.limitations.is_empty() {
        book.html.raw("<h3>Before you believe a figure</h3>");
        book.html.list(results.limitations.iter().map(String::as_str));
    }
    book.html.raw("</section>");
}

fn scenario(run: &Run, book: &mut Book) {
    book.html.element("<p class=\"lead\">", &run.purpose, "</p>");
    provenance::parameters(run, book);
    figures::table(run, book);
    stretch::table(run, book);
    capacity::by_workers(run, book);
    moments::over_time(run, book);
    effects::spikes(run, book);
    effects::propagation(run, book);
    curves::curves(run, book);
    bars(&COST, run, book);
    provenance::notes(run, book);
    errors::table(run, book);
    deliveries::table(run, book);
    provenance::discarded(run, book);
    provenance::generator(run, book);
}

fn grounds(at: usize, runs: usize, results: &Results, book: &mut Book) {
    book.html
        .raw("<section")
        .attribute("id", &format!("grounds-{}", at + 1))
        .raw("><h2>Machine, versions, configurations");
    book.html.text(&of_run(at, runs)).raw("</h2>");
    provenance::environment(results, book);
    book.html.raw("<h3>Peers</h3>");
    provenance::peers(results, book);
    book.html.raw("<h3>Absent</h3>");
    provenance::absent(results, book);
    book.html.raw("<h3>Limitations</h3>");
    book.html.list(results.limitations.iter().map(String::as_str)).raw("</section>");
}

/// The scripts, as they stand in the file.
fn script() -> String {
    format!("{PLOT}\n{SCRIPT}")
}

fn framed(book: Book) -> String {
    let (body, figures) = book.closed();
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
