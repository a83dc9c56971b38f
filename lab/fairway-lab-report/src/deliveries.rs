//! What backends say of requests: which came twice, and which never. A dash where nobody counted, with the reason.

use fairway_lab_measure::results::{Delivered, Deliveries};

use super::builder::PageBuilder;
use super::figures::part;
use super::gather::Scenario;
use super::number;
use super::pool::{Pool, distinct, titled, whole};
use super::table::{Cell, Table};

/// Examples at most; the rest is in `results.json`.
const EXAMPLES: usize = 50;

const COLUMNS: [&str; 9] = [
    "peer",
    "#sent",
    "#POST among them",
    "#seen by a backend",
    "#GET seen twice or more",
    "#POST seen twice or more",
    "#failed, but seen",
    "#failed, never seen",
    "#answered, never seen",
];

/// The table of a run; nothing where no stream had ids.
pub(super) fn table(run: &Scenario, builder: &mut PageBuilder<'_>) {
    if run.measures.iter().all(|measure| measure.backstage.deliveries.is_none()) {
        return;
    }
    builder.heading(4, "Requests as backends saw them");
    builder.reading("Every request that was written carries an id, and backends tell which ids they were given; a request that found no connection is not among them. A GET that came twice was tried again by the proxy, on another endpoint as a rule, which is allowed (RFC 9110 section 9.2.2). A POST that came twice was done twice, which is not: where its client saw a good answer, it is the class duplicated of the errors. What failed but was seen has been done without its client knowing; what failed and was never seen is safe to send again. Answered but never seen must be 0, otherwise the other figures of the row are too low.");
    let mut table = Table::new("Requests as backends saw them", &COLUMNS);
    for pool in whole(run, builder.palette) {
        table.group(&part(&titled(pool.case, pool.workers), pool.settings));
        table.row(row(&pool, builder));
    }
    builder.table(table);
    for note in notes(run) {
        builder.note(&note);
    }
    examples(run, builder);
}

/// Together, if all were counted: a part of them would look like the whole.
fn delivered(pool: &Pool<'_>) -> Option<Delivered> {
    pool.measures.iter().try_fold(Delivered::default(), |sum, measure| match &measure.backstage.deliveries {
        Some(Deliveries::Counted(delivered)) => Some(sum.and(delivered)),
        Some(Deliveries::Uncounted { .. }) | None => None,
    })
}

fn row(pool: &Pool<'_>, builder: &PageBuilder<'_>) -> Vec<Cell> {
    let mut cells = vec![builder.palette.cell(pool.peer, pool.settings)];
    let Some(delivered) = delivered(pool) else {
        cells.extend(COLUMNS[1..].iter().map(|_| Cell::Number(number::UNKNOWN.to_owned())));
        return cells;
    };
    let plain = |count: u64| Cell::Number(number::count(count));
    let bad = |count: u64| if count > 0 { Cell::Bad(number::count(count)) } else { plain(count) };
    cells.extend([delivered.sent, delivered.posts, delivered.seen, delivered.repeated_gets].map(plain));
    let wrong = [delivered.repeated_posts, delivered.failed_seen, delivered.failed_unseen];
    cells.extend(wrong.map(bad));
    cells.push(bad(delivered.answered_unseen));
    cells
}

/// Why something was not counted.
fn notes(run: &Scenario) -> Vec<String> {
    let reasons = run.measures.iter().filter_map(|measure| match &measure.backstage.deliveries {
        Some(Deliveries::Uncounted { reason }) => Some((measure.peer.as_str(), reason.as_str())),
        None => Some((measure.peer.as_str(), "its requests carried no ids")),
        Some(Deliveries::Counted(_)) => None,
    });
    distinct(reasons).into_iter().map(|(peer, reason)| format!("Not counted for {peer}: {reason}.")).collect()
}

fn examples(run: &Scenario, builder: &mut PageBuilder<'_>) {
    let mut table = Table::new("First requests that came twice", &["peer", "case", "phase", "request"]);
    let named = run.measures.iter().filter_map(|measure| match &measure.backstage.deliveries {
        Some(Deliveries::Counted(delivered)) => Some((measure, &delivered.examples)),
        Some(Deliveries::Uncounted { .. }) | None => None,
    });
    let all = named.flat_map(|(measure, examples)| examples.iter().map(move |example| (measure, example)));
    for (measure, example) in all.take(EXAMPLES) {
        table.row(vec![
            builder.palette.cell(&measure.peer, measure.settings),
            Cell::Text(measure.case.clone()),
            Cell::Text(measure.phase.clone()),
            Cell::Text(example.clone()),
        ]);
    }
    if !table.is_empty() {
        builder.folded("First requests that came twice", |builder| builder.table(table));
    }
}
