//! The result of a comparison: how many probes got identical responses, and for each difference the object and field that explain
//! it.

use std::collections::{BTreeMap, BTreeSet};

use fairway_model::{Action, Config, Guard, SessionKey};
use fairway_objects::diagnostic::Severity;
use fairway_objects::object::ObjectKey;
use serde::Serialize;

use crate::explain::{self, Cause, DifferenceContext};
use crate::facts::Objects;
use crate::located::{Located, located};
use crate::observed::{Observed, PartDifference, differing_parts, is_unknown};
use crate::plan::{Plan, Skipped};
use crate::probe::Probe;
use crate::response::Part;
use crate::session::Findings;
use crate::side::Target;

/// Maximum length of a displayed value; longer values are truncated.
const MAX_VALUE_CHARS: usize = 240;

/// The result of a comparison.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The address of the first side.
    pub from: String,
    /// The address of the second side.
    pub to: String,
    /// Why not all probes were compared; `None` if all were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Numbers of probes.
    pub probes: ProbeCounts,
    /// The differing parts, in the order of the probes.
    pub differences: Vec<Difference>,
    /// Parts that were ignored because they change by themselves, with the number of probes.
    pub left_out: BTreeMap<String, usize>,
    /// Objects that changed during the comparison.
    pub changed: Vec<String>,
    /// Other remarks.
    pub notes: Vec<String>,
    /// Probes that were not sent.
    pub skipped: Vec<Skipped>,
}

/// Numbers of probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProbeCounts {
    /// Planned probes.
    pub planned: usize,
    /// Probes with enough responses from both sides.
    pub compared: usize,
    /// Probes with identical responses.
    pub identical: usize,
    /// Probes with a difference.
    pub different: usize,
    /// Probes that cannot be compared, because neither side responded in time or one side responded only in some
    /// rounds.
    pub unanswered: usize,
}

/// A part of the responses to a probe that differs.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// The probe.
    pub probe: Probe,
    /// The part.
    pub part: Part,
    /// The value of the first side; `None` if it has no such part.
    pub from: Option<String>,
    /// The value of the second side.
    pub to: Option<String>,
    /// Other parts that also differ, because the responses are entirely different.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Part>,
    /// The explanation.
    pub cause: Cause,
    /// Errors and warnings of the translation about the same object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<String>,
    /// Whether the object changed during the comparison.
    pub changed: bool,
}

