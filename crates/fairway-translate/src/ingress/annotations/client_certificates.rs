//! Certificates of clients: `auth-tls-*`. None works yet.

use crate::ingress::annotations::family::{Family, Known, guards, offers};

/// The family.
pub(crate) const FAMILY: Family = Family::unsupported(ANNOTATIONS);

const ANNOTATIONS: &[Known] = &[
    offers("auth-tls-error-page", "clients without a good certificate are not redirected", &[]),
    guards("auth-tls-match-cn", "clients with another common name would be let in", &[]),
    offers(
        "auth-tls-pass-certificate-to-upstream",
        "the backend does not get the client's certificate",
        &["false"],
    ),
    guards("auth-tls-secret", "clients without a certificate would be let in", &[]),
    offers("auth-tls-verify-client", "it only says how auth-tls-secret verifies", &["off"]),
    offers("auth-tls-verify-depth", "it only says how auth-tls-secret verifies", &[]),
];
