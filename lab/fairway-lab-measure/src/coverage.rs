//! How much of a measured time samples cover. What too few samples cover is no figure.

/// Less than this of a pod's time, seconds, is one or two samples and says little.
const LEAST_S: f64 = 10.0;
/// Less than this part of the pods' time stands for too much that nobody saw.
const LEAST_PART: f64 = 0.5;

/// Time that samples cover, and what was used in it; pods add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Piece {
    pub(crate) cpu_s: f64,
    pub(crate) seconds: f64,
}

/// How much of a measured time samples cover, and the CPU time that they counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Coverage {
    /// Between samples that were both taken in it.
    pub(crate) covered: Piece,
    /// Between one before its beginning and one in it: it counts where the time before counts too.
    pub(crate) bridge: Piece,
    /// How long pods were there, all together.
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

    /// Why that is no figure, if it is none.
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
        let sum = |one: Piece, other: Piece| Piece {
            cpu_s: one.cpu_s + other.cpu_s,
            seconds: one.seconds + other.seconds,
        };
        Self {
            covered: sum(sum(self.covered, next.covered), next.bridge),
            bridge: self.bridge,
            present_s: self.present_s + next.present_s,
        }
    }
}
