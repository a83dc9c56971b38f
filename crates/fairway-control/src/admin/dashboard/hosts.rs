//! The lists of rules: of all hosts, and of one host.

use fairway_model::{CertificateKey, ClientCertificateMode, RuleOrder, VirtualHost};
use serde::Serialize;

use super::caller_text::ConfigDescriber;
use super::listing::{Paging, paginate};
use super::page::Page;
use super::problem::Problem;
use super::query::Query;
use super::rules::{self, RuleRow};
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

/// The rules of all hosts that match the parameters.
pub(super) fn all_rules_page(
    view: &View,
    words: &dyn ConfigDescriber,
    query: &Query,
) -> Result<Page, Problem> {
    let config = &view.outcome.translation.config;
    let (found, paging) = paginate(rules::filter_rules(rules::all_rules(config), query)?, query)?;
    let content = AllHosts {
        q: query.value("q").unwrap_or_default(),
        object: query.value("object").unwrap_or_default(),
        table: query.value("table").unwrap_or_default(),
        paging,
        rules: found.iter().map(|place| place.row(words)).collect(),
    };
    Ok(Page::new("hosts.html", "hosts", "Hosts and routes", content))
}

/// The rules of a host, in order.
pub(super) fn host_page(view: &View, words: &dyn ConfigDescriber, query: &Query) -> Result<Page, Problem> {
    let config = &view.outcome.translation.config;
    let host = rules::find_host(config, query)?;
    let (found, paging) = paginate(rules::rules_of_host(host), query)?;
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
        Some(ClientCertificateMode::Required) => "a trusted one is required",
        Some(ClientCertificateMode::Optional) => "none, or a trusted one",
        Some(ClientCertificateMode::Unverified) => "any; what was verified is reported to endpoints",
    }
}
