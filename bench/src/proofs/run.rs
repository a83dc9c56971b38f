//! Runs a proof to its end or until a signal and prints the results. Dropping a proof stops every process it started.

use std::time::Duration;

use fairway_testkit::proof::churn::{Churn, ChurnFindings, Swing};
use fairway_testkit::proof::delays::Delays;
use fairway_testkit::proof::kill::{ClientView, Cut};
use fairway_testkit::proof::routes::{self, Kind, Routes, Shape, Source};
use fairway_testkit::proof::steadiness::Steadiness;
use fairway_testkit::proof::traffic::{Load, Progress};
use fairway_testkit::proof::{changes as change, kill as cut, steadiness};
use serde::Serialize;

use super::arguments::{ChangesArguments, ChurnArguments, KillArguments, ScaleArguments};
use super::outcome::ProofReport;
use crate::interrupt;

/// Maximum p99 time until every worker serves a changed file, milliseconds.
const VISIBLE_MS: f64 = 20.0;
/// Maximum p99 time from the event of a change in one of 10,000 Ingresses to its adoption, milliseconds.
const ADOPTED_MS: f64 = 5.0;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

type Rows = Vec<(String, String)>;

/// Requests while endpoints come and go.
pub(crate) fn churn(arguments: &ChurnArguments) -> anyhow::Result<()> {
    let binary = arguments.place.binary()?;
    let schemes = &arguments.over;
    let load = Load {
        requests: arguments.requests / schemes.len() as u64,
        connections: arguments.connections.into(),
        posts: arguments.posts,
        fresh: arguments.fresh,
    };
    let swing = if arguments.zone { Swing::Zone } else { Swing::Oldest };
    let churn = Churn { binary: binary.clone(), load, every: arguments.every, swing };
    let mut runs = Vec::new();
    for scheme in schemes {
        let progress = Progress::default();
        let label = format!("churn {scheme:?}");
        runs.push(to_the_end(churn.run(*scheme, &progress), || {
            format!("{label}: {} requests", progress.begun())
        })?);
    }
    let rows = runs.iter().flat_map(churn_rows).collect::<Rows>();
    let broken = runs.iter().flat_map(ChurnFindings::broken_promises).collect();
    ProofReport::new(&binary, runs, broken)?.conclude(&rows, &arguments.place.file("churn"))
}

fn churn_rows(run: &ChurnFindings) -> Rows {
    let ChurnFindings { tally, deliveries, swings, counted, seconds, .. } = run;
    let row = |name: &str, value: String| (format!("{:?} {name}", run.scheme), value);
    vec![
        row("GET answered", tally.gets.answered.to_string()),
        row("GET failed", format!("{} {:?}", tally.gets.unanswered(), tally.gets.failed)),
        row("GET delivered again (retries)", deliveries.gets_again.to_string()),
        row("POST answered", tally.posts.answered.to_string()),
        row("POST delivered twice", format!("{} {:?}", deliveries.posts_again, deliveries.examples)),
        row(
            "POST written to a dying backend",
            format!("{} ({} by the proxy)", tally.posts.lost(), counted.lost),
        ),
        row("POST failed", format!("{} {:?}", tally.posts.unanswered(), tally.posts.failed)),
        row("client connections", tally.connections.to_string()),
        row("latency", in_words(&tally.latency)),
        row("endpoint changes", format!("{swings:?}")),
        row("proxy", format!("{counted:?}")),
        row("seconds", format!("{seconds:.1}")),
    ]
}

#[derive(Serialize)]
struct Changes {
    visible: Delays,
    steadiness: Steadiness,
}

