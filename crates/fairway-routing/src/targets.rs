//! Which backend gets a request, by weight. Knows no endpoints.

use crate::slots::BackendSlot;

/// The backends of a rule that have a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Targets {
    /// None: the rule answers itself, has no backend, or all weights are zero.
    None,
    /// All requests go here.
    One(BackendSlot),
    /// They are shared out.
    Weighted(Weighted),
}

/// Backends with their shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weighted {
    /// The slot and the sum of all weights up to and including its own; the last sum is the total.
    bounds: Box<[(u64, BackendSlot)]>,
}

impl Targets {
    /// Takes slots with their weights; those of weight zero get nothing (Gateway API `HTTPBackendRef.weight`).
    pub(crate) fn new(weighted: impl IntoIterator<Item = (BackendSlot, u32)>) -> Self {
        let mut total = 0;
        let bounds: Box<[_]> = weighted
            .into_iter()
            .filter(|(_, weight)| *weight > 0)
            .map(|(slot, weight)| {
                total += u64::from(weight);
                (total, slot)
            })
            .collect();
        match &*bounds {
            [] => Self::None,
            [(_, slot)] => Self::One(*slot),
            _ => Self::Weighted(Weighted { bounds }),
        }
    }

    /// The backend for a random number that is uniform over all of `u32`.
    #[inline]
    #[must_use]
    pub fn pick(&self, random: u32) -> Option<BackendSlot> {
        match self {
            Self::None => None,
            Self::One(slot) => Some(*slot),
            Self::Weighted(weighted) => Some(weighted.pick(random)),
        }
    }

    /// Every backend that can be picked.
    pub fn slots(&self) -> impl Iterator<Item = BackendSlot> {
        let (one, many) = match self {
            Self::None => (None, &[][..]),
            Self::One(slot) => (Some(*slot), &[][..]),
            Self::Weighted(weighted) => (None, &*weighted.bounds),
        };
        one.into_iter().chain(many.iter().map(|(_, slot)| *slot))
    }
}

impl Weighted {
    fn pick(&self, random: u32) -> BackendSlot {
        let (total, last) = self.bounds[self.bounds.len() - 1];
        let point = ((u128::from(random) * u128::from(total)) >> 32) as u64;
        let index = self.bounds.partition_point(|(bound, _)| *bound <= point);
        self.bounds.get(index).map_or(last, |(_, slot)| *slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(weights: &[u32]) -> Vec<usize> {
        let targets = Targets::new(weights.iter().enumerate().map(|(n, w)| (BackendSlot(n as u32), *w)));
        let mut counts = vec![0; weights.len()];
        for n in 0..100_000u32 {
            let slot = targets.pick(n * (u32::MAX / 100_000)).expect("there are weights");
            counts[slot.0 as usize] += 1;
        }
        counts
    }

    #[test]
    fn shares_follow_the_weights() {
        let counts = counts(&[90, 0, 10]);
        assert!((89_990..=90_010).contains(&counts[0]), "{counts:?}");
        assert_eq!(counts[1], 0);
        assert!((9_990..=10_010).contains(&counts[2]), "{counts:?}");
    }

    #[test]
    fn the_largest_weights_do_not_overflow() {
        assert_eq!(counts(&[u32::MAX, u32::MAX]), [50_001, 49_999]);
    }

    #[test]
    fn weights_that_are_all_zero_pick_nothing() {
        assert_eq!(Targets::new([(BackendSlot(0), 0), (BackendSlot(1), 0)]), Targets::None);
        assert_eq!(Targets::None.pick(7), None);
    }

    #[test]
    fn a_single_share_is_no_lottery() {
        assert_eq!(Targets::new([(BackendSlot(3), 5), (BackendSlot(4), 0)]), Targets::One(BackendSlot(3)));
    }
}
