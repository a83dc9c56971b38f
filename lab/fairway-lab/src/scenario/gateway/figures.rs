//! Shared parts of the measurements: their figures in the results, the time objects take, and the sampling of many objects.

use fairway_lab_measure::results::Finding;

use super::super::running_peer::RunningPeer;

/// A figure of a contender.
pub(super) fn finding(
    running: &RunningPeer<'_>,
    case: &str,
    figure: &str,
    unit: &str,
    value: f64,
) -> Finding {
    Finding {
        peer: running.contender.peer.name().to_owned(),
        settings: running.contender.settings,
        case: case.to_owned(),
        figure: figure.to_owned(),
        unit: unit.to_owned(),
        value,
    }
}

/// At most this many of them, evenly spread.
pub(super) fn sample<T>(all: &[T], limit: usize) -> Vec<&T> {
    all.iter().step_by(all.len().div_ceil(limit).max(1)).collect()
}

/// How many of the sampled ones were not served.
pub(super) fn not_served(
    running: &RunningPeer<'_>,
    case: &str,
    what: &str,
    unserved: usize,
    asked: usize,
) -> Finding {
    finding(running, case, &format!("of {asked} {what}, not served"), "", unserved as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_evenly_spread_and_bounded() {
        assert_eq!(sample(&[1, 2, 3], 5), [&1, &2, &3]);
        assert_eq!(sample(&[1, 2, 3, 4, 5], 2), [&1, &4]);
        assert!(sample::<u8>(&[], 2).is_empty());
    }
}
