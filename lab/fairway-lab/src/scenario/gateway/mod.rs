//! `gateway-api`: the seven measurements of gateway-api-bench, for peers that support the Gateway API. Each creates its
//! objects, measures, and removes them; a failure is recorded and the next one follows.

mod apps;
mod attached;
mod costs;
mod failover;
mod figures;
mod flipping_endpoint;
mod routes;
mod scale;
mod sets;
mod traffic;

use std::time::Duration;

use fairway_lab_measure::results::Run;
use serde::Deserialize;

use super::disk_reserve::is_full;
use super::running_peer::{RunningPeer, Sizes};
use super::site::{NAMESPACE, OTHER};

/// Its parameters; the file explains them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Parameters {
    measurements: Vec<Measurement>,
    attached: attached::Parameters,
    propagation: routes::Added,
    changes: routes::Changed,
    scale: scale::Parameters,
    traffic: traffic::Parameters,
    listener_sets: sets::Parameters,
    share: f64,
    failover: failover::Parameters,
    #[serde(rename = "patience_s")]
    patience_s: f64,
    #[serde(rename = "proxy_replicas")]
    proxy_replicas: u32,
    workers: u32,
}

/// One of the seven measurements.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Measurement {
    Attached,
    Propagation,
    Changes,
    Scale,
    Traffic,
    ListenerSets,
    Failover,
}

impl Measurement {
    /// Its name in the file.
    fn name(self) -> &'static str {
        match self {
            Self::Attached => "attached",
            Self::Propagation => "propagation",
            Self::Changes => "changes",
            Self::Scale => "scale",
            Self::Traffic => "traffic",
            Self::ListenerSets => "listener-sets",
            Self::Failover => "failover",
        }
    }
}

/// The number of endpoints of the streams' route and of the many Services.
const BACKENDS: u32 = 3;

impl Parameters {
    pub(super) fn sizes(&self) -> Sizes {
        Sizes { proxies: self.proxy_replicas, workers: self.workers, backends: BACKENDS }
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.patience_s)
    }
}

/// All measurements with one contender.
pub(super) async fn run(
    running: &mut RunningPeer<'_>,
    parameters: &Parameters,
    run: &mut Run,
) -> anyhow::Result<()> {
    running.cluster.scale(NAMESPACE, OTHER, 1).await?;
    running.cluster.wait_until_settled(NAMESPACE, OTHER).await?;
    for measurement in &parameters.measurements {
        let name = running.contender.peer.name();
        running.progress.say(&format!("{name}: {}", measurement.name()));
        if let Err(error) = run_one(running, *measurement, parameters, run).await {
            // The disk is full for the next measurement as well.
            if is_full(&error) {
                return Err(error);
            }
            running.add_note(&format!("{} failed: {error:#}", measurement.name()));
        }
    }
    Ok(())
}

async fn run_one(
    running: &mut RunningPeer<'_>,
    measurement: Measurement,
    parameters: &Parameters,
    run: &mut Run,
) -> anyhow::Result<()> {
    let patience = parameters.timeout();
    match measurement {
        Measurement::Attached => attached::run(running, parameters.attached, patience, run).await,
        Measurement::Propagation => routes::one_by_one(running, parameters.propagation, patience, run).await,
        Measurement::Changes => routes::change_routes(running, parameters.changes, patience, run).await,
        Measurement::Scale => scale::run(running, parameters.scale, patience, run).await,
        Measurement::Traffic => traffic::run(running, &parameters.traffic, run).await,
        Measurement::ListenerSets => {
            if running.contender.peer.gateway_api().is_ok_and(|api| api.listener_sets) {
                let sized = parameters.listener_sets.with_share(parameters.share);
                return sets::run(running, sized, patience, run).await;
            }
            running.add_note("listener-sets is left out: it takes no ListenerSets");
            Ok(())
        }
        Measurement::Failover => failover::run(running, parameters.failover, run).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::definition::{Definition, Form, Scaling};

    fn read(form: Form, set: &[&str]) -> Parameters {
        let set = set.iter().map(|text| (*text).to_owned()).collect();
        let text = include_str!("../../../scenarios/gateway-api.toml");
        Definition::read(text, &Scaling { form, scale: 0.05, set }).unwrap().parameters().unwrap()
    }

    #[test]
    fn a_tenth_of_the_listener_sets_is_created_by_default() {
        let tenth = read(Form::Whole, &[]);
        let all = read(Form::Whole, &["share=1.0"]);
        assert_eq!(tenth.listener_sets.with_share(tenth.share).sets_in_all(), 250);
        assert_eq!(all.listener_sets.with_share(all.share).sets_in_all(), 2_500);
        assert_eq!(tenth.listener_sets.with_share(0.0001).sets_in_all(), 1, "one at least");
    }

    #[test]
    fn a_part_of_a_parameter_is_set_by_itself_and_an_unknown_part_is_named() {
        let set = read(Form::Quick, &["propagation.routes=3000", "measurements=[\"propagation\"]"]);
        assert_eq!((set.propagation.routes, set.measurements.len()), (3_000, 1));
        assert_eq!(
            set.changes.requests,
            read(Form::Whole, &[]).changes.requests,
            "the form says only a part"
        );
        let text = include_str!("../../../scenarios/gateway-api.toml");
        let scaling = Scaling { form: Form::Quick, scale: 1.0, set: vec!["propagation.router=1".to_owned()] };
        let read = Definition::read(text, &scaling).unwrap().parameters::<Parameters>();
        assert!(format!("{:#}", read.unwrap_err()).contains("router"));
    }

    #[test]
    fn every_measurement_is_selected_by_its_name() {
        for measurement in read(Form::Whole, &[]).measurements {
            let named = read(Form::Whole, &[&format!("measurements=[\"{}\"]", measurement.name())]);
            assert_eq!(named.measurements, [measurement]);
        }
    }
}
