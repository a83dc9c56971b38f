//! All families of annotations in reading order; the first that closes an Ingress gives the reason.

use crate::ingress::annotations::family::Family;
use crate::ingress::annotations::{
    access, authentication, balancing, buffering, canary, client_certificates, cors, errors, firewall,
    headers, limits, mirror, observability, rate_limits, redirect, response_headers, retries, rewrite,
    server, session, snippets, upstream,
};

/// All families.
pub(crate) static FAMILIES: &[Family] = &[
    access::FAMILY,
    authentication::FAMILY,
    client_certificates::FAMILY,
    firewall::FAMILY,
    rate_limits::FAMILY,
    headers::FAMILY,
    redirect::FAMILY,
    rewrite::FAMILY,
    upstream::FAMILY,
    cors::FAMILY,
    limits::FAMILY,
    retries::FAMILY,
    buffering::FAMILY,
    response_headers::FAMILY,
    errors::FAMILY,
    balancing::FAMILY,
    session::FAMILY,
    canary::FAMILY,
    mirror::FAMILY,
    observability::FAMILY,
    server::FAMILY,
    snippets::FAMILY,
];
