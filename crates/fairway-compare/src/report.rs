//! What was found: how many probes got the same answers, and for each difference the object and the field that explain it.
//! Sends nothing, and shows nothing.

use std::collections::{BTreeMap, BTreeSet};

use fairway_model::{Action, Config, Guard, SessionKey};
use fairway_objects::diagnostic::Severity;
use fairway_objects::object::ObjectKey;
use serde::Serialize;

use crate::answer::Part;
use crate::explain::{self, Asked, Cause};
use crate::facts::Objects;
use crate::located::{Located, located};
use crate::observed::{Observed, Unequal, is_unknown, unequal};
use crate::plan::{Plan, Skipped};
use crate::probe::Probe;
use crate::session::Findings;
use crate::side::Target;

/// Longer values are cut where they are shown.
const LONGEST_VALUE: usize = 240;

/// The whole comparison.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The one side.
    pub from: String,
    /// The other.
    pub to: String,
    /// Why not everything was asked; `None` where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// How many probes.
    pub probes: Counts,
    /// Each part that differs, in the order of the probes.
    pub differences: Vec<Difference>,
    /// Parts that were left out because they change by themselves, with the number of probes.
    pub left_out: BTreeMap<String, usize>,
    /// Objects that changed in the meantime.
    pub changed: Vec<String>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
    /// What was not asked.
    pub skipped: Vec<Skipped>,
}

/// How many probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// That were to be asked.
    pub planned: usize,
    /// That were answered often enough by both sides.
    pub compared: usize,
    /// With the same answers.
    pub identical: usize,
    /// With a difference.
    pub different: usize,
    /// That neither side answered in time, or that a side answered in some rounds only: whether the answers are the same is not
    /// known.
    pub unanswered: usize,
}

/// A part of the answers to a probe that differs.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// The probe.
    pub probe: Probe,
    /// The part.
    pub part: Part,
    /// What the one side has; nothing where it has no such part.
    pub from: Option<String>,
    /// What the other side has.
    pub to: Option<String>,
    /// Parts that differ with it, because the answers are different ones altogether.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Part>,
    /// What explains it.
    pub cause: Cause,
    /// Errors and warnings of translation about the same object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
    /// Whether the object changed in the meantime.
    pub changed: bool,
}

impl Report {
    /// Compares what was found. `changed` are Ingresses that changed in the meantime.
    #[must_use]
    pub fn of(
        plan: &Plan,
        findings: &Findings,
        objects: &Objects<'_>,
        targets: [&Target; 2],
        changed: &[ObjectKey],
    ) -> Self {
        let mut report = Self {
            from: targets[0].address.to_string(),
            to: targets[1].address.to_string(),
            partial: findings.partial.clone(),
            probes: Counts { planned: plan.probes.len(), ..Counts::default() },
            differences: Vec::new(),
            left_out: BTreeMap::new(),
            changed: changed.iter().map(|key| format!("Ingress {key}")).collect(),
            notes: findings.notes.clone(),
            skipped: plan.skipped.clone(),
        };
        let mut unanswered = None;
        for (probe, [from, to]) in plan.probes.iter().zip(&findings.observed) {
            if !from.is_complete() || !to.is_complete() {
                continue;
            }
            if is_unknown(from, to) {
                report.probes.unanswered += 1;
                unanswered = unanswered.or(Some(probe));
            } else {
                report.add(objects, probe, from, to);
            }
        }
        if report.partial.is_none()
            && let Some(probe) = unanswered
        {
            let count = report.probes.unanswered;
            report.partial = Some(format!(
                "{count} of the probes cannot be compared, because neither side answered in time or one answered only sometimes; \
                 the first is {probe}"
            ));
        }
        for at in [0, 1] {
            report.notes.extend(led_away(plan, findings, targets[at], at));
        }
        report
    }

