//! What stands first: ratios with their intervals, the noise of the machine, and a sentence for each that claims no more
//! than the interval does.

use crate::results::{Ratio, Results, Settings};

use super::book::Book;
use super::html::{Cell, Html, Table};
use super::number;
use super::palette::Palette;
use super::pool::{distinct, in_case};

/// What an interval allows to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The interval includes 1, or lies within that of the machine's own noise.
    None,
    /// The peer's figure is the lower one.
    Lower,
    /// The peer's figure is the higher one.
    Higher,
}

/// What may be said of a ratio, given all ratios of its run.
pub(super) fn claim(ratio: &Ratio, all: &[Ratio]) -> Claim {
    let (low, high) = ratio.interval;
    let finite = [ratio.median, low, high].iter().all(|value| value.is_finite());
    if !finite || (low..=high).contains(&1.0) || is_within_noise(ratio, all) {
        Claim::None
    } else if ratio.median < 1.0 {
        Claim::Lower
    } else {
        Claim::Higher
    }
}

/// Whether it is a peer against itself: the noise of the machine.
pub(super) fn is_noise(ratio: &Ratio) -> bool {
    ratio.peer == ratio.base
}

fn is_within_noise(ratio: &Ratio, all: &[Ratio]) -> bool {
    !is_noise(ratio)
        && all.iter().filter(|other| is_noise(other)).any(|noise| {
            noise.figure == ratio.figure
                && noise.case == ratio.case
                && noise.workers == ratio.workers
                && noise.interval.0 <= ratio.median
                && ratio.median <= noise.interval.1
        })
}

/// Whether a lower figure is the better one; none where that is not known.
fn lower_is_better(figure: &str) -> Option<bool> {
    let figure = figure.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| figure.contains(word));
    if has(&["per cpu", "/cpu"]) {
        Some(false)
    } else if has(&["cpu", "latency", "memory", "error", "max", "mean", "context", "propagation"])
        || figure
            .strip_prefix('p')
            .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
    {
        Some(true)
    } else if has(&["/s", "rps", "tps", "bps", "rate", "throughput"]) {
        Some(false)
    } else {
        None
    }
}

/// The claim in words.
pub(super) fn told(ratio: &Ratio, all: &[Ratio]) -> String {
    if is_noise(ratio) {
        return "noise of this machine (A/A)".to_owned();
    }
    let claim = claim(ratio, all);
    let (more, less) = match lower_is_better(&ratio.figure) {
        Some(true) => ("worse", "better"),
        Some(false) => ("better", "worse"),
        None => ("higher", "lower"),
    };
    match claim {
        Claim::None
            if is_within_noise(ratio, all) && !(ratio.interval.0..=ratio.interval.1).contains(&1.0) =>
        {
            "no difference can be claimed: within the noise of the machine".to_owned()
        }
        Claim::None => "no difference can be claimed: the interval includes 1".to_owned(),
        Claim::Higher => format!("{} {more} than {}", ratio.peer, ratio.base),
        Claim::Lower => format!("{} {less} than {}", ratio.peer, ratio.base),
    }
}

/// The tables of all ratios of a run of the laboratory: one for each figure and case.
pub(super) fn ratios(results: &Results, book: &mut Book) {
    if results.runs.iter().all(|run| run.ratios.is_empty()) {
        book.note("This run made no pairs of blocks, so there are no ratios: figures of different peers below were measured at different times, and small differences mean nothing.");
        return;
    }
    book.reading("Blocks of two peers alternate (A B B A), each pair of blocks gives one ratio, and the table has the median of the pairs with its 95% bootstrap interval. The bar is that interval on a logarithmic axis from ¼ to 4; the line in its middle is 1. A/A compares a peer with itself: differences within that interval are noise of the machine.");
    book.html.raw("<div class=\"ratios\">");
    for run in &results.runs {
        let mut order: Vec<&Ratio> = run.ratios.iter().collect();
        order.sort_by_key(|ratio| (ratio.settings, is_noise(ratio), book.palette.place(&ratio.peer)));
        for (figure, case, workers) in
            distinct(run.ratios.iter().map(|ratio| (&ratio.figure, &ratio.case, ratio.workers)))
        {
            let caption = format!("{figure}, {}", in_case(run, case, workers));
            let mut table = Table::new(
                &caption,
                &["peer ÷ base", "#median ×", "#95% interval", "¼ – 1 – 4", "#pairs", "says"],
            );
            for ratio in order
                .iter()
                .filter(|ratio| (&ratio.figure, &ratio.case, ratio.workers) == (figure, case, workers))
            {
                table.row(row(ratio, &run.ratios, &book.palette));
            }
            book.table(&table);
        }
    }
    book.html.raw("</div>");
}

