//! The certificates: their names, expiry and users. Never shows a key or a chain.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{Certificate, CertificateKey, Config};
use serde::Serialize;

use super::listing::{Paging, paginate};
use super::object::ObjectLink;
use super::page::Page;
use super::problem::Problem;
use super::query::Query;
use super::search::Search;
use super::time_format::utc;
use crate::clock;
use crate::pipeline::View;

const SECONDS_PER_DAY: i64 = 86_400;
/// A certificate that expires sooner should have been renewed.
const EXPIRY_WARNING_DAYS: i64 = 14;
/// At most this many users of a certificate are named.
const MAX_NAMED: usize = 5;

#[derive(Serialize)]
struct Certificates<'q> {
    q: &'q str,
    /// How many expire soon.
    expiring: usize,
    soon: i64,
    paging: Paging,
    certificates: Vec<CertificateRow>,
}

#[derive(Serialize)]
struct CertificateRow {
    names: Vec<String>,
    issuer: String,
    serial: String,
    expires: String,
    days: String,
    is_expiring: bool,
    secret: ObjectLink,
    used_by: Vec<String>,
    more: usize,
}

/// The users of a certificate.
#[derive(Default)]
struct CertificateUsers {
    named: Vec<String>,
    omitted: usize,
}

/// The certificates that match the parameters.
pub(super) fn page(view: &View, query: &Query) -> Result<Page, Problem> {
    let config = &view.outcome.translation.config;
    let (search, now) = (Search::from_query(query), clock::unix_seconds());
    let found = config.certificates.values().filter(|it| is_wanted(it, &search));
    let (shown, paging) = paginate(found, query)?;
    let mut users = find_users(config, &shown);
    let row = |it: &&Arc<Certificate>| row(it, now, users.remove(&it.key).unwrap_or_default());
    let content = Certificates {
        q: query.value("q").unwrap_or_default(),
        expiring: config.certificates.values().filter(|it| days_left(it, now) < EXPIRY_WARNING_DAYS).count(),
        soon: EXPIRY_WARNING_DAYS,
        paging,
        certificates: shown.iter().map(row).collect(),
    };
    Ok(Page::new("certificates.html", "certificates", "Certificates", content))
}

fn is_wanted(it: &Certificate, search: &Search) -> bool {
    search.is_empty() || search.finds(&mut format!("{} {} {}", it.key, it.names.join(" "), issuer(it)))
}

fn row(it: &Certificate, now: i64, users: CertificateUsers) -> CertificateRow {
    let days = days_left(it, now);
    CertificateRow {
        names: it.names.iter().map(ToString::to_string).collect(),
        issuer: issuer(it),
        serial: it.issued.serial_number.clone(),
        expires: utc(it.not_after),
        days: match days {
            ..0 => format!("expired {} days ago", -days),
            0..EXPIRY_WARNING_DAYS => format!("{days} days left: renew it"),
            _ => format!("{days} days left"),
        },
        is_expiring: days < EXPIRY_WARNING_DAYS,
        secret: ObjectLink::from_origin(&it.origin),
        used_by: users.named,
        more: users.omitted,
    }
}

/// Whole days until it expires; negative afterwards.
fn days_left(it: &Certificate, now: i64) -> i64 {
    it.not_after.saturating_sub(now).div_euclid(SECONDS_PER_DAY)
}

fn issuer(it: &Certificate) -> String {
    let parts = [&*it.issued.issuer_common_name, &*it.issued.issuer_organization];
    let described: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    described.join(", ")
}

/// The users of these certificates, found in one pass over the hosts.
fn find_users(config: &Config, shown: &[&Arc<Certificate>]) -> BTreeMap<CertificateKey, CertificateUsers> {
    let mut users: BTreeMap<_, _> =
        shown.iter().map(|it| (it.key.clone(), CertificateUsers::default())).collect();
    let mut note = |key: Option<&CertificateKey>, name: &dyn Fn() -> String| {
        let Some(key) = key else { return };
        let Some(users) = users.get_mut(key) else { return };
        match users.named.len() < MAX_NAMED {
            true => users.named.push(name()),
            false => users.omitted += 1,
        }
    };
    note(config.default_certificate.as_ref(), &|| "the default certificate".to_owned());
    for listener in config.listeners.values() {
        for key in &listener.tls.certificates {
            note(Some(key), &|| format!("listener {}", listener.name));
        }
    }
    for host in config.hosts.values() {
        note(host.certificate.as_ref(), &|| host.key.host.to_string());
    }
    for backend in config.backends.values() {
        let key = backend.tls.as_ref().and_then(|tls| tls.client_certificate.as_ref());
        note(key, &|| format!("backend {}, to which it is shown", backend.key));
    }
    users
}
