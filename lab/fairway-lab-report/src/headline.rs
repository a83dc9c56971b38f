//! What stands first: ratios with their intervals, the noise of the machine, and a sentence for each that claims no more
//! than the interval does.

use fairway_lab_measure::results::{Distance, ENOUGH_PAIRS, Ratio, Settings};

use super::builder::PageBuilder;
use super::gather::Scenario;
use super::number;
use super::peers::FAIRWAY;
use super::pool::{distinct, in_case};
use super::table::{Cell, Table};

/// Whether it stands on fewer pairs than a finding takes. Files of before this was counted say what they said.
fn has_too_few(ratio: &Ratio) -> bool {
    ratio.grounds.coverage.is_some() && ratio.pairs < ENOUGH_PAIRS
}

/// Whether the interval includes 1 as it is printed: what reads 1.00 is not said to be another value.
fn includes_one((low, high): (f64, f64)) -> bool {
    low < 1.005 && high >= 0.995
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
                && (noise.settings, noise.workers) == (ratio.settings, ratio.workers)
                && noise.grounds.distance == ratio.grounds.distance
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

/// What may be said of a ratio, given all ratios of its run.
fn text(ratio: &Ratio, all: &[Ratio]) -> &'static str {
    let (low, high) = ratio.interval;
    let finite = [ratio.median, low, high].iter().all(|value| value.is_finite());
    if is_noise(ratio) {
        return "noise";
    } else if has_too_few(ratio) {
        return "too few pairs";
    } else if !finite || includes_one(ratio.interval) {
        return "no difference: interval includes 1";
    } else if is_within_noise(ratio, all) {
        return "no difference: within the noise";
    }
    match (lower_is_better(&ratio.figure), ratio.median < 1.0) {
        (Some(lower), is_lower) if lower == is_lower => "better",
        (Some(_), _) => "worse",
        (None, true) => "lower",
        (None, false) => "higher",
    }
}

/// The tables of all ratios: one for each figure and case.
pub(super) fn ratios(scenarios: &[Scenario], builder: &mut PageBuilder<'_>) {
    if scenarios.iter().all(|run| run.ratios.is_empty()) {
        builder.note("This run made no pairs of blocks, so there are no ratios: figures of different peers below were measured at different times, and small differences mean nothing.");
        return;
    }
    builder.reading("Blocks of two peers alternate (A B B A), and each block with those of the base with the same settings on both sides of it gives one ratio, if the CPUs were equally far apart in all of them; one core and two cores have tables of their own. A pair is set aside where the machine changed its speed: the two blocks of the base differ by more than a fifth, or the pair differs by more than a fifth from the one before and the one after. The last column is the median with those pairs. The interval is made of order statistics, and what it covers is beside it; with fewer than 15 pairs the table says so instead. (Files of older runs have bootstrap intervals.) The bar is that interval on a logarithmic axis with the ends that stand above it; the line in its middle is 1. A/A compares a peer with itself: differences within that interval are noise of the machine.");
    for run in scenarios {
        let mut order: Vec<&Ratio> = run.ratios.iter().collect();
        order.sort_by_key(|ratio| (ratio.settings, is_noise(ratio), builder.palette.place(&ratio.peer)));
        let what =
            |ratio: &Ratio| (ratio.figure.clone(), ratio.case.clone(), ratio.workers, ratio.grounds.distance);
        for (figure, case, workers, distance) in distinct(run.ratios.iter().map(what)) {
            let of = |ratio: &&&Ratio| what(ratio) == (figure.clone(), case.clone(), workers, distance);
            let own: Vec<&Ratio> = order.iter().filter(of).copied().collect();
            let caption = format!("{figure}, {}{}", in_case(run, &case, workers), state(distance));
            one_figure(&caption, &own, &run.ratios, builder);
        }
    }
}

fn one_figure(caption: &str, own: &[&Ratio], all: &[Ratio], builder: &mut PageBuilder<'_>) {
    let reach = reach(own);
    let axis = format!("{} – 1 – {}", number::ratio((-reach).exp2()), number::ratio(reach.exp2()));
    let bases = distinct(own.iter().filter(|ratio| !is_noise(ratio)).map(|ratio| &ratio.base));
    let whose = match bases.as_slice() {
        [base] => format!("peer ÷ {base}"),
        _ => "peer ÷ base".to_owned(),
    };
    let mut table =
        Table::new(caption, &[&whose, "#median ×", "#interval", &axis, "says", "#pairs", "#median of all"]);
    for ratio in own {
        let note = match ratio.settings {
            _ if is_noise(ratio) => "A/A".to_owned(),
            _ if bases.len() > 1 => format!("÷ {}", ratio.base),
            Settings::Defaults => "defaults".to_owned(),
            Settings::Recommended => String::new(),
        };
        let class = builder.palette.class(&ratio.peer);
        table.row(vec![
            Cell::Peer { name: ratio.peer.clone(), class, note },
            Cell::Number(number::ratio(ratio.median)),
            Cell::Number(interval(ratio)),
            bar(ratio, reach, class),
            Cell::Text(text(ratio, all).to_owned()),
            Cell::Number(pairs(ratio)),
            Cell::Number(number::maybe(ratio.grounds.median_of_all.filter(|_| ratio.set_aside > 0))),
        ]);
    }
    builder.table(table);
}

