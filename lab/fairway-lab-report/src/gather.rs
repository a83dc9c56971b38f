//! Runs of one scenario as one: the rounds of a long run, and those of several results files. What was measured with
//! other parameters, on another machine or with another version of a peer stays apart, with the reason in words.
//!
//! Sums, distributions and pairs of blocks are made of everything together ([`super::pool`], [`super::rounds`]); which
//! round a stream belongs to is kept, since percentiles are taken round by round.

use std::collections::BTreeMap;
use std::ops::Deref;

use fairway_lab_measure::results::{Absent, Environment, Measure, PeerRecord, Results, Run, Settings};

use super::rounds;

/// The order of scenarios; others follow as they come.
const SCENARIOS: [&str; 6] = ["dynamic", "capacity", "comparison", "timeline", "propagation", "gateway-api"];

/// A scenario with all rounds that may stand together. It reads like one [`Run`].
#[derive(Clone, Debug, Default)]
pub(super) struct Scenario {
    run: Run,
    /// The round of each measure of the run, from 0.
    round_of: Vec<usize>,
    /// How many rounds there are.
    rounds: usize,
    /// The results that it comes from, by their place.
    pub sources: Vec<usize>,
    /// Why it stands apart from others of the same scenario, one sentence each.
    pub apart: Vec<String>,
    /// Which of several sets of its scenario it is, from 1; 0 where it is the only one.
    pub set: usize,
    /// When and where it was measured, e.g. `2026-11-21, AMD EPYC, 2 CPUs`.
    pub measured: String,
    /// What should have taken part and could not.
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

    /// How many rounds there are.
    pub(super) fn rounds(&self) -> usize {
        self.rounds
    }

    /// `capacity`, or `capacity, set 2` where it stands apart from the first set.
    pub(super) fn name(&self) -> String {
        match self.set {
            0 | 1 => self.run.scenario.clone(),
            set => format!("{}, set {set}", self.run.scenario),
        }
    }

    /// The same as a heading, which says when all of it is of default settings.
    pub(super) fn title(&self) -> String {
        match self.settings().as_slice() {
            [Settings::Defaults] => format!("{}: default settings", self.name()),
            _ => self.name(),
        }
    }