/// Time until changes are served, and the connections they close.
pub(crate) fn changes(arguments: &ChangesArguments) -> anyhow::Result<()> {
    let binary = arguments.place.binary()?;
    let (count, each) = (arguments.count as usize, arguments.of_each_kind as usize);
    let visible = to_the_end(change::visible(&binary, count), || format!("{count} changes of a route"))?;
    let steadiness =
        to_the_end(steadiness::steady(&binary, each), || format!("{each} changes of each kind under load"))?;
    let rows = vec![
        ("file renamed -> served on every connection".to_owned(), in_words(&visible)),
        ("route, certificate, settings changes under load".to_owned(), format!("{each} each")),
        ("connections open meanwhile".to_owned(), steadiness.connections.to_string()),
        ("requests answered on them".to_owned(), steadiness.answered.to_string()),
        ("connections closed by Fairway".to_owned(), steadiness.closed.to_string()),
        ("wrong answers".to_owned(), steadiness.wrong.to_string()),
    ];
    let mut broken = Vec::new();
    if visible.p99_ms > VISIBLE_MS {
        broken.push(format!("served after {:.1} ms (p99), not within {VISIBLE_MS} ms", visible.p99_ms));
    }
    if steadiness.closed + steadiness.wrong > 0 {
        broken.push(format!("{} connections closed, {} wrong answers", steadiness.closed, steadiness.wrong));
    }
    ProofReport::new(&binary, Changes { visible, steadiness }, broken)?
        .conclude(&rows, &arguments.place.file("changes"))
}

#[derive(Serialize)]
struct Scale {
    ingresses: usize,
    #[serde(flatten)]
    found: Routes,
}

/// The cost of many objects.
pub(crate) fn scale(arguments: &ScaleArguments) -> anyhow::Result<()> {
    let binary = arguments.place.binary()?;
    let (ingresses, changes) = (arguments.ingresses as usize, arguments.changes as usize);
    let shape = Shape { routes: ingresses, hosts: ingresses, endpoints: ingresses };
    let found =
        to_the_end(routes::measure(&binary, Kind::Ingress, Source::Directory, shape, changes), || {
            format!("{ingresses} Ingresses, {changes} changes")
        })?;
    let rows = vec![
        ("Ingresses, with a Service and a slice each".to_owned(), ingresses.to_string()),
        ("start -> ready".to_owned(), format!("{:.2} s", found.ready_seconds)),
        (
            "resident memory, after all changes".to_owned(),
            format!("{:.1} MiB, {:.1} MiB", found.resident_mib, found.resident_after_mib),
        ),
        ("event -> adopted by every worker".to_owned(), in_words(&found.adoption)),
        (
            "file renamed -> served on every connection".to_owned(),
            in_words(&found.visible.unwrap_or_default()),
        ),
    ];
    let late = found.adoption.p99_ms > ADOPTED_MS;
    let broken = late
        .then(|| format!("adopted after {:.1} ms (p99), not within {ADOPTED_MS} ms", found.adoption.p99_ms));
    ProofReport::new(&binary, Scale { ingresses, found }, broken.into_iter().collect())?
        .conclude(&rows, &arguments.place.file("scale"))
}

/// How clients see a killed backend.
pub(crate) fn kill(arguments: &KillArguments) -> anyhow::Result<()> {
    let binary = arguments.place.binary()?;
    let times = arguments.times.into();
    let cuts =
        to_the_end(cut::cut_answers(&binary, times), || format!("{times} kills for each kind of client"))?;
    let rows: Rows = cuts.iter().map(cut_row).collect();
    let short: u64 = cuts.iter().filter_map(|cut| cut.seen.get(&ClientView::ShortSuccess)).sum();
    let broken = (short > 0).then(|| format!("{short} short successes")).into_iter().collect();
    ProofReport::new(&binary, cuts, broken)?.conclude(&rows, &arguments.place.file("kill"))
}

fn cut_row(cut: &Cut) -> (String, String) {
    (format!("{:?} {} {:?}", cut.scheme, cut.version, cut.body), format!("{:?}", cut.seen))
}

fn in_words(delays: &Delays) -> String {
    let Delays { count, p50_ms, p99_ms, max_ms } = delays;
    format!("p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms, max {max_ms:.2} ms of {count}")
}

/// Runs `proof` and shows its progress; a signal ends it early, with all processes it started.
pub(super) fn to_the_end<F: Future>(proof: F, shown: impl Fn() -> String) -> anyhow::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let attended = async {
            let mut silent = Duration::ZERO;
            eprintln!("{}", shown());
            loop {
                tokio::time::sleep(POLL_INTERVAL).await;
                interrupt::check()?;
                silent += POLL_INTERVAL;
                if silent >= PROGRESS_INTERVAL {
                    eprintln!("{}", shown());
                    silent = Duration::ZERO;
                }
            }
        };
        tokio::select! {
            found = proof => Ok(found),
            interrupted = attended => interrupted,
        }
    })
}
