//! Who may pass by a password or by the word of another service: `auth-*` without `auth-tls-*`, and
//! `satisfy`. None works yet.

use crate::ingress::annotations::family::{Family, Known, guards, offers};

/// The family.
pub(crate) const FAMILY: Family = Family::unsupported(ANNOTATIONS);

const ANNOTATIONS: &[Known] = &[
    offers(
        "auth-always-set-cookie",
        "cookies of the authentication service do not reach the client",
        &["false"],
    ),
    offers("auth-cache-duration", "answers of auth-url are not kept", &[]),
    offers("auth-cache-key", "answers of auth-url are not kept", &[]),
    offers("auth-keepalive", "it only says how auth-url is connected to", &["0"]),
    offers("auth-keepalive-requests", "it only says how auth-url is connected to", &[]),
    offers("auth-keepalive-share-vars", "it only says how auth-url is connected to", &["false"]),
    offers("auth-keepalive-timeout", "it only says how auth-url is connected to", &[]),
    offers("auth-method", "it only says how auth-url is asked", &[]),
    offers("auth-proxy-set-headers", "it only says how auth-url is asked", &[]),
    offers("auth-realm", "it only names the realm of auth-type", &[]),
    offers("auth-request-redirect", "it only says how auth-url is asked", &[]),
    offers("auth-response-headers", "the backend gets no headers of the authentication service", &[]),
    guards("auth-secret", "everybody would be let in without a password", &[]),
    offers("auth-secret-type", "it only says how auth-secret is read", &[]),
    offers("auth-signin", "nobody is sent to the sign-in page", &[]),
    offers("auth-signin-redirect-param", "nobody is sent to the sign-in page", &[]),
    guards(
        "auth-snippet",
        "it is nginx configuration, which is never interpreted, and may restrict who is let in",
        &[],
    ),
    guards("auth-type", "everybody would be let in without a password", &[]),
    guards("auth-url", "everybody would be let in without asking the authentication service", &[]),
    offers("enable-global-auth", "nothing while there is no global authentication", &[]),
    guards("satisfy", "it would not be enough to pass one of several checks", &["all"]),
];