impl Report {
    /// Builds the report. `changed` are the Ingresses that changed during the comparison.
    #[must_use]
    pub fn from_answers(
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
            probes: ProbeCounts { planned: plan.probes.len(), ..ProbeCounts::default() },
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
                "{count} of the probes cannot be compared, because neither side responded in time or one responded only sometimes; \
                 the first is {probe}"
            ));
        }
        for at in [0, 1] {
            report.notes.extend(redirect_note(plan, findings, targets[at], at));
        }
        report
    }

    /// Whether both sides gave identical responses to all compared probes.
    #[must_use]
    pub fn is_same(&self) -> bool {
        self.probes.different == 0
    }

    fn add(&mut self, objects: &Objects<'_>, probe: &Probe, from: &Observed, to: &Observed) {
        self.probes.compared += 1;
        for part in from.changing().union(to.changing()) {
            *self.left_out.entry(part.to_string()).or_default() += 1;
        }
        let mut found = differing_parts(from, to);
        let located_probe =
            if found.is_empty() { Located::default() } else { located(objects.snapshot, probe) };
        if is_limited(located_probe, &found) {
            *self.left_out.entry("the whole response, refused by a rate limit".to_owned()).or_default() += 1;
            found.clear();
        }
        found.retain(|it| {
            let excused =
                is_generated(objects.config(), located_probe, &it.part) || is_random(located_probe, &it.part);
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
            .flat_map(|it| [&it.from, &it.target_text])
            .filter_map(|status| status.as_ref()?.parse().ok())
            .collect();
        for (one, also) in group_differences(found) {
            let cause = explain::cause(
                objects,
                &DifferenceContext { probe, part: &one.part, statuses: &statuses, located: located_probe },
            );
            let changed = self.changed.contains(&cause.object);
            let related = related_diagnostics(objects, &cause);
            let [from, to] = [one.from, one.target_text].map(|value| value.map(truncate_value));
            self.differences.push(Difference {
                probe: probe.clone(),
                part: one.part,
                from,
                to,
                also,
                cause,
                said: related,
                changed,
            });
        }
    }
}

/// Groups the differences of a probe. With another status, or without a response, the whole response is one difference.
fn group_differences(mut found: Vec<PartDifference>) -> Vec<(PartDifference, Vec<Part>)> {
    let whole_response = found.iter().position(|it| matches!(it.part, Part::Exchange | Part::Status));
    match whole_response {
        Some(at) => {
            let difference = found.remove(at);
            vec![(difference, found.into_iter().map(|it| it.part).collect())]
        }
        None => found.into_iter().map(|it| (it, Vec::new())).collect(),
    }
}

/// Whether a part is generated by each controller itself, so that it cannot be identical.
fn is_generated(config: &Config, located: Located<'_>, part: &Part) -> bool {
    match part {
        Part::Certificate | Part::CertificateNames => {
            let named = located
                .host
                .and_then(|host| host.certificate.as_ref())
                .or(config.default_certificate.as_ref());
            named.is_none_or(|key| !config.certificates.contains_key(key))
        }
        Part::Cookie { name, attribute } if attribute.is_empty() => {
            session_cookies(config, located).contains(&**name)
        }
        _ => false,
    }
}

/// Whether a part depends on the randomly chosen backend of a rule with several.
fn is_random(located: Located<'_>, part: &Part) -> bool {
    let Some(Action::Forward(backends)) = located.rule.map(|rule| &rule.action) else { return false };
    let shares = backends.iter().filter(|backend| backend.weight > 0).count();
    shares > 1 && matches!(part, Part::Status | Part::Body | Part::Received("service"))
}

/// The session cookies, whose values name endpoints.
fn session_cookies<'c>(config: &'c Config, located: Located<'_>) -> BTreeSet<&'c str> {
    let backends = match located.rule.map(|rule| &rule.action) {
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

/// Whether only one side refused the probe because of a rate limit.
fn is_limited(located: Located<'_>, found: &[PartDifference]) -> bool {
    let Some(status) = found.iter().find(|it| it.part == Part::Status) else { return false };
    let guards = located.rule.iter().flat_map(|rule| &rule.phases.guards);
    let mut limits = guards.filter_map(|guard| match guard {
        Guard::RateLimit(limit) => Some(limit.status),
        Guard::ConcurrencyLimit(limit) => Some(limit.status),
        _ => None,
    });
    limits.any(|limit| {
        let limit = Some(limit.to_string());
        status.from == limit || status.target_text == limit
    })
}

/// The errors and warnings about the object that explains a difference.
fn related_diagnostics(objects: &Objects<'_>, cause: &Cause) -> Vec<String> {
    let Some((kind, key)) = cause.object.split_once(' ') else { return Vec::new() };
    let Some(key) = ObjectKey::parse(key) else { return Vec::new() };
    let all = objects.diagnostics_of(kind, &key).filter(|it| it.severity != Severity::Note);
    all.filter(|it| *it.origin.field != *cause.field)
        .map(|it| format!("{}: {}; {}", it.origin.field, it.problem, it.consequence))
        .collect()
}

/// A note on a side that redirects most probes to another host, if the other side does not.
fn redirect_note(plan: &Plan, findings: &Findings, target: &Target, at: usize) -> Option<String> {
    let hosts = plan.hosts();
    let location = Part::Header("location".to_owned());
    let mut away: BTreeMap<String, usize> = BTreeMap::new();
    let mut answered = 0;
    for sides in &findings.observed {
        answered += usize::from(sides[at].value_of(&Part::Status).is_some());
        let [this, other] = [at, 1 - at].map(|side| sides[side].value_of(&location));
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

fn truncate_value(value: String) -> String {
    match value.char_indices().nth(MAX_VALUE_CHARS) {
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
    use crate::facts::Annotated;
    use crate::probe::{ProbeKind, Purpose, Scheme};
    use crate::response::{self, ResponseParts};

    /// The report on one probe with these responses of the two sides in each round.
    fn report_on(sides: [&[ResponseParts]; 2]) -> Report {
        let (snapshot, translation, annotated) =
            (Snapshot::default(), Translation::default(), Annotated::default());
        let mut plan = Plan::from_snapshot(&snapshot, Schemes::Http, 10);
        plan.probes =
            vec![Probe::request(Scheme::Http, &"a.test".into(), ProbeKind::Get, "/", Purpose::Path)];
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
        Report::from_answers(&plan, &findings, &objects, [&target, &target], &[])
    }

    #[test]
    fn a_response_in_only_one_round_makes_the_report_partial() {
        let answered =
            ResponseParts::from([(Part::Exchange, "answered".to_owned()), (Part::Status, "200".to_owned())]);
        let steady = [answered.clone(), answered.clone()];
        for failure in ["the connection ended without a response", response::LATE_PREFIX] {
            let flaky = [answered.clone(), response::failure_parts(failure)];
            for sides in [[&steady, &flaky], [&flaky, &steady]] {
                let report = report_on(sides.map(|side| &side[..]));
                let ProbeCounts { compared, identical, unanswered, .. } = report.probes;
                assert_eq!((compared, identical, unanswered), (0, 0, 1), "{failure}");
                assert!(report.partial.unwrap().contains("GET http://a.test/"), "{failure}");
            }
        }
        let report = report_on([&steady, &steady]);
        assert_eq!((report.probes.identical, report.partial), (1, None));
    }

    fn other_difference(part: Part) -> PartDifference {
        PartDifference { part, from: Some("1".to_owned()), target_text: None }
    }

    #[test]
    fn a_different_status_is_one_difference_that_names_the_other_differing_parts() {
        let found = vec![
            other_difference(Part::Status),
            other_difference(Part::Header("location".to_owned())),
            other_difference(Part::Body),
        ];
        let grouped = group_differences(found);
        assert_eq!(grouped.len(), 1);
        assert_eq!(grouped[0].0.part, Part::Status);
        assert_eq!(grouped[0].1, [Part::Header("location".to_owned()), Part::Body]);
        let apart =
            group_differences(vec![other_difference(Part::Body), other_difference(Part::Received("path"))]);
        assert_eq!(apart.len(), 2);
    }

    #[test]
    fn hosts_of_locations_and_long_values() {
        assert_eq!(host_of("https://a.test:8443/x"), Some("a.test"));
        assert_eq!(host_of("/x"), None);
        assert_eq!(truncate_value("é".repeat(241)), format!("{}... (482 bytes)", "é".repeat(240)));
        assert_eq!(truncate_value("short".to_owned()), "short");
    }
}
