//! What replaces error answers: `custom-http-errors`, `default-backend`. None works yet.

use crate::ingress::annotations::family::{Family, Known, offers};

/// The family.
pub(crate) const FAMILY: Family = Family::unsupported(ANNOTATIONS);

const ANNOTATIONS: &[Known] = &[
    offers("custom-http-errors", "error answers of the backend stay as they are", &[""]),
    offers(
        "default-backend",
        "a Service without endpoints answers 503 itself, and error answers stay as they are",
        &[],
    ),
    offers("disable-proxy-intercept-errors", "nothing is lost while error answers are not replaced", &[]),
];
