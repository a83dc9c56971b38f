//! Selects a backend for a request, by weight.

use std::sync::Arc;

use fairway_model::StickyBackends;

use crate::slots::BackendSlot;

/// The weighted backends of a rule. `R` is the rule of a share.
#[derive(Clone, Debug)]
pub enum Targets<R> {
    /// None: the rule does not forward, has no backends, or all weights are zero.
    None,
    /// All requests go to one backend.
    One(BackendSlot),
    /// They are distributed by weight.
    Weighted(Weighted<BackendSlot>),
    /// They are distributed by weight, and some shares have their own filters or no backend: each share has its own
    /// rule, by which its requests are forwarded; requests of a share without one are answered with 500.
    Shares(Shares<R>),
}

/// Shares with their own rules.
#[derive(Clone, Debug)]
pub struct Shares<R> {
    weighted: Weighted<Option<Box<R>>>,
    /// The sticky sessions of shares.
    sticky: Option<Arc<StickyBackends>>,
}

/// Weighted values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weighted<T> {
    /// The cumulative weight up to and including each value; the last one is the total.
    bounds: Box<[(u64, T)]>,
}

impl<R> Targets<R> {
    /// Weighted slots; those of weight zero get nothing (Gateway API `HTTPBackendRef.weight`).
    pub(crate) fn new(weighted: impl IntoIterator<Item = (BackendSlot, u32)>) -> Self {
        let weighted = Weighted::new(weighted);
        match &*weighted.bounds {
            [] => Self::None,
            [(_, slot)] => Self::One(*slot),
            _ => Self::Weighted(weighted),
        }
    }

    /// The same for shares with their own rules.
    pub(crate) fn of_shares(weighted: impl IntoIterator<Item = (Option<Box<R>>, u32)>) -> Self {
        Self::Shares(Shares { weighted: Weighted::new(weighted), sticky: None })
    }

    /// The same for sticky shares, which keep their sessions even without weight.
    pub(crate) fn of_sticky_shares(
        weighted: impl IntoIterator<Item = (Option<Box<R>>, u32)>,
        sticky: Arc<StickyBackends>,
    ) -> Self {
        Self::Shares(Shares { weighted: Weighted::with_all(weighted), sticky: Some(sticky) })
    }

    /// The backend for a uniformly random `u32`; `None` if shares have their own rules.
    #[inline]
    #[must_use]
    pub fn pick(&self, random: u32) -> Option<BackendSlot> {
        match self {
            Self::None | Self::Shares(_) => None,
            Self::One(slot) => Some(*slot),
            Self::Weighted(weighted) => weighted.pick(random).copied(),
        }
    }

    /// Every backend that [`Self::pick`] may return.
    pub fn slots(&self) -> impl Iterator<Item = BackendSlot> {
        let (one, many) = match self {
            Self::None | Self::Shares(_) => (None, &[][..]),
            Self::One(slot) => (Some(*slot), &[][..]),
            Self::Weighted(weighted) => (None, &*weighted.bounds),
        };
        one.into_iter().chain(many.iter().map(|(_, slot)| *slot))
    }

    /// The rule of every share that has one.
    pub fn rules(&self) -> impl Iterator<Item = &R> {
        let shares = match self {
            Self::None | Self::One(_) | Self::Weighted(_) => &[][..],
            Self::Shares(shares) => &*shares.weighted.bounds,
        };
        shares.iter().filter_map(|(_, rule)| rule.as_deref())
    }
}

impl<R> Shares<R> {
    /// The rule of the share for a uniformly random `u32`; `None` if the share has none.
    #[must_use]
    pub fn pick(&self, random: u32) -> Option<&R> {
        self.weighted.pick(random)?.as_deref()
    }

    /// The sticky sessions.
    #[must_use]
    pub fn sticky(&self) -> Option<&StickyBackends> {
        self.sticky.as_deref()
    }

    /// The rule of the share with this tag in session tokens; `None` if there is no such share, or it has no rule.
    #[must_use]
    pub fn named(&self, tag: &[u8]) -> Option<&R> {
        let tags = &self.sticky.as_ref()?.tags;
        let at = tags.iter().position(|it| !it.is_empty() && it.as_bytes() == tag)?;
        self.weighted.bounds.get(at)?.1.as_deref()
    }
}

