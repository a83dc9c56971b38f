//! Merges runs of one scenario: the rounds of a long run, and those of several results files. Runs with other parameters,
//! another machine or another version of a peer stay separate, with the reason.
//!
//! Sums and distributions are made of everything together ([`super::pool`]); which round a stream belongs to is kept, since
//! percentiles are taken round by round.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use fairway_lab_measure::results::{
    Absent, Environment, Measure, PeerRecord, Propagation, Results, Run, Settings,
};

/// The order of scenarios; others follow as they come.
const SCENARIOS: [&str; 5] = ["dynamic", "comparison", "timeline", "propagation", "gateway-api"];

/// A scenario with all rounds that can be merged. It derefs to [`Run`].
#[derive(Clone, Debug, Default)]
pub(super) struct Scenario {
    run: Run,
    /// The round of each measure of the run, from 0.
    round_of: Vec<usize>,
    /// The number of rounds.
    rounds: usize,
    /// The results that it comes from, by their place.
    pub sources: Vec<usize>,
    /// Why it is separate from others of the same scenario, one sentence each.
    pub apart: Vec<String>,
    /// Which of several sets of its scenario it is, from 1; 0 where it is the only one.
    pub set: usize,
    /// When and where it was measured, e.g. `2026-11-21, AMD EPYC, 2 CPUs`.
    pub measured: String,
    /// Peers that could not take part.
    pub absent: Vec<Absent>,
}

impl Deref for Scenario {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.run
    }
}

impl From<Run> for Scenario {
    fn from(run: Run) -> Self {
        let round_of = vec![0; run.measures.len()];
        Self { run, round_of, rounds: 1, ..Self::default() }
    }
}

impl Scenario {
    /// All measures with their rounds.
    pub(super) fn streams(&self) -> impl Iterator<Item = (usize, &Measure)> {
        self.round_of.iter().copied().zip(&self.run.measures)
    }

    /// The number of rounds.
    pub(super) fn rounds(&self) -> usize {
        self.rounds
    }

    /// `dynamic`, or `dynamic, set 2` where it stands apart from the first set.
    pub(super) fn name(&self) -> String {
        match self.set {
            0 | 1 => self.run.scenario.clone(),
            set => format!("{}, set {set}", self.run.scenario),
        }
    }

    /// The same as a heading, which states if everything has default settings.
    pub(super) fn title(&self) -> String {
        match self.settings().as_slice() {
            [Settings::Defaults] => format!("{}: default settings", self.name()),
            _ => self.name(),
        }
    }

