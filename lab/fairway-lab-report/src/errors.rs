//! Errors by class, with the words that wrk2, hey and vegeta have for each. Zeros of the classes that the papers count
//! are shown too: none is a finding.

use std::collections::BTreeSet;

use fairway_lab_measure::results::Class;

use super::builder::PageBuilder;
use super::figures::part;
use super::gather::Scenario;
use super::number;
use super::pool::{Pool, titled, whole};
use super::table::{Cell, Table};

/// Shown even where nobody had one.
const ALWAYS: [Class; 5] =
    [Class::ConnectRefused, Class::ConnectTimeout, Class::ReadReset, Class::ReadEof, Class::HeadTimeout];

/// The word of wrk and wrk2 for a class: a counter of their line `Socket errors`, or `Non-2xx or 3xx`.
fn wrk2(class: Class) -> &'static str {
    match class {
        Class::ConnectRefused | Class::ConnectReset | Class::ConnectOther | Class::Tls => "connect",
        Class::ConnectTimeout | Class::TlsTimeout | Class::HeadTimeout | Class::BodyTimeout => "timeout",
        Class::Write => "write",
        Class::ReadReset | Class::ReadEof | Class::Truncated | Class::Malformed => "read",
        Class::Status(status) if status >= 400 => "Non-2xx or 3xx",
        Class::Status(_) | Class::WrongRoute | Class::Duplicated | Class::NotSent => "not seen",
    }
}

/// hey's: a line of one of its two distributions.
fn hey(class: Class) -> String {
    match class {
        Class::Status(status) => format!("[{status}]"),
        Class::WrongRoute | Class::Duplicated | Class::NotSent => "not seen".to_owned(),
        Class::ConnectRefused => "connection refused".to_owned(),
        Class::ConnectTimeout | Class::TlsTimeout | Class::HeadTimeout | Class::BodyTimeout => {
            "timeout".to_owned()
        }
        Class::ReadReset | Class::ConnectReset => "connection reset by peer".to_owned(),
        Class::ReadEof => "EOF".to_owned(),
        Class::Truncated => "unexpected EOF".to_owned(),
        _ => "its error".to_owned(),
    }
}

/// vegeta's: a status code, 0 for those without an answer, and the error set.
fn vegeta(class: Class) -> String {
    match class {
        Class::Status(status) => status.to_string(),
        Class::WrongRoute | Class::Duplicated | Class::NotSent => "not seen".to_owned(),
        Class::Truncated | Class::BodyTimeout => "200, Error Set".to_owned(),
        _ => "0, Error Set".to_owned(),
    }
}

/// The table of a run, and the first examples.
pub(super) fn table(run: &Scenario, builder: &mut PageBuilder<'_>) {
    let pools = whole(run, builder.palette);
    if pools.is_empty() {
        return;
    }
    let mut classes: BTreeSet<Class> = ALWAYS.into();
    classes.extend(pools.iter().flat_map(|pool| pool.errors().into_keys()));
    let named = |first: &str, word: &dyn Fn(Class) -> String| {
        let mut row = vec![first.to_owned()];
        row.extend(classes.iter().map(|class| format!("#{}", word(*class))));
        row
    };
    builder.heading(4, "Errors by class");
    builder.reading("Every request that did not end as expected, once, in the class that says how. The second to fourth lines of the head are where wrk2, hey and vegeta would count it; what they would not see at all is said so. not-sent is the generator's own lateness and not the peer's failure.");
    let columns = named("peer", &Class::name);
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("Errors by class", &columns);
    table.head(named("in wrk2's Socket errors", &|class| wrk2(class).to_owned()));
    table.head(named("in hey's distributions of errors and status codes", &hey));
    table.head(named("in vegeta's Status Codes", &vegeta));
    for pool in &pools {
        table.group(&part(&titled(pool.case, pool.workers), pool.settings));
        table.row(row(pool, &classes, builder));
    }
    builder.table(table);
    examples(run, builder);
}

fn row(pool: &Pool<'_>, classes: &BTreeSet<Class>, builder: &PageBuilder<'_>) -> Vec<Cell> {
    let errors = pool.errors();
    let mut cells = vec![builder.palette.cell(pool.peer, pool.settings)];
    cells.extend(classes.iter().map(|class| match errors.get(class) {
        Some(count) if *count > 0 => Cell::Bad(number::count(*count)),
        _ => Cell::Number("0".to_owned()),
    }));
    cells
}

/// Rows of examples at most; the rest is in `results.json`.
const EXAMPLES: usize = 200;

fn examples(run: &Scenario, builder: &mut PageBuilder<'_>) {
    let mut table =
        Table::new("First examples", &["peer", "case", "phase", "class", "#due at s", "#after ms", "text"]);
    let all = run.measures.iter().flat_map(|one| one.load.examples.iter().map(move |example| (one, example)));
    for (measure, example) in all.take(EXAMPLES) {
        table.row(vec![
            builder.palette.cell(&measure.peer, measure.settings),
            Cell::Text(measure.case.clone()),
            Cell::Text(measure.phase.clone()),
            Cell::Text(example.class.name()),
            Cell::Number(number::figure(example.at_s)),
            Cell::Number(number::figure(example.after_ms)),
            Cell::Text(example.text.clone()),
        ]);
    }
    if !table.is_empty() {
        builder.folded("First examples of errors", |builder| builder.table(table));
    }
}