    /// The settings that were measured.
    pub(super) fn settings(&self) -> Vec<Settings> {
        let streams = self.run.measures.iter().map(|one| one.settings);
        let mut found: Vec<Settings> =
            streams.chain(self.run.propagations.iter().map(|one| one.settings)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// What is drawn over time: of each peer and case the first round, since every round begins its clock anew.
    pub(super) fn first_rounds(&self) -> Vec<&Measure> {
        let whose = |one: &Measure| {
            (one.beside.clone().unwrap_or_else(|| one.peer.clone()), one.settings, one.case.clone())
        };
        let mut first = BTreeMap::new();
        for (round, one) in self.streams().filter(|(_, one)| one.discarded.is_none()) {
            let found = first.entry(whose(one)).or_insert(round);
            *found = round.min(*found);
        }
        let is_first = |(round, one): &(usize, &Measure)| first.get(&whose(one)) == Some(round);
        self.streams().filter(is_first).map(|(_, one)| one).collect()
    }

    fn takes_in(&mut self, run: &Run) {
        let round = self.rounds;
        self.rounds += 1;
        self.round_of.extend(run.measures.iter().map(|_| round));
        let known: Vec<_> = self.run.events.iter().map(whose).collect();
        let new = run.events.iter().filter(|event| !known.contains(&whose(event))).cloned();
        self.run.events.extend(new.collect::<Vec<_>>());
        self.run.measures.extend(run.measures.iter().cloned());
        self.run.spikes.extend(run.spikes.iter().cloned());
        self.run.supplement.findings.extend(run.supplement.findings.iter().cloned());
        self.run.seconds += run.seconds;
        for sentence in &run.shortened {
            if !self.run.shortened.contains(sentence) {
                self.run.shortened.push(sentence.clone());
            }
        }
        for note in &run.supplement.notes {
            if !self.run.supplement.notes.contains(note) {
                self.run.supplement.notes.push(note.clone());
            }
        }
        rounds::propagations(&mut self.run.propagations, &run.propagations);
    }
}

/// Whose events they are: rounds of one peer in one case have the same ones again.
fn whose(event: &fairway_lab_measure::results::Event) -> (String, Settings, String) {
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
    (0..sets.len()).map(|at| joined(at, &sets, all)).collect()
}

fn joined(at: usize, sets: &[Set<'_>], all: &[Results]) -> Scenario {
    let own = &sets[at];
    let mut scenario = Scenario::from(own.runs[0].clone());
    own.runs[1..].iter().for_each(|run| scenario.takes_in(run));
    if own.runs.len() > 1 && own.runs.iter().any(|run| !run.ratios.is_empty()) {
        scenario.run.ratios = rounds::ratios(&own.runs);
    }
    let name = &own.runs[0].scenario;
    let same = sets.iter().filter(|set| set.runs[0].scenario == *name).collect::<Vec<_>>();
    if same.len() > 1 {
        scenario.set = 1 + same.iter().take_while(|set| !std::ptr::eq(**set, own)).count();
        let first = same[0];
        if scenario.set > 1 {
            scenario.apart = differences(first.first, own.first);
            scenario.apart.extend(differing(first.runs[0], own.runs[0]));
        }
    }
    let absent = own.sources.iter().flat_map(|source| &all[*source].absent);
    for one in absent.filter(|one| one.scenario.as_ref().is_none_or(|scenario| scenario == name)) {
        if !scenario.absent.contains(one) {
            scenario.absent.push(one.clone());
        }
    }
    scenario.sources.clone_from(&own.sources);
    let day = own.first.begun.split('T').next().unwrap_or_default();
    let Environment { cpu, cpus, .. } = &own.first.environment;
    scenario.measured = format!("{day}, {cpu}, {cpus} CPUs shared with generator and backends");
    scenario
}

/// What differs between the machines, programs and peers of two results.
fn differences(one: &Results, other: &Results) -> Vec<String> {
    let mut found = machines(&one.environment, &other.environment);
    for peer in &one.peers {
        let twin = other.peers.iter().find(|twin| twin.name == peer.name);
        if let Some(twin) = twin.filter(|twin| twin.versions != peer.versions) {
            found.push(format!("{} was {} there and {} here", peer.name, versions(peer), versions(twin)));
        }
    }
    found
}

fn machines(one: &Environment, other: &Environment) -> Vec<String> {
    let whole = |bytes: u64| format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30));
    let none = || "no Kubernetes".to_owned();
    let pairs = [
        ("CPU", one.cpu.clone(), other.cpu.clone()),
        ("number of CPUs", one.cpus.to_string(), other.cpus.to_string()),
        ("memory", whole(one.memory_bytes), whole(other.memory_bytes)),
        ("kernel", one.kernel.clone(), other.kernel.clone()),
        ("place", one.place.clone(), other.place.clone()),
        (
            "Kubernetes",
            one.kubernetes.clone().unwrap_or_else(none),
            other.kubernetes.clone().unwrap_or_else(none),
        ),
        ("laboratory", one.laboratory.clone(), other.laboratory.clone()),
        ("revision of the laboratory and of Fairway", revision(one), revision(other)),
    ];
    let differ = pairs.into_iter().filter(|(_, one, other)| one != other);
    differ.map(|(what, one, other)| format!("{what}: {one} there, {other} here")).collect()
}

fn revision(of: &Environment) -> String {
    of.facts.get("revision").cloned().unwrap_or_else(|| "not recorded".to_owned())
}

fn versions(peer: &PeerRecord) -> String {
    peer.versions.values().cloned().collect::<Vec<_>>().join(", ")
}

/// Which parameters two runs of a scenario do not share.
fn differing(one: &Run, other: &Run) -> Vec<String> {
    let used = |run: &Run| -> BTreeMap<String, String> {
        run.parameters.iter().map(|one| (one.name.clone(), one.used.clone())).collect()
    };
    let (one, other) = (used(one), used(other));
    let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let not_set = "not set".to_owned();
    let value = |of: &BTreeMap<String, String>, name: &str| of.get(name).unwrap_or(&not_set).clone();
    let pairs = names.into_iter().map(|name| (name, value(&one, name), value(&other, name)));
    let differ = pairs.filter(|(_, one, other)| one != other);
    differ.map(|(name, one, other)| format!("{name}: {one} there, {other} here")).collect()
}

#[cfg(test)]
mod tests {
    use fairway_lab_measure::results::{Completeness, Load, Parameter, Propagation};