    /// Whether both sides gave the same answers, as far as they were asked.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.probes.different == 0
    }

    fn add(&mut self, objects: &Objects<'_>, probe: &Probe, from: &Observed, to: &Observed) {
        self.probes.compared += 1;
        for part in from.changing().union(to.changing()) {
            *self.left_out.entry(part.to_string()).or_default() += 1;
        }
        let mut found = unequal(from, to);
        let here = if found.is_empty() { Located::default() } else { located(objects.snapshot, probe) };
        if is_limited(here, &found) {
            *self
                .left_out
                .entry("all of an answer that a limit of requests refused".to_owned())
                .or_default() += 1;
            found.clear();
        }
        found.retain(|it| {
            let excused = is_own(objects.config(), here, &it.part) || is_chance(here, &it.part);
            if excused {
                *self.left_out.entry(it.part.to_string()).or_default() += 1;
            }
            !excused
        });
        if found.is_empty() {
            self.probes.identical += 1;
            return;
        }
        self.probes.different += 1;
        let statuses: Vec<u16> = found
            .iter()
            .filter(|it| it.part == Part::Status)
            .flat_map(|it| [&it.from, &it.to])
            .filter_map(|status| status.as_ref()?.parse().ok())
            .collect();
        for (one, also) in gathered(found) {
            let cause = explain::cause(
                objects,
                &Asked { probe, part: &one.part, statuses: &statuses, located: here },
            );
            let changed = self.changed.contains(&cause.object);
            let said = said(objects, &cause);
            let [from, to] = [one.from, one.to].map(|value| value.map(shortened));
            self.differences.push(Difference {
                probe: probe.clone(),
                part: one.part,
                from,
                to,
                also,
                cause,
                said,
                changed,
            });
        }
    }
}

/// With another status, or none, the whole answer is another one: that is one difference.
fn gathered(mut found: Vec<Unequal>) -> Vec<(Unequal, Vec<Part>)> {
    let whole = found.iter().position(|it| matches!(it.part, Part::Exchange | Part::Status));
    match whole {
        Some(at) => {
            let one = found.remove(at);
            vec![(one, found.into_iter().map(|it| it.part).collect())]
        }
        None => found.into_iter().map(|it| (it, Vec::new())).collect(),
    }
}

/// What each controller makes of its own, so that it cannot be the same.
fn is_own(config: &Config, here: Located<'_>, part: &Part) -> bool {
    match part {
        Part::Certificate | Part::CertificateNames => {
            let named =
                here.host.and_then(|host| host.certificate.as_ref()).or(config.default_certificate.as_ref());
            named.is_none_or(|key| !config.certificates.contains_key(key))
        }
        Part::Cookie { name, attribute } if attribute.is_empty() => sessions(config, here).contains(&**name),
        _ => false,
    }
}

/// What depends on the backend that chance gives to a rule with several.
fn is_chance(here: Located<'_>, part: &Part) -> bool {
    let Some(Action::Forward(backends)) = here.rule.map(|rule| &rule.action) else { return false };
    let shares = backends.iter().filter(|backend| backend.weight > 0).count();
    shares > 1 && matches!(part, Part::Status | Part::Body | Part::Seen("service"))
}

/// The cookies whose values name endpoints.
fn sessions<'c>(config: &'c Config, here: Located<'_>) -> BTreeSet<&'c str> {
    let backends = match here.rule.map(|rule| &rule.action) {
        Some(Action::Forward(backends)) => backends.as_slice(),
        _ => &[],
    };
    let backends = backends.iter().filter_map(|it| config.backends.get(&it.backend));
    let names = backends.filter_map(|backend| match &backend.session {
        Some(SessionKey::Cookie(cookie)) => Some(&*cookie.name),
        _ => None,
    });
    names.collect()
}

/// Whether one side refused what the other let through because of the rate of all probes.
fn is_limited(here: Located<'_>, found: &[Unequal]) -> bool {
    let Some(status) = found.iter().find(|it| it.part == Part::Status) else { return false };
    let guards = here.rule.iter().flat_map(|rule| &rule.phases.guards);
    let mut limits = guards.filter_map(|guard| match guard {
        Guard::RateLimit(limit) => Some(limit.status),
        Guard::ConcurrencyLimit(limit) => Some(limit.status),
        _ => None,
    });
    limits.any(|limit| {
        let limit = Some(limit.to_string());
        status.from == limit || status.to == limit
    })
}

/// Errors and warnings about the object that explains a difference.
fn said(objects: &Objects<'_>, cause: &Cause) -> Vec<String> {
    let Some((kind, key)) = cause.object.split_once(' ') else { return Vec::new() };
    let Some(key) = ObjectKey::parse(key) else { return Vec::new() };
    let all = objects.said_about(kind, &key).filter(|it| it.severity != Severity::Note);
    all.filter(|it| *it.origin.field != *cause.field)
        .map(|it| format!("{}: {}; {}", it.origin.field, it.problem, it.consequence))
        .collect()
}

