//! What was spent between the beginning and the end of a measurement, and what that costs per request.

use crate::coverage::Coverage;
use crate::results::Cost;

/// Sums of what subjects used between the beginning and the last reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// User and system time, seconds.
    pub cpu_s: f64,
    /// User time, seconds, where all subjects tell.
    pub user_s: Option<f64>,
    /// Memory at the last reading of those that were there then, bytes.
    pub memory_bytes: Option<u64>,
    /// Context switches, where threads did not end meanwhile; samples do not tell.
    pub switches: Option<u64>,
    /// How long, seconds.
    pub seconds: f64,
    /// What the sums rest on, where somebody else's samples were all there is.
    pub(crate) coverage: Option<Coverage>,
}

impl Spent {
    /// With what was spent in the time that followed.
    #[must_use]
    pub fn and(self, next: &Self) -> Self {
        // The first of a sum.
        if self.seconds == 0.0 {
            return *next;
        }
        let coverage = self.coverage.zip(next.coverage).map(|(one, other)| one.and(&other));
        Self {
            cpu_s: coverage.map_or(self.cpu_s + next.cpu_s, |coverage| coverage.cpu_s()),
            user_s: self.user_s.zip(next.user_s).map(|(one, other)| one + other),
            memory_bytes: next.memory_bytes,
            switches: self.switches.zip(next.switches).map(|(one, other)| one + other),
            seconds: self.seconds + next.seconds,
            coverage,
        }
    }

    /// As a cost of so many answered requests.
    ///
    /// # Errors
    /// There was no reading, or too few samples: a sentence.
    pub fn cost(&self, requests: u64, source: &str, of: &str) -> Result<Cost, String> {
        if let Some(reason) = self.coverage.and_then(|coverage| coverage.wanting(self.seconds)) {
            return Err(reason);
        }
        if self.cpu_s <= 0.0 {
            return Err(format!("nothing of {of} could be read ({source})"));
        }
        Ok(Cost {
            cpu_s: self.cpu_s,
            user_s: self.user_s,
            us_per_request: if requests == 0 { 0.0 } else { self.cpu_s * 1e6 / requests as f64 },
            cpus: self.cpu_s / self.seconds.max(1e-9),
            memory_bytes: self.memory_bytes,
            switches: self.switches,
            source: source.to_owned(),
            of: of.to_owned(),
            covered: self.coverage.map(|coverage| coverage.part()),
        })
    }
}
