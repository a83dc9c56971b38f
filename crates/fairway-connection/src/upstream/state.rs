//! The state of an endpoint, copied for observers such as the admin server.

use std::time::Duration;

use fairway_net::clock::Instant;

use super::health::{Health, THIRDS_PER_FAILURE};

/// The state of an endpoint in one worker, or merged over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointState {
    /// Workers that know it.
    pub workers: u32,
    /// Workers that have ejected it.
    pub ejected_by: u32,
    /// Of these, those with a probe under way.
    pub probed_by: u32,
    /// Workers that suspect it, because its last connect lost a race.
    pub suspected_by: u32,
    /// The longest remaining ejection; zero if it is due for a probe.
    pub ejected_for: Duration,
    /// Whether its health checks fail.
    pub fails_checks: bool,
    /// Consecutive failures in hundredths: the highest count of a worker that uses it. A failure that no other endpoint
    /// contradicts counts a third.
    pub failures: u32,
    /// Attempts in flight, connects included.
    pub in_flight: u32,
    /// Idle connections.
    pub idle: usize,
    /// Connections in use or being opened.
    pub busy: usize,
    /// Time from a request to its response head: the highest moving average of all workers. `None` before the first
    /// response.
    pub latency: Option<Duration>,
    /// Time to connect, TLS included: the highest moving average of all workers.
    pub connect_time: Option<Duration>,
}

impl EndpointState {
    /// From one worker's health of it.
    pub(super) fn from_health(health: Health, now: Instant) -> Self {
        let mut state = Self { workers: 1, ..Self::default() };
        match health {
            Health::Good { failures } => {
                state.failures = u32::from(failures) * 100 / u32::from(THIRDS_PER_FAILURE);
            }
            Health::Suspect { .. } => state.suspected_by = 1,
            Health::Ejected { until, .. } => {
                state.ejected_by = 1;
                state.ejected_for = until.saturating_duration_since(now);
            }
            // A probe that timed out is due again.
            Health::Probing { until, .. } => {
                state.ejected_by = 1;
                state.probed_by = u32::from(until > now);
            }
        }
        state
    }

    /// Adds another worker's state.
    pub fn merge(&mut self, other: &Self) {
        self.workers += other.workers;
        self.ejected_by += other.ejected_by;
        self.probed_by += other.probed_by;
        self.suspected_by += other.suspected_by;
        self.ejected_for = self.ejected_for.max(other.ejected_for);
        self.fails_checks |= other.fails_checks;
        self.failures = self.failures.max(other.failures);
        self.in_flight += other.in_flight;
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
    fn health_is_reported_as_of_now() {
        let now = Instant::now();
        let state_of = |health| EndpointState::from_health(health, now);
        assert_eq!(state_of(Health::Good { failures: 4 }).failures, 133);
        assert_eq!(state_of(Health::Suspect { until: now }).suspected_by, 1);
        let ejected = state_of(Health::Ejected { until: now + SECOND, length: SECOND });
        assert_eq!((ejected.ejected_by, ejected.ejected_for), (1, SECOND));
        let due = state_of(Health::Ejected { until: now, length: SECOND });
        assert_eq!((due.ejected_by, due.ejected_for), (1, Duration::ZERO));
        let probing = |until| state_of(Health::Probing { length: SECOND, until });
        assert_eq!((probing(now + SECOND).ejected_by, probing(now + SECOND).probed_by), (1, 1));
        assert_eq!(probing(now).probed_by, 0, "that probe is given up");
    }

    #[test]
    fn counts_of_workers_are_added_and_the_longest_times_are_used() {
        let state = EndpointState {
            workers: 1,
            ejected_by: 1,
            ejected_for: SECOND,
            in_flight: 2,
            idle: 3,
            busy: 4,
            latency: Some(SECOND),
            ..EndpointState::default()
        };
        let mut both = EndpointState { workers: 1, failures: 33, idle: 5, ..EndpointState::default() };
        both.merge(&state);
        let expected = EndpointState { workers: 2, failures: 33, idle: 8, ..state };
        assert_eq!(both, expected);
    }
}