/// A sentence on a side that sends most clients somewhere else, and the other side does not.
fn led_away(plan: &Plan, findings: &Findings, target: &Target, at: usize) -> Option<String> {
    let hosts = plan.hosts();
    let location = Part::Field("location".to_owned());
    let mut away: BTreeMap<String, usize> = BTreeMap::new();
    let mut answered = 0;
    for sides in &findings.observed {
        answered += usize::from(sides[at].of(&Part::Status).is_some());
        let [this, other] = [at, 1 - at].map(|side| sides[side].of(&location));
        let Some(host) = this.filter(|_| this != other).and_then(host_of) else { continue };
        if !hosts.contains_key(host) {
            *away.entry(host.to_owned()).or_default() += 1;
        }
    }
    let (host, count) = away.into_iter().max_by_key(|(_, count)| *count)?;
    (2 * count > answered).then(|| {
        format!(
            "{target} redirects {count} of {answered} probes to {host}, which no object mentions: is this the address of the \
             controller itself? Redirects are not followed"
        )
    })
}

/// The host of a URL.
fn host_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    rest.split(['/', ':', '?']).next()
}

fn shortened(value: String) -> String {
    match value.char_indices().nth(LONGEST_VALUE) {
        Some((at, _)) => format!("{}... ({} bytes)", &value[..at], value.len()),
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use fairway_ingress::Translation;
    use fairway_routing::Snapshot;

    use super::*;
    use crate::address::Schemes;
    use crate::answer::{self, Answer};
    use crate::facts::Annotated;
    use crate::probe::{Ask, Purpose, Scheme};

    /// The report on one probe, by what the two sides said to it in each round.
    fn report_on(sides: [&[Answer]; 2]) -> Report {
        let (snapshot, translation, annotated) =
            (Snapshot::default(), Translation::default(), Annotated::default());
        let mut plan = Plan::of(&snapshot, Schemes::Http, 10);
        plan.probes = vec![Probe::request(Scheme::Http, &"a.test".into(), Ask::Get, "/", Purpose::Path)];
        let observed = sides.map(|rounds| {
            let mut observed = Observed::default();
            for answer in rounds {
                observed.add(answer.clone());
            }
            observed
        });
        let findings = Findings { observed: vec![observed], partial: None, notes: Vec::new() };
        let objects = Objects {
            snapshot: &snapshot,
            translation: &translation,
            diagnostics: &[],
            annotated: &annotated,
            prefix: "nginx.ingress.kubernetes.io",
            settings: None,
        };
        let target = Target { flag: "--from", address: "a.test".parse().unwrap() };
        Report::of(&plan, &findings, &objects, [&target, &target], &[])
    }

    #[test]
    fn a_probe_that_a_side_answers_in_one_round_only_makes_the_report_partial() {
        let answered =
            Answer::from([(Part::Exchange, "answered".to_owned()), (Part::Status, "200".to_owned())]);
        let steady = [answered.clone(), answered.clone()];
        for failure in ["the connection ended without an answer", answer::LATE] {
            let flaky = [answered.clone(), answer::without(failure)];
            for sides in [[&steady, &flaky], [&flaky, &steady]] {
                let report = report_on(sides.map(|side| &side[..]));
                let Counts { compared, identical, unanswered, .. } = report.probes;
                assert_eq!((compared, identical, unanswered), (0, 0, 1), "{failure}");
                assert!(report.partial.unwrap().contains("GET http://a.test/"), "{failure}");
            }
        }
        let report = report_on([&steady, &steady]);
        assert_eq!((report.probes.identical, report.partial), (1, None));
    }

    fn other(part: Part) -> Unequal {
        Unequal { part, from: Some("1".to_owned()), to: None }
    }

    #[test]
    fn another_status_is_one_difference_and_names_what_differs_with_it() {
        let found = vec![other(Part::Status), other(Part::Field("location".to_owned())), other(Part::Body)];
        let gathered = gathered(found);
        assert_eq!(gathered.len(), 1);
        assert_eq!(gathered[0].0.part, Part::Status);
        assert_eq!(gathered[0].1, [Part::Field("location".to_owned()), Part::Body]);
        let apart = super::gathered(vec![other(Part::Body), other(Part::Seen("path"))]);
        assert_eq!(apart.len(), 2);
    }

    #[test]
    fn hosts_of_locations_and_long_values() {
        assert_eq!(host_of("https://a.test:8443/x"), Some("a.test"));
        assert_eq!(host_of("/x"), None);
        assert_eq!(shortened("é".repeat(241)), format!("{}... (482 bytes)", "é".repeat(240)));
        assert_eq!(shortened("short".to_owned()), "short");
    }
}