    use super::super::palette::Palette;
    use super::super::pool::whole;
    use super::*;

    fn measure(failed: u64) -> Measure {
        let mut measure: Measure = serde_json::from_value(serde_json::json!({
            "peer": "envoy", "settings": "recommended", "case": "dynamic", "phase": "pooled", "begun_s": 0.0,
            "load": Load::default(),
        }))
        .unwrap();
        measure.load.counts.requests = 10_000;
        measure.load.errors.insert(fairway_lab_measure::results::Class::ReadEof, failed);
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
            measures: vec![measure(u64::from(round))],
            propagations: vec![propagation(&[f64::from(round)])],
            ..Run::default()
        }
    }

    fn results(runs: Vec<Run>) -> Results {
        Results {
            plan: None,
            schema: fairway_lab_measure::results::SCHEMA,
            completeness: Completeness::Complete,
            begun: String::new(),
            seconds: 1.0,
            command: Vec::new(),
            environment: Environment::default(),
            peers: vec![PeerRecord {
                name: "envoy".to_owned(),
                title: String::new(),
                kind: fairway_lab_measure::results::PeerKind::Adapter,
                stands_for: String::new(),
                versions: BTreeMap::from([("envoy".to_owned(), "1.40".to_owned())]),
                configurations: Vec::new(),
            }],
            absent: Vec::new(),
            runs,
            limitations: Vec::new(),
        }
    }

    #[test]
    fn rounds_of_a_run_and_of_several_files_are_one() {
        let all = [results(vec![run(1, "1500"), run(2, "1500")]), results(vec![run(1, "1500")])];
        let found = gather(&all);
        assert_eq!(found.len(), 1);
        let one = &found[0];
        assert_eq!((one.rounds(), one.set, one.sources.as_slice()), (3, 0, [0, 1].as_slice()));
        let pools = whole(one, &Palette::of([]));
        assert_eq!((pools.len(), pools[0].failed(), pools[0].requests()), (1, 4, 30_000));
        let propagation = &one.propagations[0];
        assert_eq!((one.propagations.len(), propagation.ms.as_slice()), (1, [1.0, 2.0, 1.0].as_slice()));
        assert_eq!((propagation.lost, propagation.routes), (3, 5));
    }

    #[test]
    fn what_differs_in_parameters_machine_or_version_stays_apart_and_says_why() {
        let first = results(vec![run(1, "1500")]);
        let other_rate = results(vec![run(1, "600")]);
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
            assert_eq!(found.iter().map(|one| one.set).collect::<Vec<_>>(), [1, 2], "{why}");
            assert_eq!(found[1].apart, [why]);
            assert_eq!(found.iter().map(Scenario::rounds).collect::<Vec<_>>(), [1, 1]);
        }
    }

    #[test]
    fn over_time_only_the_first_round_of_a_peer_is_drawn() {
        let all = [results(vec![run(1, "1500"), run(2, "1500")])];
        let found = gather(&all);
        assert_eq!(found[0].first_rounds().len(), 1);
        assert_eq!(found[0].measures.len(), 2);
    }
}
