//! Detects another writer that keeps replacing the written status, reports it, and backs off. Pure; the time is passed in.

use std::sync::Arc;
use std::time::Duration;

use fairway_model::Origin;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{Kind, ObjectKey};
use tokio::time::Instant;

use super::observed::FIELD_MANAGER;
use super::pauses::doubled_pause;

/// This many replacements are no accident.
const MIN_REPORTED_REPLACEMENTS: u32 = 3;
/// The pause before a replaced status is written again; doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const MAX_PAUSE: Duration = Duration::from_secs(30 * 60);
/// Without a replacement for this long, the other writer is gone.
const FORGET_AFTER: Duration = Duration::from_secs(60 * 60);

/// The texts for the status of one kind of object.
struct ContestTexts {
    field: &'static str,
    /// What the other writer does.
    problem: &'static str,
    consequence: &'static str,
}

const INGRESS_TEXTS: ContestTexts = ContestTexts {
    field: "status.loadBalancer",
    problem: "replaces the addresses that are written here, again and again",
    consequence: "they are written less and less often; let one controller alone own the class, or run this \
                  one with --no-status",
};
const GATEWAY_API_TEXTS: ContestTexts = ContestTexts {
    field: "status",
    problem: "keeps replacing the status that Fairway writes",
    consequence: "Fairway writes it less and less often, in the end every 30 minutes; only one controller \
                  may use a controllerName: give a second installation another one with --gateway-controller",
};

/// Replacements of one object's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum WriterConflict {
    /// None so far.
    #[default]
    NoReplacement,
    /// At least one.
    Replaced { times: u32, last: Instant, by_manager: Option<Arc<str>> },
}

impl WriterConflict {
    /// The status was replaced by another writer.
    pub(crate) fn record_replacement(&mut self, now: Instant) {
        let (times, by) = match self {
            Self::Replaced { times, last, by_manager: by } if now < *last + FORGET_AFTER => {
                (times.saturating_add(1), by.take())
            }
            _ => (1, None),
        };
        *self = Self::Replaced { times, last: now, by_manager: by };
    }

    /// Records the name of the other writer.
    pub(crate) fn set_other_writer(&mut self, manager: &Arc<str>) {
        if let Self::Replaced { by_manager: by, .. } = self {
            *by = Some(manager.clone());
        }
    }

    /// The status must not be written before this time.
    pub(crate) fn pause_until(&self) -> Option<Instant> {
        match self {
            Self::NoReplacement => None,
            Self::Replaced { times, last, .. } => Some(*last + pause(*times)),
        }
    }

    /// Whether the other writer, if there was one, is gone.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        match self {
            Self::NoReplacement => true,
            Self::Replaced { last, .. } => now >= *last + FORGET_AFTER,
        }
    }

    /// The diagnostic; `None` while it may be an accident.
    pub(crate) fn diagnostic(&self, kind: Kind, key: &ObjectKey, now: Instant) -> Option<Diagnostic> {
        let Self::Replaced { times, by_manager: by, .. } = self else { return None };
        if *times < MIN_REPORTED_REPLACEMENTS || self.is_over(now) {
            return None;
        }
        let other = match by.as_deref() {
            // This process knows its own writes, so another process uses this name.
            Some(FIELD_MANAGER) => "another installation of Fairway".to_owned(),
            Some(name) => format!("field manager \"{name}\""),
            None => "another writer".to_owned(),
        };
        let ContestTexts { field, problem, consequence } =
            if kind == Kind::Ingress { &INGRESS_TEXTS } else { &GATEWAY_API_TEXTS };
        Some(Diagnostic {
            severity: Severity::Warning,
            origin: Origin::object(kind.name(), &key.namespace, &key.name).at(*field),
            code: "contested-status",
            problem: format!("{other} {problem}"),
            consequence: (*consequence).to_owned(),
        })
    }
}

fn pause(times: u32) -> Duration {
    doubled_pause(FIRST_PAUSE, times.saturating_sub(1), MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_replacement_is_reported_and_pauses_grow() {
        let (mut contest, mut now) = (WriterConflict::default(), Instant::now());
        let key = ObjectKey::new("a", "web");
        let mut pauses = Vec::new();
        for times in 1..=12 {
            contest.record_replacement(now);
            contest.set_other_writer(&"nginx".into());
            assert_eq!(contest.diagnostic(Kind::Ingress, &key, now).is_some(), times >= 3, "{times}");
            let until = contest.pause_until().unwrap();
            pauses.push((until - now).as_secs());
            now = until;
        }
        assert_eq!(pauses[..4], [2, 4, 8, 16]);
        assert_eq!(pauses[11], 1800);
        let message = contest.diagnostic(Kind::Ingress, &key, now).unwrap().to_string();
        assert!(
            message.contains("Ingress a/web status.loadBalancer: field manager \"nginx\" replaces"),
            "{message}"
        );
    }

    #[test]
    fn a_gateway_api_object_has_its_own_texts_and_the_other_writer_may_be_a_fairway() {
        let (mut contest, now) = (WriterConflict::default(), Instant::now());
        for _ in 0..3 {
            contest.record_replacement(now);
        }
        let message_at = |contest: &WriterConflict| {
            contest.diagnostic(Kind::GatewayClass, &ObjectKey::new("", "edge"), now).unwrap().to_string()
        };
        assert!(message_at(&contest).contains("GatewayClass edge status: another writer keeps replacing"));
        contest.set_other_writer(&FIELD_MANAGER.into());
        assert!(message_at(&contest).contains("another installation of Fairway keeps replacing the status"));
    }

    #[test]
    fn is_forgotten_after_an_hour_without_replacements() {
        let (mut contest, now) = (WriterConflict::default(), Instant::now());
        for _ in 0..5 {
            contest.record_replacement(now);
        }
        let later = now + FORGET_AFTER;
        assert!(contest.is_over(later));
        assert!(contest.diagnostic(Kind::Ingress, &ObjectKey::new("a", "web"), later).is_none());
        contest.record_replacement(later);
        assert_eq!(contest.pause_until(), Some(later + FIRST_PAUSE));
    }
}