fn row(ratio: &Ratio, all: &[Ratio], palette: &Palette) -> Vec<Cell> {
    let mut peers = palette.cell(&ratio.peer, ratio.settings);
    peers.raw(" ÷ ").text(&ratio.base);
    if is_noise(ratio) {
        peers.raw(" <small>A/A</small>");
    }
    vec![
        Cell::Markup(peers),
        Cell::Number(number::ratio(ratio.median)),
        Cell::Number(interval(ratio)),
        Cell::Markup(bar(ratio, palette)),
        Cell::Number(ratio.pairs.to_string()),
        Cell::Text(told(ratio, all)),
    ]
}

/// `1.02 – 1.31`.
pub(super) fn interval(ratio: &Ratio) -> String {
    format!("{} – {}", number::ratio(ratio.interval.0), number::ratio(ratio.interval.1))
}

/// The interval as a bar around the line of 1.
fn bar(ratio: &Ratio, palette: &Palette) -> Html {
    let mut html = Html::default();
    let (low, high) = ratio.interval;
    if ![ratio.median, low, high].iter().all(|value| value.is_finite() && *value > 0.0) {
        return html;
    }
    let place = |value: f64| 90.0 + value.log2().clamp(-2.0, 2.0) * 43.0;
    html.raw("<svg class=\"interval ")
        .raw(palette.class(&ratio.peer))
        .raw("\" viewBox=\"0 0 180 14\" aria-hidden=\"true\">");
    html.raw("<line class=\"grid\" x1=\"90\" x2=\"90\" y1=\"-5\" y2=\"19\"/><rect y=\"4\" height=\"6\" rx=\"2\" x=\"");
    html.number(place(low)).raw("\" width=\"").number((place(high) - place(low)).max(1.5));
    html.raw("\"/><circle cy=\"7\" r=\"3\" cx=\"").number(place(ratio.median)).raw("\"/></svg>");
    html
}

/// The ratios of recommended settings against Fairway.
pub(super) fn against_fairway(all: &[Ratio]) -> impl Iterator<Item = &Ratio> {
    all.iter()
        .filter(|ratio| ratio.settings == Settings::Recommended && ratio.base == super::palette::FAIRWAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(peer: &str, median: f64, interval: (f64, f64)) -> Ratio {
        Ratio {
            figure: "cpu per request".to_owned(),
            case: "https-1k".to_owned(),
            peer: peer.to_owned(),
            settings: Settings::Recommended,
            base: "fairway".to_owned(),
            workers: Some(1),
            median,
            interval,
            pairs: 8,
        }
    }

    #[test]
    fn nothing_is_claimed_when_the_interval_includes_one_or_lies_in_the_noise() {
        let noise = ratio("fairway", 1.0, (0.95, 1.06));
        let all = [
            ratio("envoy", 1.3, (1.2, 1.4)),
            ratio("traefik", 1.2, (0.9, 1.4)),
            ratio("haproxy", 1.03, (1.01, 1.05)),
            ratio("caddy", f64::NAN, (f64::NAN, f64::NAN)),
            ratio("nginx-reload", 0.8, (0.7, 0.9)),
            noise,
        ];
        let told: Vec<String> = all.iter().map(|ratio| told(ratio, &all)).collect();
        assert_eq!(told[0], "envoy worse than fairway");
        assert!(told[1].contains("the interval includes 1"));
        assert!(told[2].contains("within the noise"));
        assert!(told[3].contains("no difference can be claimed"));
        assert_eq!(told[4], "nginx-reload better than fairway");
        assert!(told[5].starts_with("noise of this machine"));
    }

    #[test]
    fn it_is_known_which_figures_are_better_when_lower() {
        let known =
            ["cpu per request", "p99", "p99.9", "requests/s", "requests per cpu-second", "Gbps", "colour"];
        let lower = known.map(lower_is_better);
        assert_eq!(lower, [Some(true), Some(true), Some(true), Some(false), Some(false), Some(false), None]);
    }
}
