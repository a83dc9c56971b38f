//! What is known of an endpoint, copied for whoever looks at it from outside. Nothing here changes what is known.

use std::time::Duration;

use fairway_net::clock::Instant;

use super::health::{Health, THIRDS};

/// An endpoint as one worker knows it, or as several do together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointState {
    /// Workers that know it.
    pub workers: u32,
    /// Those that have ejected it.
    pub ejected_by: u32,
    /// Of these, those whose probe is under way.
    pub probed_by: u32,
    /// Those that suspect it, because its last connect lost a race.
    pub suspected_by: u32,
    /// How long it stays ejected at most; zero where it is due for a probe.
    pub ejected_for: Duration,
    /// Whether its health checks fail.
    pub fails_checks: bool,
    /// Failures in a row, in hundredths: the most that a worker counts of an endpoint that is in use. One that no other endpoint
    /// contradicts counts a third.
    pub failures: u32,
    /// Attempts under way with it, connects included.
    pub under_way: u32,
    /// Connections that wait for a request.
    pub idle: usize,
    /// Connections that carry requests or are being opened.
    pub busy: usize,
    /// From a request to its response head: the longest of the workers' moving averages. `None` before the first response.
    pub latency: Option<Duration>,
    /// From the beginning of a connect to its end, TLS included: the longest of the workers' moving averages.
    pub connect_time: Option<Duration>,
}

impl EndpointState {
    /// What its health says, as one worker has it.
    pub(super) fn of_health(health: Health, now: Instant) -> Self {
        let mut state = Self { workers: 1, ..Self::default() };
        match health {
            Health::Good { failures } => state.failures = u32::from(failures) * 100 / u32::from(THIRDS),
            Health::Suspect { .. } => state.suspected_by = 1,
            Health::Ejected { until, .. } => {
                state.ejected_by = 1;
                state.ejected_for = until.saturating_duration_since(now);
            }
            // One that was given up is due again.
            Health::Probing { until, .. } => {
                state.ejected_by = 1;
                state.probed_by = u32::from(until > now);
            }
        }
        state
    }

    /// Adds what another worker knows.
    pub fn merge(&mut self, other: &Self) {
        self.workers += other.workers;
        self.ejected_by += other.ejected_by;
        self.probed_by += other.probed_by;
        self.suspected_by += other.suspected_by;
        self.ejected_for = self.ejected_for.max(other.ejected_for);
        self.fails_checks |= other.fails_checks;
        self.failures = self.failures.max(other.failures);
        self.under_way += other.under_way;
        self.idle += other.idle;
        self.busy += other.busy;
        self.latency = self.latency.max(other.latency);
        self.connect_time = self.connect_time.max(other.connect_time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn health_is_told_as_of_now() {
        let now = Instant::now();
        let of = |health| EndpointState::of_health(health, now);
        assert_eq!(of(Health::Good { failures: 4 }).failures, 133);
        assert_eq!(of(Health::Suspect { until: now }).suspected_by, 1);
        let ejected = of(Health::Ejected { until: now + SECOND, length: SECOND });
        assert_eq!((ejected.ejected_by, ejected.ejected_for), (1, SECOND));
        let due = of(Health::Ejected { until: now, length: SECOND });
        assert_eq!((due.ejected_by, due.ejected_for), (1, Duration::ZERO));
        let probing = |until| of(Health::Probing { length: SECOND, until });
        assert_eq!((probing(now + SECOND).ejected_by, probing(now + SECOND).probed_by), (1, 1));
        assert_eq!(probing(now).probed_by, 0, "that probe is given up");
    }

    #[test]
    fn what_workers_know_is_added_up_and_of_times_the_longest_counts() {
        let one = EndpointState {
            workers: 1,
            ejected_by: 1,
            ejected_for: SECOND,
            under_way: 2,
            idle: 3,
            busy: 4,
            latency: Some(SECOND),
            ..EndpointState::default()
        };
        let mut both = EndpointState { workers: 1, failures: 33, idle: 5, ..EndpointState::default() };
        both.merge(&one);
        let expected = EndpointState { workers: 2, failures: 33, idle: 8, ..one };
        assert_eq!(both, expected);
    }
}
