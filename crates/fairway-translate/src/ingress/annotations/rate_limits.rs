//! How much one client may ask for: `limit-*`. None works yet.

use crate::ingress::annotations::family::{Family, Known, guards, offers};

/// The family.
pub(crate) const FAMILY: Family = Family::unsupported(ANNOTATIONS);

const ANNOTATIONS: &[Known] = &[
    offers("limit-allowlist", "it only exempts clients from limits", &[]),
    offers("limit-burst-multiplier", "it only says how limit-rps and limit-rpm count", &[]),
    guards("limit-connections", "connections of a client would not be limited", &["0"]),
    guards("limit-rate", "the speed of answers would not be limited", &["0"]),
    offers("limit-rate-after", "it only says when limit-rate begins", &["0"]),
    guards("limit-rpm", "requests per minute of a client would not be limited", &["0"]),
    guards("limit-rps", "requests per second of a client would not be limited", &["0"]),
    offers("limit-whitelist", "it only exempts clients from limits", &[]).alias_of("limit-allowlist"),
];
