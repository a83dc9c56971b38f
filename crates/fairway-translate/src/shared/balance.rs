//! Who of a backend's endpoints gets a request, and what tells backends of the same Service and port apart by it.

use fairway_model::Balancing;

/// Who gets a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Balance(pub(crate) Balancing);

impl Default for Balance {
    fn default() -> Self {
        Self(Balancing::RoundRobin)
    }
}

impl Balance {
    /// What tells backends of the same Service and port apart; empty for requests in turn.
    pub(crate) fn suffix(self) -> &'static str {
        match self.0 {
            Balancing::RoundRobin => "",
            Balancing::PeakEwma => ";ewma",
            Balancing::LeastRequests => ";least-requests",
            Balancing::Random => ";random",
        }
    }
}
