//! Where Fairway answers otherwise than the recorded ingress-nginx on purpose, exactly. The reasons at length are in
//! docs/design/0003-differences-from-ingress-nginx.md; whatever is not here must agree.

/// A deviation that is meant.
pub struct Difference {
    pub case: &'static str,
    /// The exchange by its number in the case, from 0.
    pub exchange: usize,
    pub what: &'static str,
    pub recorded: &'static str,
    pub now: &'static str,
    pub why: &'static str,
}

/// All of them.
pub const DIFFERENCES: &[Difference] = &[];
