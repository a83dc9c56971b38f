//! Goals and whether they were met. Each goal is declared once: in `goals.json` as a suite, a figure and a bound, or
//! by the tests in a cluster in their results. The lists of met and missed goals are computed from the results.

use anyhow::Context;
use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, Value};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::super::number::{self, UNKNOWN};
use super::suites::{Bench, Ratio, Suites, best, distance, environment, version};

/// Fewer pairs than this are too few for a claim.
const ENOUGH_PAIRS: usize = 15;

const MET: &str = "met";
const MISSED: &str = "**missed**";
const NOT_MEASURED: &str = "open: not measured";
const TOO_FEW: &str = "open: too few pairs";

/// The contents of goals.json.
#[derive(Deserialize)]
pub(super) struct Declared {
    /// How many times Fairway's CPU a peer is to spend at least.
    ratios: Vec<RatioGoal>,
    /// How many times the CPU of a bare forwarder Fairway is to spend at most.
    floor: CpuGoal,
    /// What Fairway is to spend in user space on a small request at most, microseconds.
    user_us: Vec<CpuGoal>,
    /// All others.
    promises: Vec<Promise>,
}

#[derive(Deserialize)]
struct RatioGoal {
    scenario: String,
    peer: String,
    at_least: f64,
}

#[derive(Deserialize)]
struct CpuGoal {
    scenario: String,
    at_most: f64,
}

/// A goal of one suite. Names and what was measured are templates over its results, the figure is an expression.
#[derive(Deserialize)]
struct Promise {
    suite: String,
    /// The list of the suite in which each entry has the goal; the suite itself if not given.
    each: Option<String>,
    name: String,
    figure: String,
    at_most: Option<f64>,
    below: Option<f64>,
    target: String,
    measured: String,
}

/// A goal and its outcome.
#[derive(Serialize)]
pub(super) struct Goal {
    /// The results that decide.
    pub suite: String,
    /// The subject: `cpu`, `promises`, `floods` or `cluster`.
    pub part: &'static str,
    pub name: String,
    /// The peer, or the scenario of a test in a cluster.
    pub of: String,
    pub target: String,
    pub measured: String,
    pub verdict: &'static str,
}

/// The declared goals, compiled into this program.
pub(super) fn declared() -> anyhow::Result<Declared> {
    serde_json::from_str(include_str!("goals.json")).context("read goals.json")
}

/// All goals, in the order in which they are shown.
pub(super) fn all(suites: &Suites) -> anyhow::Result<Vec<Goal>> {
    let declared = declared()?;
    let mut goals = cpu(&declared, &suites.benches()?);
    let environment = environment();
    for promise in &declared.promises {
        goals.extend(promise.goals(suites, &environment)?);
    }
    if let Some(report) = suites.by_name.get("cluster") {
        goals.extend(cluster(report)?);
    }
    Ok(goals)
}

