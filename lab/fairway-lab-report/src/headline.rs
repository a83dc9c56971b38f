//! What stands first: ratios with their intervals, the noise of the machine, and a sentence for each that claims no more
//! than the interval does.

use fairway_lab_measure::results::{Distance, ENOUGH_PAIRS, Ratio, Settings};
use minijinja::{Value, context};

use super::gather::{Scenario, distinct};
use super::number;
use super::palette::{FAIRWAY, Palette};
use super::pool::in_case;

/// Whether it stands on fewer pairs than a finding takes.
fn has_too_few(ratio: &Ratio) -> bool {
    ratio.pairs < ENOUGH_PAIRS
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
    // Of the figures that are compared, only a lower CPU per request is the better one.
    let lower_is_better = ratio.figure.to_lowercase().starts_with("cpu");
    if lower_is_better == (ratio.median < 1.0) { "better" } else { "worse" }
}

/// The tables of all ratios: one for each figure and case.
pub(super) fn ratios(run: &Scenario, palette: &Palette) -> Vec<Value> {
    let mut order: Vec<&Ratio> = run.ratios.iter().collect();
    order.sort_by_key(|ratio| (ratio.settings, is_noise(ratio), palette.place(&ratio.peer)));
    let what =
        |ratio: &Ratio| (ratio.figure.clone(), ratio.case.clone(), ratio.workers, ratio.grounds.distance);
    let compared = |(figure, case, workers, distance): (String, String, Option<u32>, Option<Distance>)| {
        let of = |ratio: &&&Ratio| what(ratio) == (figure.clone(), case.clone(), workers, distance);
        let own: Vec<&Ratio> = order.iter().filter(of).copied().collect();
        let caption = format!("{figure}, {}{}", in_case(run, &case, workers), state(distance));
        one_figure(caption, &own, &run.ratios)
    };
    distinct(run.ratios.iter().map(what)).into_iter().map(compared).collect()
}

fn one_figure(caption: String, own: &[&Ratio], all: &[Ratio]) -> Value {
    let reach = reach(own);
    let axis = format!("{} – 1 – {}", number::ratio((-reach).exp2()), number::ratio(reach.exp2()));
    let bases = distinct(own.iter().filter(|ratio| !is_noise(ratio)).map(|ratio| &ratio.base));
    let whose = match bases.as_slice() {
        [base] => format!("peer ÷ {base}"),
        _ => "peer ÷ base".to_owned(),
    };
    let note = |ratio: &Ratio| match ratio.settings {
        _ if is_noise(ratio) => "A/A".to_owned(),
        _ if bases.len() > 1 => format!("÷ {}", ratio.base),
        Settings::Defaults => "defaults".to_owned(),
        Settings::Recommended => String::new(),
    };
    let row = |ratio: &&Ratio| {
        context! {
            peer => &ratio.peer,
            note => note(ratio),
            median => ratio.median,
            interval => interval(ratio),
            bar => bar(ratio, reach),
            says => text(ratio, all),
            pairs => pairs(ratio),
            of_all => ratio.grounds.median_of_all.filter(|_| ratio.set_aside > 0),
        }
    };
    context! { caption, whose, axis, rows => own.iter().map(row).collect::<Vec<_>>() }
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

fn bar(ratio: &Ratio, reach: f64) -> Option<Value> {
    let (low, high) = ratio.interval;
    if ![ratio.median, low, high].iter().all(|value| value.is_finite() && *value > 0.0) {
        return None;
    }
    let place =
        |value: f64| ((60.0 + value.log2().clamp(-reach, reach) / reach * 56.0) * 10.0).round() / 10.0;
    let width = (place(high) - place(low)).max(1.5);
    Some(context! { from => place(low), width, median => place(ratio.median) - 1.25 })
}

/// The ratios of some settings against Fairway.
pub(super) fn with_settings(all: &[Ratio], settings: Settings) -> impl Iterator<Item = &Ratio> {
    all.iter().filter(move |ratio| ratio.settings == settings && ratio.base == FAIRWAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(peer: &str, median: f64, interval: (f64, f64)) -> Ratio {
        let ratio = serde_json::json!({
            "figure": "cpu per request", "case": "https-1k", "peer": peer, "settings": "recommended", "base": "fairway",
            "workers": 1, "median": 1.0, "interval": [1.0, 1.0], "pairs": 20,
        });
        Ratio { median, interval, ..serde_json::from_value(ratio).unwrap() }
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
        let rate = Ratio { figure: "requests/s".to_owned(), ..all[0].clone() };
        assert_eq!(super::text(&rate, &all), "better");
        assert!(includes_one((0.81, 0.998)) && !includes_one((0.81, 0.99)));
        let with_defaults = |ratio: &Ratio| Ratio { settings: Settings::Defaults, ..ratio.clone() };
        let noise = Ratio { interval: (0.99, 1.01), ..with_defaults(&all[5]) };
        let both = [all.to_vec(), vec![with_defaults(&all[2]), noise]].concat();
        assert!(super::text(&both[2], &both).contains("within the noise"), "of the same settings");
        assert_eq!(super::text(&both[6], &both), "worse", "the noise of other settings says nothing");
    }
}