impl<T> Weighted<T> {
    pub(crate) fn new(weighted: impl IntoIterator<Item = (T, u32)>) -> Self {
        Self::with_all(weighted.into_iter().filter(|(_, weight)| *weight > 0))
    }

    /// The same, including values of weight zero, so that all keep their index.
    fn with_all(weighted: impl IntoIterator<Item = (T, u32)>) -> Self {
        let mut total = 0;
        let bounds = weighted
            .into_iter()
            .map(|(target, weight)| {
                total += u64::from(weight);
                (total, target)
            })
            .collect();
        Self { bounds }
    }

    /// Whether there is no weight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    /// The value for a uniformly random `u32`. `None` if there is no weight.
    #[must_use]
    pub fn pick(&self, random: u32) -> Option<&T> {
        let (total, last) = self.bounds.last().filter(|(total, _)| *total > 0)?;
        let point = ((u128::from(random) * u128::from(*total)) >> 32) as u64;
        let index = self.bounds.partition_point(|(bound, _)| *bound <= point);
        Some(self.bounds.get(index).map_or(last, |(_, target)| target))
    }
}

#[cfg(test)]
mod tests {
    use fairway_model::{
        SameSite, SecureCookie, SessionCarrier, SessionCookie, SessionLifetime, SessionStart, Stickiness,
        StickyFailure,
    };

    use super::*;

    type Targets = super::Targets<&'static str>;

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
    fn weights_of_zero_pick_no_backend() {
        let targets = Targets::new([(BackendSlot(0), 0), (BackendSlot(1), 0)]);
        assert!(matches!(targets, Targets::None));
        assert_eq!(targets.pick(7), None);
        let Targets::Shares(shares) = Targets::of_shares([(None, 0)]) else { panic!("it has shares") };
        assert!(shares.pick(7).is_none());
        let sticky = StickyBackends { session: Arc::new(session()), tags: vec!["a".into()] };
        let Targets::Shares(shares) = Targets::of_sticky_shares([(Some(Box::new("a")), 0)], sticky.into())
        else {
            panic!("it has shares")
        };
        assert_eq!((shares.pick(7), shares.named(b"a")), (None, Some(&"a")));
    }

    #[test]
    fn shares_without_a_rule_have_their_part() {
        let targets = Targets::of_shares([(Some(Box::new("a")), 3), (Some(Box::new("b")), 0), (None, 1)]);
        assert_eq!((targets.pick(0), targets.slots().count()), (None, 0));
        assert_eq!(targets.rules().collect::<Vec<_>>(), [&"a"]);
        let Targets::Shares(shares) = targets else { panic!("it has shares") };
        let quarters = (0..4u32).map(|n| shares.pick(n << 30).copied());
        assert_eq!(quarters.collect::<Vec<_>>(), [Some("a"), Some("a"), Some("a"), None]);
    }

    #[test]
    fn sessions_find_their_share_whatever_its_weight() {
        let tags = vec!["t1".into(), "t2".into(), "".into(), "t1".into()];
        let sticky = Arc::new(StickyBackends { session: Arc::new(session()), tags });
        let targets =
            [(Some(Box::new("a")), 0), (Some(Box::new("b")), 1), (None, 0), (Some(Box::new("d")), 0)];
        let Targets::Shares(shares) = Targets::of_sticky_shares(targets, sticky) else {
            panic!("it has shares")
        };
        let named = [&b"t1"[..], b"t2", b"", b"t3"].map(|tag| shares.named(tag).copied());
        assert_eq!(named, [Some("a"), Some("b"), None, None]);
        for n in 0..4u32 {
            assert_eq!(shares.pick(n << 30), Some(&"b"));
        }
        assert_eq!(shares.pick(u32::MAX), Some(&"b"));
    }

    fn session() -> SessionCookie {
        SessionCookie {
            name: "cart".into(),
            backend: "".into(),
            stickiness: Stickiness::Persistent,
            path: None,
            domain: None,
            expires: None,
            max_age: None,
            secure: SecureCookie::OverTls,
            same_site: SameSite::Strict,
            on_failure: StickyFailure::Moves,
            begins: SessionStart::Here,
            carrier: SessionCarrier::Cookie,
            lifetime: SessionLifetime::default(),
        }
    }

    #[test]
    fn a_single_share_is_no_lottery() {
        let targets = Targets::new([(BackendSlot(3), 5), (BackendSlot(4), 0)]);
        assert!(matches!(targets, Targets::One(BackendSlot(3))));
    }
}