/// `5`, or `3 of 5` where the machine changed its speed around the others.
fn pairs(ratio: &Ratio) -> String {
    match ratio.set_aside {
        0 => ratio.pairs.to_string(),
        aside => format!("{} of {}", ratio.pairs, ratio.pairs + aside),
    }
}

/// How far the axis of the bars reaches to both sides of 1, in doublings.
fn reach(ratios: &[&Ratio]) -> f64 {
    let ends = ratios.iter().flat_map(|ratio| [ratio.interval.0, ratio.interval.1, ratio.median]);
    let drawable = ends.filter(|value| value.is_finite() && *value > 0.0);
    let furthest = drawable.map(|value| value.log2().abs()).fold(0.0, f64::max);
    [0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0].into_iter().find(|reach| *reach >= furthest).unwrap_or(6.0)
}

/// `1.02 – 1.31`, with what it covers, or what is missing for one.
pub(super) fn interval(ratio: &Ratio) -> String {
    let ends = format!("{} – {}", number::ratio(ratio.interval.0), number::ratio(ratio.interval.1));
    match ratio.grounds.coverage {
        _ if has_too_few(ratio) => "too few".to_owned(),
        Some(coverage) => format!("{ends} ({:.1}%)", coverage * 100.0),
        None => ends,
    }
}

/// Where the CPUs were, after a caption.
fn state(distance: Option<Distance>) -> &'static str {
    match distance {
        Some(Distance::OneCore) => ", CPUs on one core",
        Some(Distance::TwoCores) => ", CPUs on two cores",
        Some(Distance::Unknown) | None => "",
    }
}

/// The interval as a bar around the line of 1.
fn bar(ratio: &Ratio, reach: f64, class: &'static str) -> Cell {
    let (low, high) = ratio.interval;
    if ![ratio.median, low, high].iter().all(|value| value.is_finite() && *value > 0.0) {
        return Cell::Text(String::new());
    }
    let place =
        |value: f64| ((60.0 + value.log2().clamp(-reach, reach) / reach * 56.0) * 10.0).round() / 10.0;
    let width = (place(high) - place(low)).max(1.5);
    Cell::Interval { class, from: place(low), width, median: place(ratio.median) - 1.25 }
}

/// The ratios of some settings against Fairway.
pub(super) fn with_settings(all: &[Ratio], settings: Settings) -> impl Iterator<Item = &Ratio> {
    all.iter().filter(move |ratio| ratio.settings == settings && ratio.base == FAIRWAY)
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
            set_aside: 0,
            grounds: fairway_lab_measure::results::Grounds::default(),
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
        let text: Vec<&str> = all.iter().map(|ratio| text(ratio, &all)).collect();
        assert_eq!(text[0], "worse");
        assert!(text[1].contains("interval includes 1"));
        assert!(text[2].contains("within the noise"));
        assert!(text[3].contains("no difference"));
        assert_eq!(text[4], "better");
        assert!(text[5].starts_with("noise"));
        assert!(includes_one((0.81, 0.998)) && !includes_one((0.81, 0.99)));
        let with_defaults = |ratio: &Ratio| Ratio { settings: Settings::Defaults, ..ratio.clone() };
        let noise = Ratio { interval: (0.99, 1.01), ..with_defaults(&all[5]) };
        let both = [all.to_vec(), vec![with_defaults(&all[2]), noise]].concat();
        assert!(super::text(&both[2], &both).contains("within the noise"), "of the same settings");
        assert_eq!(super::text(&both[6], &both), "worse", "the noise of other settings says nothing");
    }

    #[test]
    fn it_is_known_which_figures_are_better_when_lower() {
        let known =
            ["cpu per request", "p99", "p99.9", "requests/s", "requests per cpu-second", "Gbps", "colour"];
        let lower = known.map(lower_is_better);
        assert_eq!(lower, [Some(true), Some(true), Some(true), Some(false), Some(false), Some(false), None]);
    }
}