/// Of several runs of the benchmark, the newest that has enough pairs decides.
fn cpu(declared: &Declared, benches: &[Bench]) -> Vec<Goal> {
    let title = |scenario: &str| {
        let mut all = benches.iter().flat_map(|bench| &bench.results).map(|findings| &findings.scenario);
        all.find(|item| item.name == scenario).map_or(scenario, |item| &item.title).to_owned()
    };
    let newest = |scenario: &str, peer: &str| {
        let found = benches.iter().enumerate().filter_map(|(at, bench)| {
            let (ratio, cpus) = best(&bench.results, scenario, peer)?;
            Some((ratio.pairs >= ENOUGH_PAIRS, at, ratio, cpus, bench))
        });
        let (_, _, ratio, cpus, bench) = found.max_by_key(|(enough, at, ..)| (*enough, *at))?;
        Some((ratio, cpus, bench))
    };
    let goal = |bench: Option<&Bench>, name: String, subject: String, target, measured: String, verdict| {
        let suite = bench.map_or("cpu", |bench| &bench.suite).to_owned();
        Goal { suite, part: "cpu", name, of: subject, target, measured, verdict }
    };
    let pairs = |ratio: Ratio, cpus| {
        let text = if ratio.pairs >= ENOUGH_PAIRS { ratio.text() } else { "no ratio".to_owned() };
        format!("{text} ({}, {} pairs)", distance(cpus), ratio.pairs)
    };
    let mut goals = Vec::new();
    for RatioGoal { scenario, peer, at_least } in &declared.ratios {
        let (name, target) = (title(scenario), format!("at least {at_least:.2} x"));
        goals.push(match newest(scenario, peer) {
            Some((ratio, cpus, bench)) => {
                let version = bench.versions.get(peer).map_or("", |text| version(text));
                let subject = format!("{peer} {version}").trim().to_owned();
                goal(Some(bench), name, subject, target, pairs(ratio, cpus), verdict(ratio, *at_least))
            }
            None => goal(None, name, peer.clone(), target, "no pair counts".to_owned(), NOT_MEASURED),
        });
    }
    if let Some((ratio, cpus, bench)) = newest(&declared.floor.scenario, "floor") {
        let (own, most) = (ratio.inverse(), declared.floor.at_most);
        let negative = Ratio { median: -own.median, low: -own.high, high: -own.low, ..own };
        let name = "Fairway compared with a bare epoll forwarder".to_owned();
        let target = format!("at most {most} x");
        goals.push(goal(
            Some(bench),
            name,
            "floor".to_owned(),
            target,
            pairs(own, cpus),
            verdict(negative, -most),
        ));
    }
    for CpuGoal { scenario, at_most } in &declared.user_us {
        let has = |bench: &&Bench| {
            bench.results.iter().any(|item| item.scenario.name == *scenario && !item.summary.is_empty())
        };
        let Some(bench) = benches.iter().rfind(has) else { continue };
        let findings = bench.results.iter().filter(|findings| findings.scenario.name == *scenario);
        for one in findings.flat_map(|findings| &findings.summary).filter(|item| item.peer == "fairway") {
            let name = format!("Fairway in user space, {}", title(scenario));
            let measured = format!("{} µs ({})", number::figure(one.user_us), distance(&one.distance));
            let verdict = if one.user_us > *at_most { MISSED } else { MET };
            let target = format!("at most {at_most:.1} µs");
            goals.push(goal(Some(bench), name, "none".to_owned(), target, measured, verdict));
        }
    }
    goals
}

fn verdict(ratio: Ratio, goal: f64) -> &'static str {
    if ratio.pairs < ENOUGH_PAIRS {
        TOO_FEW
    } else if ratio.median < goal {
        MISSED
    } else if ratio.low < goal {
        "open: the interval includes the target"
    } else {
        MET
    }
}

impl Promise {
    fn goals(&self, suites: &Suites, environment: &Environment<'_>) -> anyhow::Result<Vec<Goal>> {
        let suite_value = suites.by_name.get(&self.suite).map(|all| Value::from(Serde(all)));
        let Some(whole) = suite_value else { return Ok(vec![self.open(self.name.clone())]) };
        let parts: Vec<Value> = match &self.each {
            Some(list) => environment.compile_expression(list)?.eval(whole)?.try_iter()?.collect(),
            None => vec![whole],
        };
        parts.iter().map(|part| self.goal(part, environment)).collect()
    }

    fn goal(&self, results: &Value, environment: &Environment<'_>) -> anyhow::Result<Goal> {
        let rendered = |template: &str| environment.render_str(template, results.clone());
        let name = rendered(&self.name)?;
        let figure = match environment.compile_expression(&self.figure)?.eval(results.clone()) {
            Err(error) if error.kind() == ErrorKind::UndefinedError => None,
            figure => Some(figure?).filter(|figure| !figure.is_undefined()),
        };
        let Some(figure) = figure else { return Ok(self.open(name)) };
        let figure = f64::try_from(figure).with_context(|| format!("{name}: its figure is no number"))?;
        let holds =
            self.at_most.is_none_or(|most| figure <= most) && self.below.is_none_or(|most| figure < most);
        let verdict = if holds { MET } else { MISSED };
        Ok(Goal { measured: rendered(&self.measured)?, verdict, ..self.open(name) })
    }

