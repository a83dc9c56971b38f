//! One scenario's findings, including those derived from several streams: spikes, propagation.

use serde::{Deserialize, Serialize};

use crate::results::figure;
use crate::results::measure::{Measure, Settings};

/// A scenario as it was run. A run in rounds has one for each round and scenario; peers ran forwards in odd rounds and
/// backwards in even ones (A B B A).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// `dynamic`, `comparison`, `timeline`, `propagation`, `gateway-api`, or the name of the user's file.
    pub scenario: String,
    /// Which round of it this is, from 1; 0 where there were no rounds, as in older files.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub round: u32,
    /// The question it answers, and the study it follows.
    #[serde(flatten)]
    pub question: Question,
    /// The paper's parameters and ours.
    pub parameters: Vec<Parameter>,
    /// Shortened or scaled parts, one sentence each.
    pub shortened: Vec<String>,
    /// Its duration, seconds; 0 if it did not finish.
    #[serde(deserialize_with = "figure::read_number")]
    pub seconds: f64,
    /// All streams.
    pub measures: Vec<Measure>,
    /// What happened while a peer's streams ran.
    pub events: Vec<Event>,
    /// Latency after events.
    pub spikes: Vec<Spike>,
    /// From a write to the API to its effect.
    pub propagations: Vec<Propagation>,
    /// A finding that is neither a stream nor derived from streams.
    #[serde(flatten)]
    pub supplement: Supplement,
}

/// Other findings of a run. In JSON these are fields of the run; older files have none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Supplement {
    /// Other figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Changes without effect and the reason, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Run {
    /// Whether every peer was measured with all settings, or is absent with a reason.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.seconds > 0.0
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde wants")]
pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The question of a scenario. In JSON these are fields of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The description, a sentence.
    pub purpose: String,
    /// The study that it comes from: a key of `published.json`, e.g. `study1_dynamic`.
    pub study: Option<String>,
}

/// A parameter of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name in the scenario's file.
    pub name: String,
    /// The paper's value, with its unit.
    pub paper: String,
    /// The value of this run, with its unit.
    pub used: String,
}

/// Something that was done to the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The peer whose streams ran.
    pub peer: String,
    /// With which settings.
    pub settings: Settings,
    /// The case of the streams that ran.
    pub case: String,
    /// Seconds from the beginning of the case: the clock that [`Measure::begun_s`] is on.
    #[serde(deserialize_with = "figure::read_number")]
    pub at_s: f64,
    /// For people, e.g. `backend 3 -> 4`, `CORS headers added`.
    pub label: String,
    /// `scale`, `route`, `proxy-scale`, `certificate`.
    pub kind: String,
}

/// With fewer pairs than this, a ratio is not a finding.
pub const ENOUGH_PAIRS: u32 = 15;

/// Latency after an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spike {
    /// The peer.
    pub peer: String,
    /// With which settings.
    pub settings: Settings,
    /// The case, e.g. `500/s`.
    pub case: String,
    /// The label of the event.
    pub event: String,
    /// When it was, on the run's clock, seconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub at_s: f64,
    /// Highest latency in the second after it, milliseconds.
    #[serde(deserialize_with = "figure::read_number")]
    pub highest_ms: f64,
    /// The same of the stream straight to the pods at the same time.
    pub direct_ms: Option<f64>,
    /// How long latency stayed above twice the quiet p99 after it, seconds, minus that of the direct stream.
    #[serde(deserialize_with = "figure::read_number")]
    pub lasted_s: f64,
    /// Failed requests from the event to the next.
    pub errors: u64,
    /// Set for the direct stream, evaluated by the same rule to show the effect of the machine alone: the peer whose
    /// stream ran at the same time.
    #[serde(default)]
    pub beside: Option<String>,
}

/// A figure that is neither a latency nor the time of a change, e.g. how often a status was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The peer.
    pub peer: String,
    /// With which settings.
    pub settings: Settings,
    /// The case of the scenario.
    pub case: String,
    /// Its name, e.g. `writes of the Gateway's status`.
    pub figure: String,
    /// Its unit, e.g. `s` or `bytes`; empty for a count.
    pub unit: String,
    /// The figure itself.
    #[serde(deserialize_with = "figure::read_number")]
    pub value: f64,
}

/// The times until changes had an effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Propagation {
    /// The peer.
    pub peer: String,
    /// With which settings.
    pub settings: Settings,
    /// `add one by one`, `change under load`, `first answer of the new`, `last answer of the old`.
    pub case: String,
    /// From the write to the effect, milliseconds, in the order of the changes.
    #[serde(deserialize_with = "figure::read_numbers")]
    pub ms: Vec<f64>,
    /// Changes that had no effect in time.
    pub lost: u64,
    /// Responses that were neither the old nor the new one.
    pub wrong: u64,
    /// Routes that were there at the end.
    pub routes: u64,
    /// Memory of the peer then, bytes.
    pub memory_bytes: Option<u64>,
}
