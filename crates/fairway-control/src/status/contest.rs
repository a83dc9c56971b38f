//! Another writer replaces the addresses that were written, again and again: noticed, said, and not answered in kind.
//! Pure; the time is passed in.

use std::sync::Arc;
use std::time::Duration;

use fairway_model::Origin;
use fairway_translate::{Diagnostic, ObjectKey, Severity};
use tokio::time::Instant;

use super::pauses::growing;

/// From so many replacements on it is no accident.
const NO_ACCIDENT: u32 = 3;
/// The pause before a replaced status is written again, the first time; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);
/// Without a replacement for so long, the other writer is gone.
const PEACE: Duration = Duration::from_secs(60 * 60);

/// The replacements of one Ingress's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Contest {
    /// None yet.
    #[default]
    Peace,
    /// There were some.
    Replaced { times: u32, last: Instant, by: Option<Arc<str>> },
}

impl Contest {
    /// Somebody else wrote other addresses.
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

    /// What is said about it; nothing while it may be an accident.
    pub(crate) fn diagnostic(&self, ingress: &ObjectKey, now: Instant) -> Option<Diagnostic> {
        let Self::Replaced { times, last, by } = self else { return None };
        if *times < NO_ACCIDENT || now >= *last + PEACE {
            return None;
        }
        let other =
            by.as_ref().map_or("another writer".to_owned(), |name| format!("field manager \"{name}\""));
        Some(Diagnostic {
            severity: Severity::Warning,
            origin: Origin::object("Ingress", &ingress.namespace, &ingress.name).at("status.loadBalancer"),
            code: "contested-status",
            problem: format!("{other} replaces the addresses that are written here, again and again"),
            consequence:
                "they are written less and less often; let one controller alone own the class, or run this \
                          one with --no-status"
                    .to_owned(),
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
            assert_eq!(contest.diagnostic(&key, now).is_some(), times >= 3, "{times}");
            let until = contest.pause_until().unwrap();
            pauses.push((until - now).as_secs());
            now = until;
        }
        assert_eq!(pauses[..4], [2, 4, 8, 16]);
        assert_eq!(pauses[11], 1800);
        let said = contest.diagnostic(&key, now).unwrap().to_string();
        assert!(
            said.contains("Ingress a/web status.loadBalancer: field manager \"nginx\" replaces"),
            "{said}"
        );
    }

    #[test]
    fn is_forgotten_after_an_hour_of_peace() {
        let (mut contest, now) = (Contest::default(), Instant::now());
        for _ in 0..5 {
            contest.replaced(now);
        }
        let later = now + PEACE;
        assert!(contest.diagnostic(&ObjectKey::new("a", "web"), later).is_none());
        contest.replaced(later);
        assert_eq!(contest.pause_until(), Some(later + FIRST_PAUSE));
    }
}
