//! Sessions that stay at one endpoint: `affinity*`, `session-cookie-*`. None works yet.

use crate::ingress::annotations::family::{Family, Known, offers};

/// The family.
pub(crate) const FAMILY: Family = Family::unsupported(ANNOTATIONS);

const ANNOTATIONS: &[Known] = &[
    offers("affinity", "the requests of a session go to all endpoints", &[]),
    offers("affinity-canary-behavior", "no session is bound to the canary or to the main Ingress", &[]),
    offers("affinity-mode", "no session cookie is set", &[]),
    offers("session-cookie-change-on-failure", "no session cookie is set", &[]),
    offers("session-cookie-conditional-samesite-none", "no session cookie is set", &[]),
    offers("session-cookie-domain", "no session cookie is set", &[]),
    offers("session-cookie-expires", "no session cookie is set", &[]),
    offers("session-cookie-max-age", "no session cookie is set", &[]),
    offers("session-cookie-name", "no session cookie is set", &[]),
    offers("session-cookie-path", "no session cookie is set", &[]),
    offers("session-cookie-samesite", "no session cookie is set", &[]),
    offers("session-cookie-secure", "no session cookie is set", &[]),
];
