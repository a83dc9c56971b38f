//! Identifiers of spans that no other service sees, derived from the parent's identifier so that they need not be stored.

/// The guards span, a child of the server span. Attempts, which are its children as well, have the numbers up to 255.
pub(super) const GUARDS_SPAN: u64 = 256;
/// The connect span, a child of an attempt.
pub(super) const CONNECT_SPAN: u64 = 257;
/// The TLS handshake span, a child of an attempt.
pub(super) const TLS_SPAN: u64 = 258;

/// The identifier of the child with this number; never 0, which is invalid.
pub(super) fn child_id(parent: u64, number: u64) -> u64 {
    // The finalizer of SplitMix64, a bijection: children of one span are all different.
    let mut id = parent.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    id = (id ^ (id >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    id = (id ^ (id >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    id ^= id >> 31;
    if id == 0 { !parent } else { id }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fairway_proxy::SpanContext;

    use super::*;

    #[test]
    fn children_of_one_span_have_different_ids() {
        for span_id in [1, 7, u64::MAX, 0x00f0_67aa_0ba9_02b7] {
            let context = SpanContext { trace_id: 1, span_id, parent_span_id: None, trace_state: None };
            let attempts = (1..=u8::MAX).map(|attempt| context.attempt_span_id(attempt));
            let child_ids = [GUARDS_SPAN, CONNECT_SPAN, TLS_SPAN].map(|number| child_id(span_id, number));
            let all: BTreeSet<_> = attempts.chain(child_ids).collect();
            assert_eq!(all.len(), 258);
            assert!(!all.contains(&0));
        }
    }
}