    fn open(&self, name: String) -> Goal {
        Goal {
            suite: self.suite.clone(),
            part: if self.suite == "floods" { "floods" } else { "promises" },
            name,
            of: String::new(),
            target: self.target.clone(),
            measured: UNKNOWN.to_owned(),
            verdict: NOT_MEASURED,
        }
    }
}

/// The figures of the tests in a cluster, with the bounds in their results.
fn cluster(report: &Json) -> anyhow::Result<Vec<Goal>> {
    #[derive(Deserialize)]
    struct Figure {
        name: String,
        value: f64,
        unit: String,
        promise: Option<f64>,
    }
    let mut goals = Vec::new();
    for stream in report["scenarios"].as_array().into_iter().flatten() {
        let figures: Option<Vec<Figure>> =
            Deserialize::deserialize(&stream["figures"]).context("read cluster")?;
        for Figure { name, value, unit, promise } in figures.into_iter().flatten() {
            let with_unit = |value: f64| format!("{} {unit}", number::figure(value)).trim().to_owned();
            goals.push(Goal {
                suite: "cluster".to_owned(),
                part: "cluster",
                name,
                of: stream["scenario"].as_str().unwrap_or_default().to_owned(),
                target: promise.map_or("none".to_owned(), |most| format!("at most {}", with_unit(most))),
                measured: if unit.is_empty() { number::count(value as u64) } else { with_unit(value) },
                verdict: promise.map_or(UNKNOWN, |most| if value <= most { MET } else { MISSED }),
            });
        }
    }
    Ok(goals)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_goal_is_met_missed_or_open() {
        let ratio = |median, low, high| Ratio { median, low, high, pairs: 15 };
        assert_eq!(verdict(ratio(1.3, 1.2, 1.4), 1.12), MET);
        let few = Ratio { pairs: 14, ..ratio(1.3, 1.2, 1.4) };
        assert_eq!(verdict(few, 1.12), TOO_FEW);
        assert_eq!(verdict(ratio(1.0, 0.9, 1.3), 1.12), MISSED);
        assert!(verdict(ratio(1.2, 1.0, 1.4), 1.12).starts_with("open"));
    }

    #[test]
    fn missed_goals_are_those_that_the_command_reported_as_broken() {
        let suites = Suites::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
        let goals = all(&suites).unwrap();
        for (suite, results) in &suites.by_name {
            let Some(broken) = results["broken_promises"].as_array() else { continue };
            let missed = goals.iter().filter(|goal| goal.suite == *suite && goal.verdict == MISSED).count();
            assert_eq!(missed, broken.len(), "{suite}: {broken:?}");
        }
    }

    #[test]
    fn the_cost_of_hashing_is_not_compared_with_the_cpu_of_attackers() {
        let declared = declared().unwrap();
        let promise = declared.promises.iter().find(|item| item.name.contains("CPU")).unwrap();
        for (proxy, verifying, expected) in [(13.0, 10.0, MET), (16.0, 10.0, MISSED), (6.0, 0.0, MISSED)] {
            let flood = serde_json::json!({ "kind": "passwords", "attacked": {
                "attacker_cpu_seconds": 0.4, "proxy_cpu_seconds": proxy, "verifying_cpu_seconds": verifying,
            } });
            let goal = promise.goal(&Value::from(Serde(flood)), &environment()).unwrap();
            assert_eq!(goal.verdict, expected, "{proxy} {verifying}");
        }
    }
}
