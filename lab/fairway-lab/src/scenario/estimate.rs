//! How long scenarios take, calculated from their parameters and the number of peers. The constants are those of a machine
//! with two cores; a test compares the outcome with runs that were measured. Never runs anything.

use fairway_lab_measure::results::Settings;

use super::catalogue::{Parameters, Scenario};
use crate::peers;
use crate::peers::local::local as local_peer;

/// From the write of a route until it is served: Traefik's pause between two configurations
/// (`providersThrottleDuration`), and the mean of the others.
const TRAEFIK_S: f64 = 2.0;
const OTHERS_S: f64 = 0.06;

/// Seconds that a scenario takes with these peers, each with all settings.
pub(super) fn seconds(scenario: &Scenario, peers: &[String], settings: &[Settings], cpus: usize) -> f64 {
    if let Parameters::Capacity(parameters) = &scenario.parameters {
        let runners = peers.iter().filter(|peer| local_peer(peer).is_ok()).count() * settings.len();
        return parameters.seconds(runners, cpus);
    }
    let each = peers.iter().map(|peer| one(&scenario.parameters, peer));
    each.sum::<f64>() * settings.len() as f64
}

/// With one peer: its streams and what is done around them, which is to install it, wait until it serves, and put it away.
fn one(parameters: &Parameters, peer: &str) -> f64 {
    let pause = if peer == "traefik" { TRAEFIK_S } else { OTHERS_S };
    match parameters {
        Parameters::Capacity(_) => 0.0,
        Parameters::Dynamic(parameters) => 7.0 + parameters.seconds(),
        Parameters::Comparison(parameters) => 8.0 + parameters.seconds(),
        Parameters::Timeline(parameters) => 8.5 + parameters.seconds(),
        Parameters::Propagation(parameters) => 5.0 + parameters.seconds(pause),
        Parameters::Gateway(parameters) => {
            let api = peers::named(peer).ok().and_then(|peer| peer.gateway_api().ok());
            api.map_or(0.0, |api| 8.0 + parameters.seconds(pause, &api))
        }
    }
}

/// A duration for people: `about` belongs before it.
pub(super) fn spoken(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round();
    if seconds < 90.0 {
        format!("{:.0} s", seconds.ceil())
    } else if minutes < 180.0 {
        format!("{minutes:.0} min")
    } else {
        format!("{:.1} h", seconds / 3_600.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue;
    use super::super::definition::{Form, Scaling};
    use super::*;

    fn estimated(names: &[&str], form: Form, set: &[&str], settings: &[Settings]) -> f64 {
        let peers: Vec<_> = peers::all().iter().map(|peer| peer.name().to_owned()).collect();
        assert_eq!(peers.len(), 7);
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let set = set.iter().map(|text| (*text).to_owned()).collect();
        let scenarios = catalogue::named(&names, &Scaling { form, scale: 0.05, set }).unwrap();
        scenarios.iter().map(|scenario| seconds(scenario, &peers, settings, 2)).sum()
    }

    const CLUSTER: [&str; 4] = ["dynamic", "comparison", "timeline", "propagation"];

    #[test]
    fn capacity_as_it_is_published_takes_a_little_more_than_an_hour() {
        let both = [Settings::Recommended, Settings::Defaults];
        let minutes = estimated(&["capacity"], Form::Long, &[], &both) / 60.0;
        assert!((60.0..70.0).contains(&minutes), "{minutes}");
    }

    #[test]
    fn estimates_come_within_a_fifth_of_what_was_measured() {
        // Seconds of runs with seven peers on two cores. `capacity` had seven of the ten cases that it has now.
        let capacity = ["seconds=0.4", "blocks=5", "workers=[1, 2]"];
        let defaults = ["seconds=0.7", "blocks=3", "workers=[1]"];
        for (name, set, measured) in [
            ("dynamic", &[][..], 232.8),
            ("comparison", &[], 326.7),
            ("timeline", &[], 427.7),
            ("propagation", &[], 130.2),
            ("capacity", &capacity, 617.9 / 7.0 * 10.0),
            ("capacity", &defaults, 258.7 / 7.0 * 10.0),
        ] {
            let estimate = estimated(&[name], Form::Quick, set, &[Settings::Recommended]);
            let part = estimate / measured;
            assert!((0.8..1.2).contains(&part), "{name}: {estimate:.0} s instead of {measured:.0} s");
        }
    }

    #[test]
    fn the_forms_fit_into_their_time() {
        let both = [Settings::Recommended, Settings::Defaults];
        let long = 4.0 * estimated(&CLUSTER, Form::Long, &[], &both) / 60.0;
        assert!((110.0..140.0).contains(&long), "make lab-long: {long:.0} min of 150");
        let quick = estimated(&["all"], Form::Quick, &[], &both[..1]) / 60.0;
        assert!((20.0..28.0).contains(&quick), "make lab: {quick:.0} min of 30");
    }

    #[test]
    fn durations_are_said_in_a_unit_that_fits() {
        for (seconds, said) in
            [(0.2, "1 s"), (89.0, "89 s"), (100.0, "2 min"), (7_800.0, "130 min"), (18_000.0, "5.0 h")]
        {
            assert_eq!(spoken(seconds), said);
        }
    }
}
