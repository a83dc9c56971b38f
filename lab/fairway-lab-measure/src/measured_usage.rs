//! The usage between the start and the end of a measurement, and the cost per request.

use crate::results::Cost;

/// Less covered time of a pod than this, seconds, is one or two samples and too little.
const LEAST_S: f64 = 10.0;
/// A smaller covered fraction of the pods' time would stand for too much unobserved time.
const LEAST_PART: f64 = 0.5;

/// Time covered by samples and the usage in it, summed over pods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Piece {
    pub(crate) cpu_s: f64,
    pub(crate) seconds: f64,
}

/// How much of a measured period samples cover, and the CPU time in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Coverage {
    /// Between two samples of the period.
    pub(crate) covered: Piece,
    /// Between a sample before the period and one in it: counts if the previous period counts too.
    pub(crate) bridge: Piece,
    /// The total lifetime of pods in the period.
    pub(crate) present_s: f64,
}

impl Coverage {
    /// The part of the pods' time that is covered.
    pub(crate) fn part(&self) -> f64 {
        if self.present_s > 0.0 { (self.covered.seconds / self.present_s).min(1.0) } else { 0.0 }
    }

    /// CPU time: the mean use while samples covered it, for as long as pods were there.
    pub(crate) fn cpu_s(&self) -> f64 {
        let mean = if self.covered.seconds > 0.0 { self.covered.cpu_s / self.covered.seconds } else { 0.0 };
        mean * self.present_s
    }

    /// Why there is no figure, if so.
    pub(crate) fn wanting(&self, seconds: f64) -> Option<String> {
        let covered = self.part() * seconds;
        (covered < LEAST_S || self.part() < LEAST_PART).then(|| {
            format!(
                "samples of its pods cover {covered:.0} s of {seconds:.0} s, and it takes {LEAST_S:.0} s and half of the \
                 time: they are renewed every 10 s or so, so measure for a minute or longer"
            )
        })
    }

    pub(crate) fn and(self, next: &Self) -> Self {
        let add_pieces = |left: Piece, other: Piece| Piece {
            cpu_s: left.cpu_s + other.cpu_s,
            seconds: left.seconds + other.seconds,
        };
        Self {
            covered: add_pieces(add_pieces(self.covered, next.covered), next.bridge),
            bridge: self.bridge,
            present_s: self.present_s + next.present_s,
        }
    }
}

/// Sums of what subjects used between the beginning and the last reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// User and system time, seconds.
    pub cpu_s: f64,
    /// User time, seconds, if all subjects report it.
    pub user_s: Option<f64>,
    /// Memory of the processes that existed at the last reading, in bytes.
    pub memory_bytes: Option<u64>,
    /// Context switches, if no thread ended in the period; unknown for samples.
    pub switches: Option<u64>,
    /// Duration, seconds.
    pub seconds: f64,
    /// The coverage behind the sums, if they come from a kubelet's samples.
    pub(crate) coverage: Option<Coverage>,
}

impl Spent {
    /// Adds the usage of the following period.
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

    /// The cost of `requests` requests.
    ///
    /// # Errors
    /// A sentence that says why there is none: no reading, or too few samples.
    pub fn cost(&self, requests: u64, source: &str, unit: &str) -> Result<Cost, String> {
        if let Some(reason) = self.coverage.and_then(|coverage| coverage.wanting(self.seconds)) {
            return Err(reason);
        }
        if self.cpu_s <= 0.0 {
            return Err(format!("nothing of {unit} could be read ({source})"));
        }
        Ok(Cost {
            cpu_s: self.cpu_s,
            user_s: self.user_s,
            us_per_request: if requests == 0 { 0.0 } else { self.cpu_s * 1e6 / requests as f64 },
            cpus: self.cpu_s / self.seconds.max(1e-9),
            memory_bytes: self.memory_bytes,
            switches: self.switches,
            source: source.to_owned(),
            of: unit.to_owned(),
            covered: self.coverage.map(|coverage| coverage.part()),
        })
    }
}
