//! What the measurements have in common: their figures in the results, and how long objects take.

use super::super::propagation::OBJECT_S;
use super::super::running_peer::RunningPeer;
use fairway_lab_results::Finding;

/// How long so many objects take that are made and removed again, seconds.
pub(super) fn objects_s(count: u32) -> f64 {
    2.0 * f64::from(count) * OBJECT_S
}

/// A figure of a contender.
pub(super) fn finding(
    running: &RunningPeer<'_>,
    case: &str,
    (figure, unit): (&str, &str),
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
