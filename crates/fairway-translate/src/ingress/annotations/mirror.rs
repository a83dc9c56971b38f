//! Copies of requests: `mirror-*`. None works yet.

use crate::ingress::annotations::family::{Family, Known, offers};

/// The family.
pub(crate) const FAMILY: Family = Family::unsupported(ANNOTATIONS);

const ANNOTATIONS: &[Known] = &[
    offers("mirror-host", "no request is copied to the mirror", &[]),
    offers("mirror-request-body", "no request is copied to the mirror", &[]),
    offers("mirror-target", "no request is copied to the mirror", &[]),
];