    /// The settings that were measured.
    pub(super) fn settings(&self) -> Vec<Settings> {
        let streams = self.run.measures.iter().map(|entry| entry.settings);
        let mut found: Vec<Settings> =
            streams.chain(self.run.propagations.iter().map(|entry| entry.settings)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The series drawn over time: the first round of each peer and case, since every round restarts its clock.
    pub(super) fn first_rounds(&self) -> Vec<&Measure> {
        let identity = |measure: &Measure| {
            (
                measure.beside.clone().unwrap_or_else(|| measure.peer.clone()),
                measure.settings,
                measure.case.clone(),
            )
        };
        let mut first = BTreeMap::new();
        for (round, one) in self.streams() {
            let found = first.entry(identity(one)).or_insert(round);
            *found = round.min(*found);
        }
        let is_first = |(round, one): &(usize, &Measure)| first.get(&identity(one)) == Some(round);
        self.streams().filter(is_first).map(|(_, one)| one).collect()
    }

    fn takes_in(&mut self, run: &Run) {
        let round = self.rounds;
        self.rounds += 1;
        self.round_of.extend(run.measures.iter().map(|_| round));
        let known: Vec<_> = self.run.events.iter().map(event_key).collect();
        let new = run.events.iter().filter(|event| !known.contains(&event_key(event))).cloned();
        self.run.events.extend(new.collect::<Vec<_>>());
        self.run.measures.extend(run.measures.iter().cloned());
        self.run.spikes.extend(run.spikes.iter().cloned());
        self.run.supplement.findings.extend(run.supplement.findings.iter().cloned());
        self.run.seconds += run.seconds;
        add_new(&mut self.run.shortened, &run.shortened);
        add_new(&mut self.run.supplement.notes, &run.supplement.notes);
        add_propagations(&mut self.run.propagations, &run.propagations);
    }
}

fn add_new<T: Clone + PartialEq>(all: &mut Vec<T>, additions: &[T]) {
    for one in additions {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
}

/// Adds the times of another round.
fn add_propagations(all: &mut Vec<Propagation>, additions: &[Propagation]) {
    for one in additions {
        let twin = all
            .iter_mut()
            .find(|twin| (&twin.peer, twin.settings, &twin.case) == (&one.peer, one.settings, &one.case));
        let Some(twin) = twin else {
            all.push(one.clone());
            continue;
        };
        twin.ms.extend(&one.ms);
        twin.lost += one.lost;
        twin.wrong += one.wrong;
        twin.routes = twin.routes.max(one.routes);
        twin.memory_bytes = twin.memory_bytes.max(one.memory_bytes);
    }
}

/// Whose events they are: rounds of one peer in one case have the same ones again.
fn event_key(event: &fairway_lab_measure::results::Event) -> (String, Settings, String) {
    (event.peer.clone(), event.settings, event.case.clone())
}

/// A set while it is gathered.
struct Set<'a> {
    first: &'a Results,
    runs: Vec<&'a Run>,
    sources: Vec<usize>,
}

/// All scenarios of all results, in the order in which they are shown.
pub(super) fn gather(all: &[Results]) -> Vec<Scenario> {
    let mut sets: Vec<Set<'_>> = Vec::new();
    for (at, results) in all.iter().enumerate() {
        for run in &results.runs {
            let fits = |set: &&mut Set<'_>| {
                set.runs[0].scenario == run.scenario
                    && set.sources.iter().all(|source| differences(&all[*source], results).is_empty())
                    && differing(set.runs[0], run).is_empty()
            };
            match sets.iter_mut().find(fits) {
                Some(set) => {
                    set.runs.push(run);
                    set.sources.push(at);
                    set.sources.dedup();
                }
                None => sets.push(Set { first: results, runs: vec![run], sources: vec![at] }),
            }
        }
    }
    sets.sort_by_key(|set| {
        let known = SCENARIOS.iter().position(|known| *known == set.runs[0].scenario);
        known.unwrap_or(SCENARIOS.len())
    });
    (0..sets.len()).map(|at| join_sets(at, &sets, all)).collect()
}

fn join_sets(at: usize, sets: &[Set<'_>], all: &[Results]) -> Scenario {
    let own_set = &sets[at];
    let mut scenario = Scenario::from(own_set.runs[0].clone());
    own_set.runs[1..].iter().for_each(|run| scenario.takes_in(run));
    let name = &own_set.runs[0].scenario;
    let same = sets.iter().filter(|set| set.runs[0].scenario == *name).collect::<Vec<_>>();
    if same.len() > 1 {
        scenario.set = 1 + same.iter().take_while(|set| !std::ptr::eq(**set, own_set)).count();
        let first = same[0];
        if scenario.set > 1 {
            scenario.apart = differences(first.first, own_set.first);
            scenario.apart.extend(differing(first.runs[0], own_set.runs[0]));
        }
    }
    let absent = own_set.sources.iter().flat_map(|source| &all[*source].absent);
    let absent = absent.filter(|entry| entry.scenario.as_ref().is_none_or(|scenario| scenario == name));
    scenario.absent = distinct(absent).into_iter().cloned().collect();
    scenario.sources.clone_from(&own_set.sources);
    let day = own_set.first.begun.split('T').next().unwrap_or_default();
    let Environment { cpu, cpus, .. } = &own_set.first.environment;
    scenario.measured = format!("{day}, {cpu}, {cpus} CPUs shared with generator and backends");
    scenario
}

/// The differences between the machines, programs and peers of two results.
fn differences(left: &Results, right: &Results) -> Vec<String> {
    let pairs = facts(&left.environment).into_iter().zip(facts(&right.environment));
    let pairs = pairs.filter(|(one, right)| one != right);
    let mut found: Vec<String> =
        pairs.map(|((what, one), (_, right))| format!("{what}: {one} there, {right} here")).collect();
    let versions = |peer: &PeerRecord| peer.versions.values().cloned().collect::<Vec<_>>().join(", ");
    for peer in &left.peers {
        let twin = right.peers.iter().find(|twin| twin.name == peer.name);
        if let Some(twin) = twin.filter(|twin| twin.versions != peer.versions) {
            found.push(format!("{} was {} there and {} here", peer.name, versions(peer), versions(twin)));
        }
    }
    found
}

fn facts(environment: &Environment) -> [(&'static str, String); 8] {
    let recorded = |fact: Option<&String>| fact.map_or("not recorded", String::as_str).to_owned();
    [
        ("CPU", environment.cpu.clone()),
        ("number of CPUs", environment.cpus.to_string()),
        ("memory", format!("{:.0} GiB", environment.memory_bytes as f64 / f64::from(1 << 30))),
        ("kernel", environment.kernel.clone()),
        ("place", environment.place.clone()),
        ("Kubernetes", environment.kubernetes.clone().unwrap_or_else(|| "no Kubernetes".to_owned())),
        ("laboratory", environment.laboratory.clone()),
        ("revision of the laboratory and of Fairway", recorded(environment.facts.get("revision"))),
    ]
}

/// Which parameters two runs of a scenario do not share.
fn differing(left: &Run, right: &Run) -> Vec<String> {
    let used = |run: &Run, name: &str| {
        let parameter = run.parameters.iter().find(|parameter| parameter.name == name);
        parameter.map_or("not set", |parameter| &parameter.used).to_owned()
    };
    let both = left.parameters.iter().chain(&right.parameters);
    let names: BTreeSet<&str> = both.map(|parameter| parameter.name.as_str()).collect();
    let pairs = names.into_iter().map(|name| (name, used(left, name), used(right, name)));
    let differ = pairs.filter(|(_, one, right)| one != right);
    differ.map(|(name, one, right)| format!("{name}: {one} there, {right} here")).collect()
}

/// The values of a list in the order in which they first appear.
pub(super) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use fairway_lab_measure::results::{Class, Parameter};

    use super::super::palette::Palette;
    use super::super::pool::{measure, pools_of_run};
    use super::*;

    fn failing(failed: u64) -> Measure {
        let mut measure = measure("envoy", "dynamic", 10_000);
        measure.load.errors.insert(Class::ReadEof, failed);
        measure
    }

    fn propagation(ms: &[f64]) -> Propagation {
        Propagation {
            peer: "envoy".to_owned(),
            settings: Settings::Recommended,
            case: "add one by one".to_owned(),
            ms: ms.to_vec(),
            lost: 1,
            wrong: 0,
            routes: 5,
            memory_bytes: Some(7),
        }
    }

    fn run(round: u32, rate: &str) -> Run {
        Run {
            scenario: "dynamic".to_owned(),
            round,
            parameters: vec![Parameter {
                name: "rate".to_owned(),
                paper: "30000".to_owned(),
                used: rate.to_owned(),
            }],
            measures: vec![failing(u64::from(round))],
            propagations: vec![propagation(&[f64::from(round)])],
            ..Run::default()
        }
    }

    fn results(runs: &[Run]) -> Results {
        serde_json::from_value(serde_json::json!({
            "schema": fairway_lab_measure::results::SCHEMA, "completeness": {"state": "complete"}, "begun": "", "seconds": 1.0,
            "command": [], "environment": Environment::default(), "absent": [], "limitations": [], "runs": runs,
            "peers": [{
                "name": "envoy", "title": "", "kind": "adapter", "stands_for": "", "versions": {"envoy": "1.40"},
                "configurations": [],
            }],
        }))
        .unwrap()
    }

    #[test]
    fn rounds_of_a_run_and_of_several_files_are_one() {
        let all = [results(&[run(1, "1500"), run(2, "1500")]), results(&[run(1, "1500")])];
        let found = gather(&all);
        assert_eq!(found.len(), 1);
        let merged = &found[0];
        assert_eq!((merged.rounds(), merged.set, merged.sources.as_slice()), (3, 0, [0, 1].as_slice()));
        let pools = pools_of_run(merged, &Palette::for_runs([]));
        assert_eq!((pools.len(), pools[0].failed(), pools[0].requests()), (1, 4, 30_000));
        let propagation = &merged.propagations[0];
        assert_eq!((merged.propagations.len(), propagation.ms.as_slice()), (1, [1.0, 2.0, 1.0].as_slice()));
        assert_eq!((propagation.lost, propagation.routes), (3, 5));
    }

    #[test]
    fn runs_with_other_parameters_machines_or_versions_stay_separate_with_the_reason() {
        let first = results(&[run(1, "1500")]);
        let other_rate = results(&[run(1, "600")]);
        let mut other_kernel = first.clone();
        other_kernel.environment.kernel = "7.0".to_owned();
        let mut other_revision = first.clone();
        other_revision.environment.facts.insert("revision".to_owned(), "abc".to_owned());
        let mut newer = first.clone();
        newer.peers[0].versions.insert("envoy".to_owned(), "1.41".to_owned());
        for (other, why) in [
            (other_rate, "rate: 1500 there, 600 here"),
            (other_kernel, "kernel:  there, 7.0 here"),
            (other_revision, "revision of the laboratory and of Fairway: not recorded there, abc here"),
            (newer, "envoy was 1.40 there and 1.41 here"),
        ] {
            let found = gather(&[first.clone(), other]);
            assert_eq!(found.iter().map(|entry| entry.set).collect::<Vec<_>>(), [1, 2], "{why}");
            assert_eq!(found[1].apart, [why]);
            assert_eq!(found.iter().map(Scenario::rounds).collect::<Vec<_>>(), [1, 1]);
        }
    }

    #[test]
    fn over_time_only_the_first_round_of_a_peer_is_drawn() {
        let all = [results(&[run(1, "1500"), run(2, "1500")])];
        let found = gather(&all);
        assert_eq!(found[0].first_rounds().len(), 1);
        assert_eq!(found[0].measures.len(), 2);
    }
}
