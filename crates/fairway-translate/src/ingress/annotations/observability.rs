//! What is logged and traced: `enable-access-log`, `enable-opentelemetry` and the like. None works yet.

use crate::ingress::annotations::family::{Family, Known, offers};

/// The family.
pub(crate) const FAMILY: Family = Family::unsupported(ANNOTATIONS);

const ANNOTATIONS: &[Known] = &[
    offers("enable-access-log", "the path is logged as all others are", &["true"]),
    offers("enable-opentelemetry", "no traces are sent", &["false"]),
    offers("opentelemetry-operation-name", "no traces are sent", &[]),
    offers("opentelemetry-trust-incoming-span", "no traces are sent", &[]),
];
