//! Attribution of failed and repeated requests to their cause, and counters of them.

use crate::cause::Cause;

/// The cause of a failed or repeated request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribution {
    /// The client.
    Client,
    /// An endpoint, or the lack of one.
    Endpoint,
    /// A service that Fairway asks before it forwards a request.
    Service,
    /// An object that has been asking for something impossible for a while.
    Configuration,
    /// Fairway: it had too little memory, room or connections.
    Fairway,
    /// A change of the configuration that the worker had just adopted: without it, the request would not have failed in this
    /// way.
    ConfigurationChange,
    /// The process was shutting down, and its drain timeout had passed.
    Roll,
}

/// The number of attributions.
const ATTRIBUTIONS: usize = Attribution::ALL.len();

impl Attribution {
    /// All attributions, in the order of [`Costs`].
    pub const ALL: [Self; 7] = [
        Self::Client,
        Self::Endpoint,
        Self::Service,
        Self::Configuration,
        Self::Fairway,
        Self::ConfigurationChange,
        Self::Roll,
    ];

    /// The name in metrics and pages.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Endpoint => "endpoint",
            Self::Service => "service",
            Self::Configuration => "configuration",
            Self::Fairway => "fairway",
            Self::ConfigurationChange => "configuration_change",
            Self::Roll => "roll",
        }
    }

    /// Whether Fairway, its operation or its configuration made the request fail.
    #[must_use]
    pub const fn is_self_inflicted(self) -> bool {
        matches!(self, Self::Fairway | Self::ConfigurationChange | Self::Roll)
    }
}

impl From<Cause> for Attribution {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Client => Self::Client,
            Cause::Configuration => Self::Configuration,
            Cause::Endpoint => Self::Endpoint,
            Cause::Service => Self::Service,
            Cause::Fairway => Self::Fairway,
        }
    }
}

/// What happened to a request that failed or was repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestOutcome {
    /// The client got no complete response of an endpoint.
    Failed,
    /// The client got one, after a failed attempt.
    Repeated,
}

impl RequestOutcome {
    /// Both outcomes.
    pub const ALL: [Self; 2] = [Self::Failed, Self::Repeated];

    /// The name in metrics and pages.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Repeated => "repeated",
        }
    }
}

/// Numbers of failed and repeated requests, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    failed: [u64; ATTRIBUTIONS],
    repeated: [u64; ATTRIBUTIONS],
}

impl Costs {
    /// The number of requests with this attribution and outcome.
    #[must_use]
    pub const fn count(&self, attribution: Attribution, outcome: RequestOutcome) -> u64 {
        match outcome {
            RequestOutcome::Failed => self.failed[attribution as usize],
            RequestOutcome::Repeated => self.repeated[attribution as usize],
        }
    }

    /// The number of failed requests that were self-inflicted.
    #[must_use]
    pub fn self_inflicted(&self) -> u64 {
        let self_inflicted = Attribution::ALL.into_iter().filter(|it| it.is_self_inflicted());
        self_inflicted.map(|it| self.count(it, RequestOutcome::Failed)).sum()
    }

    /// Counts a request.
    pub(crate) fn add(&mut self, attribution: Attribution, outcome: RequestOutcome) {
        match outcome {
            RequestOutcome::Failed => self.failed[attribution as usize] += 1,
            RequestOutcome::Repeated => self.repeated[attribution as usize] += 1,
        }
    }

    /// Adds the numbers of another worker.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (own, more) in self.failed.iter_mut().zip(other.failed) {
            *own += more;
        }
        for (own, more) in self.repeated.iter_mut().zip(other.repeated) {
            *own += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_has_its_own_name() {
        let mut costs = Costs::default();
        for attribution in Attribution::ALL {
            costs.add(attribution, RequestOutcome::Failed);
        }
        costs.add(Attribution::Roll, RequestOutcome::Repeated);
        let mut sum = costs;
        sum.merge(&costs);
        for attribution in Attribution::ALL {
            let expected = (2, if attribution == Attribution::Roll { 2 } else { 0 });
            let found = RequestOutcome::ALL.map(|outcome| sum.count(attribution, outcome));
            assert_eq!((found[0], found[1]), expected, "{}", attribution.label());
        }
        assert_eq!(sum.self_inflicted(), 6, "a repeated request ended well");
    }
}
