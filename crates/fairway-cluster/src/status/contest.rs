//! Another writer replaces the status that was written, again and again: noticed, said, and not answered in kind.
//! Pure; the time is passed in.

use std::sync::Arc;
use std::time::Duration;

use fairway_model::Origin;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{Kind, ObjectKey};
use tokio::time::Instant;

use super::observed::FIELD_MANAGER;
use super::pauses::growing;

/// From so many replacements on it is no accident.
const NO_ACCIDENT: u32 = 3;
/// The pause before a replaced status is written again, the first time; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);
/// Without a replacement for so long, the other writer is gone.
const PEACE: Duration = Duration::from_secs(60 * 60);

/// What is said about the status of a kind of object.
struct Words {
    field: &'static str,
    /// What the other writer does.
    problem: &'static str,
    consequence: &'static str,
}

const OF_INGRESS: Words = Words {
    field: "status.loadBalancer",
    problem: "replaces the addresses that are written here, again and again",
    consequence: "they are written less and less often; let one controller alone own the class, or run this \
                  one with --no-status",
};
const OF_GATEWAY_API: Words = Words {
    field: "status",
    problem: "keeps replacing the status that Fairway writes",
    consequence: "Fairway writes it less and less often, in the end every 30 minutes; only one controller \
                  may use a controllerName: give a second installation another one with --gateway-controller",
};

/// The replacements of one object's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Contest {
    /// None yet.
    #[default]
    Peace,
    /// There were some.
    Replaced { times: u32, last: Instant, by: Option<Arc<str>> },
}

impl Contest {
    /// Somebody else wrote something different.
    pub(crate) fn replaced(&mut self, now: Instant) {
        let (times, by) = match self {
            Self::Replaced { times, last, by } if now < *last + PEACE => (times.saturating_add(1), by.take()),
            _ => (1, None),
        };
        *self = Self::Replaced { times, last: now, by };
    }

    /// That is the other.
    pub(crate) fn by(&mut self, manager: &Arc<str>) {
        if let Self::Replaced { by, .. } = self {
            *by = Some(manager.clone());
        }
    }

    /// Before then nothing is written again.
    pub(crate) fn pause_until(&self) -> Option<Instant> {
        match self {
            Self::Peace => None,
            Self::Replaced { times, last, .. } => Some(*last + pause(*times)),
        }
    }

    /// Whether the other writer, if there was one, is gone.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        match self {
            Self::Peace => true,
            Self::Replaced { last, .. } => now >= *last + PEACE,
        }
    }

    /// What is said about it; nothing while it may be an accident.
    pub(crate) fn diagnostic(&self, kind: Kind, key: &ObjectKey, now: Instant) -> Option<Diagnostic> {
        let Self::Replaced { times, by, .. } = self else { return None };
        if *times < NO_ACCIDENT || self.is_over(now) {
            return None;
        }
        let other = match by.as_deref() {
            // This process knows what it wrote itself.
            Some(FIELD_MANAGER) => "another installation of Fairway".to_owned(),
            Some(name) => format!("field manager \"{name}\""),
            None => "another writer".to_owned(),
        };
        let Words { field, problem, consequence } =
            if kind == Kind::Ingress { &OF_INGRESS } else { &OF_GATEWAY_API };
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
    growing(FIRST_PAUSE, times.saturating_sub(1), LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_said_from_the_third_time_on_names_the_other_and_pauses_ever_longer() {
        let (mut contest, mut now) = (Contest::default(), Instant::now());
        let key = ObjectKey::new("a", "web");
        let mut pauses = Vec::new();
        for times in 1..=12 {
            contest.replaced(now);
            contest.by(&"nginx".into());
            assert_eq!(contest.diagnostic(Kind::Ingress, &key, now).is_some(), times >= 3, "{times}");
            let until = contest.pause_until().unwrap();
            pauses.push((until - now).as_secs());
            now = until;
        }
        assert_eq!(pauses[..4], [2, 4, 8, 16]);
        assert_eq!(pauses[11], 1800);
        let said = contest.diagnostic(Kind::Ingress, &key, now).unwrap().to_string();
        assert!(
            said.contains("Ingress a/web status.loadBalancer: field manager \"nginx\" replaces"),
            "{said}"
        );
    }

    #[test]
    fn an_object_of_the_gateway_api_has_its_own_words_and_fairway_itself_may_be_the_other() {
        let (mut contest, now) = (Contest::default(), Instant::now());
        for _ in 0..3 {
            contest.replaced(now);
        }
        let said = |contest: &Contest| {
            contest.diagnostic(Kind::GatewayClass, &ObjectKey::new("", "edge"), now).unwrap().to_string()
        };
        assert!(said(&contest).contains("GatewayClass edge status: another writer keeps replacing"));
        contest.by(&FIELD_MANAGER.into());
        assert!(said(&contest).contains("another installation of Fairway keeps replacing the status"));
    }

    #[test]
    fn is_forgotten_after_an_hour_of_peace() {
        let (mut contest, now) = (Contest::default(), Instant::now());
        for _ in 0..5 {
            contest.replaced(now);
        }
        let later = now + PEACE;
        assert!(contest.is_over(later));
        assert!(contest.diagnostic(Kind::Ingress, &ObjectKey::new("a", "web"), later).is_none());
        contest.replaced(later);
        assert_eq!(contest.pause_until(), Some(later + FIRST_PAUSE));
    }
}
