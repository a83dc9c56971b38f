//! The certificates: for which names they are, until when, and what shows them. Never a key, and never a chain.

use std::collections::BTreeMap;
use std::sync::Arc;

use fairway_model::{Certificate, CertificateKey, Config};
use serde::Serialize;

use super::listing::{Paging, list};
use super::moment::utc;
use super::object::ObjectLink;
use super::page::Page;
use super::problem::Problem;
use super::query::Query;
use super::search::Search;
use crate::clock;
use crate::pipeline::View;

const DAY: i64 = 86_400;
/// A certificate that expires sooner should have been renewed.
const SOON: i64 = 14;
/// Of what shows a certificate no more is named.
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

/// What shows a certificate.
#[derive(Default)]
struct Users {
    named: Vec<String>,
    more: usize,
}

/// The certificates that the parameters ask for.
pub(super) fn page(view: &View, query: &Query) -> Result<Page, Problem> {
    let config = &view.outcome.translation.config;
    let (search, now) = (Search::read(query), clock::unix_seconds());
    let found = config.certificates.values().filter(|it| is_wanted(it, &search));
    let (shown, paging) = list(found, query)?;
    let mut users = users(config, &shown);
    let row = |it: &&Arc<Certificate>| row(it, now, users.remove(&it.key).unwrap_or_default());
    let content = Certificates {
        q: query.value("q").unwrap_or_default(),
        expiring: config.certificates.values().filter(|it| days_left(it, now) < SOON).count(),
        soon: SOON,
        paging,
        certificates: shown.iter().map(row).collect(),
    };
    Ok(Page::new("certificates.html", "certificates", "Certificates", content))
}

fn is_wanted(it: &Certificate, search: &Search) -> bool {
    search.is_empty() || search.finds(&mut format!("{} {} {}", it.key, it.names.join(" "), issuer(it)))
}

fn row(it: &Certificate, now: i64, users: Users) -> CertificateRow {
    let left = days_left(it, now);
    CertificateRow {
        names: it.names.iter().map(ToString::to_string).collect(),
        issuer: issuer(it),
        serial: it.issued.serial_number.clone(),
        expires: utc(it.not_after),
        days: match left {
            ..0 => format!("expired {} days ago", -left),
            0..SOON => format!("{left} days left: renew it"),
            _ => format!("{left} days left"),
        },
        is_expiring: left < SOON,
        secret: ObjectLink::from_origin(&it.origin),
        used_by: users.named,
        more: users.more,
    }
}

/// Whole days until the end of its validity; negative behind it.
fn days_left(it: &Certificate, now: i64) -> i64 {
    it.not_after.saturating_sub(now).div_euclid(DAY)
}

fn issuer(it: &Certificate) -> String {
    let parts = [&*it.issued.issuer_common_name, &*it.issued.issuer_organization];
    let said: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    said.join(", ")
}

/// What shows these certificates: one walk over the hosts for all of them.
fn users(config: &Config, shown: &[&Arc<Certificate>]) -> BTreeMap<CertificateKey, Users> {
    let mut users: BTreeMap<_, _> = shown.iter().map(|it| (it.key.clone(), Users::default())).collect();
    let mut note = |key: Option<&CertificateKey>, name: &dyn Fn() -> String| {
        let Some(key) = key else { return };
        let Some(users) = users.get_mut(key) else { return };
        match users.named.len() < MAX_NAMED {
            true => users.named.push(name()),
            false => users.more += 1,
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
