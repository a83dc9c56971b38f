//! The web application firewall: `enable-modsecurity`, `modsecurity-*`, `enable-owasp-core-rules`. None works
//! yet.

use crate::ingress::annotations::family::{Family, Known, guards, offers};

/// The family.
pub(crate) const FAMILY: Family = Family::unsupported(ANNOTATIONS);

const ANNOTATIONS: &[Known] = &[
    guards("enable-modsecurity", "requests would pass without the web application firewall", &["false"]),
    guards("enable-owasp-core-rules", "requests would pass without the web application firewall", &["false"]),
    guards("modsecurity-snippet", "requests would pass without the web application firewall", &[]),
    offers(
        "modsecurity-transaction-id",
        "it only names the transactions of the web application firewall",
        &[],
    ),
];
