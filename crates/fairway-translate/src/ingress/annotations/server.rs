//! What holds for a whole host: its further names, its TLS, HTTP/2 push. None works yet.

use crate::ingress::annotations::family::{Family, Known, guards, offers};

/// The family.
pub(crate) const FAMILY: Family = Family::unsupported(ANNOTATIONS);

const ANNOTATIONS: &[Known] = &[
    offers(
        "http2-push-preload",
        "nothing: browsers no longer take pushed answers, and nginx no longer sends them",
        &[],
    ),
    offers("server-alias", "the further host names are not served", &[]),
    offers(
        "ssl-ciphers",
        "the cipher suites are those of rustls, all of them with forward secrecy and authenticated encryption",
        &[],
    ),
    guards("ssl-passthrough", "TLS would end here instead of at the backend", &["false"]),
    offers("ssl-prefer-server-ciphers", "the server's order of cipher suites is used always", &["true"]),
];
