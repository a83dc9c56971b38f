//! The page as a whole: the order of its parts, and the template that shows them. Never a figure itself.

use fairway_lab_measure::results::Results;
use minijinja::Environment;
use minijinja::value::Serde;
use serde::Serialize;

use super::builder::{Block, PageBuilder};
use super::gather::{Scenario, gather};
use super::glance::{Kind, glance};
use super::palette::Palette;
use super::pool::distinct;
use super::table::{Cell, Table};
use super::{
    capacity, curves, deliveries, effects, errors, figures, findings, headline, moments, number, provenance,
    published,
};

const STYLE: &str = include_str!("page.css");
const TEMPLATE: &str = include_str!("page.html");

/// What the template shows.
#[derive(Serialize)]
struct Page<'a> {
    style: &'a str,
    machines: Vec<String>,
    partial: Vec<(String, &'a str)>,
    scenarios: Vec<Part<'a>>,
    glance: Vec<Block>,
    published: Vec<Block>,
    grounds: Vec<Block>,
}

/// The part of a scenario.
#[derive(Serialize)]
struct Part<'a> {
    title: String,
    purpose: &'a str,
    /// Why it is not one with the part before it.
    apart: &'a [String],
    blocks: Vec<Block>,
}

/// The report of runs, a whole HTML file.
///
/// # Errors
/// The published figures or the template, which are part of this program, cannot be read.
pub fn page(results: &[Results]) -> anyhow::Result<String> {
    let scenarios = gather(results);
    let palette = Palette::of(results);
    let mut parts = Vec::with_capacity(scenarios.len());
    for run in &scenarios {
        let mut builder = PageBuilder::new(&palette);
        scenario(run, &mut builder);
        let (title, purpose) = (run.title(), run.question.purpose.as_str());
        parts.push(Part { title, purpose, apart: &run.apart, blocks: builder.blocks });
    }
    let mut glance = PageBuilder::new(&palette);
    at_a_glance(results, &scenarios, &mut glance);
    let mut published = PageBuilder::new(&palette);
    published::chapter(&scenarios, &mut published)?;
    let mut grounds = PageBuilder::new(&palette);
    provenance::grounds(results, &mut grounds);
    let mut environment = Environment::new();
    environment.add_template("page.html", TEMPLATE)?;
    let page = Page {
        style: STYLE,
        machines: machines(results),
        partial: provenance::partial(results),
        scenarios: parts,
        glance: glance.blocks,
        published: published.blocks,
        grounds: grounds.blocks,
    };
    Ok(environment.get_template("page.html")?.render(Serde(&page))?)
}

/// What was measured where and when, a sentence for each machine.
fn machines(results: &[Results]) -> Vec<String> {
    let machine = |one: &Results| (one.environment.cpu.clone(), one.environment.cpus);
    let sentence = |(cpu, cpus): (String, u32)| {
        let own = results.iter().filter(|one| machine(one) == (cpu.clone(), cpus));
        let begun = own.map(|one| {
            let when = one.begun.replace('T', " ").replace('Z', " UTC");
            format!("{when} ({})", number::duration(one.seconds))
        });
        format!("Measured on {cpu}, {cpus} CPUs: {}.", begun.collect::<Vec<_>>().join("; "))
    };
    distinct(results.iter().map(machine)).into_iter().map(sentence).collect()
}

fn at_a_glance(results: &[Results], scenarios: &[Scenario], builder: &mut PageBuilder<'_>) {
    builder.heading(3, "Ratios");
    headline::ratios(scenarios, builder);
    let glance = glance(&scenarios.iter().collect::<Vec<_>>(), builder.palette);
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
    builder.heading(3, "Main figures");
    builder.table(table);
    if results.iter().any(|one| !one.absent.is_empty()) {
        builder.heading(3, "Absent");
        provenance::absent(results, builder);
    }
    let limitations = distinct(results.iter().flat_map(|one| &one.limitations));
    builder.list("Before you believe a figure", limitations);
}

fn scenario(run: &Scenario, builder: &mut PageBuilder<'_>) {
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::published::printed;
    use super::*;

    fn leaves(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => fields.values().for_each(|field| leaves(field, found)),
            Value::Array(items) => items.iter().for_each(|item| leaves(item, found)),
            other => found.push(printed(other)),
        }
    }

    #[test]
    fn every_published_figure_is_on_the_page_even_without_a_run_of_ours() {
        let page = page(&[]).unwrap();
        let mut all = Vec::new();
        leaves(&serde_json::from_str(include_str!("../published.json")).unwrap(), &mut all);
        assert!(all.len() > 200, "{}", all.len());
        for leaf in all {
            let escaped = minijinja::HtmlEscape(&leaf).to_string();
            assert!(page.contains(&escaped), "{leaf} is not on the page");
        }
    }
}
