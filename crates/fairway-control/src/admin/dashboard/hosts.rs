//! The lists of rules: those of all hosts, and those of one.

use fairway_model::{CertificateKey, ClientDemand, RuleOrder, VirtualHost};
use serde::Serialize;

use super::listing::{Paging, list};
use super::page::Page;
use super::problem::Problem;
use super::query::Query;
use super::rules::{self, RuleRow};
use super::words::Words;
use crate::pipeline::View;

#[derive(Serialize)]
struct AllHosts<'q> {
    q: &'q str,
    object: &'q str,
    table: &'q str,
    paging: Paging,
    rules: Vec<RuleRow>,
}

#[derive(Serialize)]
struct OneHost<'c> {
    table: &'c str,
    certificate: String,
    clients: &'static str,
    order: &'static str,
    falls_through: bool,
    paging: Paging,
    rules: Vec<RuleRow>,
}

/// Those rules of all hosts that the parameters ask for.
pub(super) fn all(view: &View, words: &dyn Words, query: &Query) -> Result<Page, Problem> {
    let config = &view.outcome.translation.config;
    let (found, paging) = list(rules::wanted(rules::all(config), query)?, query)?;
    let content = AllHosts {
        q: query.value("q").unwrap_or_default(),
        object: query.value("object").unwrap_or_default(),
        table: query.value("table").unwrap_or_default(),
        paging,
        rules: found.iter().map(|place| place.row(words)).collect(),
    };
    Ok(Page::new("hosts.html", "hosts", "Hosts and routes", content))
}

/// The rules of a host, as they are listed there.
pub(super) fn one(view: &View, words: &dyn Words, query: &Query) -> Result<Page, Problem> {
    let config = &view.outcome.translation.config;
    let host = rules::host(config, query)?;
    let (found, paging) = list(rules::of_host(host), query)?;
    let content = OneHost {
        table: &host.key.table,
        certificate: certificate(host.certificate.as_ref()),
        clients: clients(host),
        order: match host.order {
            RuleOrder::Precedence => "the most specific rule that matches, as Gateway API orders them",
            RuleOrder::Listed => "the first rule that matches, as listed here",
        },
        falls_through: host.falls_through,
        paging,
        rules: found.iter().map(|place| place.row(words)).collect(),
    };
    Ok(Page::new("host.html", "hosts", format!("Host {}", host.key.host), content))
}

fn certificate(key: Option<&CertificateKey>) -> String {
    key.map_or_else(|| "that of its listener, or the default one".to_owned(), |key| format!("Secret {key}"))
}

fn clients(host: &VirtualHost) -> &'static str {
    match host.clients.as_ref().map(|clients| clients.demand) {
        None => "as its listener asks",
        Some(ClientDemand::Required) => "a trusted one is required",
        Some(ClientDemand::Optional) => "none, or a trusted one",
        Some(ClientDemand::Unverified) => "any; what was verified is reported to endpoints",
    }
}
