//! Ingresses that take a part of the requests of another one: `canary*`. They are not served yet.

use crate::ingress::annotations::family::{Class, Family, Known, missing, offers};
use crate::ingress::contributions::Role;

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, _, contributions| {
    if reader.switch("canary", false) {
        contributions.role = Role::Canary;
    }
    Ok(())
});

const ANNOTATIONS: &[Known] = &[
    missing(
        "canary",
        Class::Purpose,
        "the Ingress is not served at all, so that all of its traffic goes to the main Ingress",
        &["false"],
    ),
    offers("canary-by-cookie", "no request is chosen for the canary", &[]),
    offers("canary-by-header", "no request is chosen for the canary", &[]),
    offers("canary-by-header-pattern", "no request is chosen for the canary", &[]),
    offers("canary-by-header-value", "no request is chosen for the canary", &[]),
    offers("canary-weight", "no request is chosen for the canary", &[]),
    offers("canary-weight-total", "no request is chosen for the canary", &[]),
];
