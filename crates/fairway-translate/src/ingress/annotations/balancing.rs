//! Which endpoint gets a request: `load-balance`, `upstream-hash-by*`, `service-upstream`. None works yet.

use crate::ingress::annotations::family::{Family, Known, offers};

/// The family.
pub(crate) const FAMILY: Family = Family::unsupported(ANNOTATIONS);

const ANNOTATIONS: &[Known] = &[
    offers("load-balance", "endpoints get requests in turn", &["round_robin"]),
    offers(
        "service-upstream",
        "requests go to the endpoints instead of the Service's cluster address",
        &["false"],
    ),
    offers("upstream-hash-by", "endpoints get requests in turn", &[]),
    offers("upstream-hash-by-subset", "endpoints get requests in turn", &["false"]),
    offers("upstream-hash-by-subset-size", "endpoints get requests in turn", &[]),
];
