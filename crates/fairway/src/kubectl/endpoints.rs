//! `endpoints`: lists the endpoints of the Services that rules use.

use std::process::ExitCode;

use anyhow::Result;
use fairway_model::{Backend, BackendProtocol, Config};
use serde::Serialize;

use super::fleet::Fleet;
use super::listing::{self, Row};
use super::page::ConfigPage;
use super::scope::Scope;
use crate::args::EndpointsArgs;

/// Number of addresses that a table shows.
const SHOWN_ADDRESSES: usize = 3;

/// A Service port that rules use.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BackendRow {
    namespace: String,
    service: String,
    port: String,
    protocol: &'static str,
    tls: bool,
    addresses: Vec<String>,
    /// The pods of these addresses, as far as known.
    pods: Vec<String>,
    /// The name of the backend in `/config`.
    backend: String,
}

/// Prints the backends with their endpoints.
pub(super) async fn endpoints(args: &EndpointsArgs) -> Result<ExitCode> {
    let fleet = Fleet::find_one(&args.target).await?;
    let scope = Scope::new(&args.scope, fleet.default_namespace());
    let page = ConfigPage::fetch(&fleet).await?;
    let rows = rows(&page.config, &scope, args.service.as_deref());
    let suffix = args.service.as_ref().map(|service| format!(" of a Service {service}")).unwrap_or_default();
    let nothing = format!("{} serves no backend{suffix} in {scope}{}", page.replica, scope.hint());
    listing::print(&rows, args.output, &nothing)?;
    Ok(ExitCode::SUCCESS)
}

fn rows(config: &Config, scope: &Scope, service: Option<&str>) -> Vec<BackendRow> {
    let backends = config.backends.values().map(|backend| row(backend));
    let is_wanted = |row: &BackendRow| service.is_none_or(|service| row.service == service);
    backends.filter(|row| scope.includes(&row.namespace) && is_wanted(row)).collect()
}

fn row(backend: &Backend) -> BackendRow {
    let Backend { key, origin, service, endpoints, protocol, tls, .. } = backend;
    // A backend that is not a Service, such as an authentication service outside the cluster, is named after its object.
    let (namespace, name) = match &*service.name {
        "" => (&origin.namespace, &origin.name),
        _ => (&service.namespace, &service.name),
    };
    BackendRow {
        namespace: namespace.to_string(),
        service: name.to_string(),
        port: service.port.to_string(),
        protocol: match protocol {
            BackendProtocol::Http1 => "HTTP/1.1",
            BackendProtocol::H2c | BackendProtocol::Http2 => "HTTP/2",
            BackendProtocol::Auto => "any",
        },
        tls: tls.is_some(),
        addresses: endpoints.iter().map(|endpoint| endpoint.address.to_string()).collect(),
        pods: endpoints.iter().filter_map(|it| it.name.as_deref().map(str::to_owned)).collect(),
        backend: key.to_string(),
    }
}

/// The first addresses and the number of the others.
pub(super) fn abbreviate(addresses: &[String]) -> String {
    match addresses.len().checked_sub(SHOWN_ADDRESSES) {
        None | Some(0) => addresses.join(","),
        Some(more) => format!("{} + {more} more", addresses[..SHOWN_ADDRESSES].join(",")),
    }
}

impl Row for BackendRow {
    const HEADINGS: &'static [&'static str] = &["NAMESPACE", "SERVICE", "PORT", "ENDPOINTS", "ADDRESSES"];
    const WIDE_HEADINGS: &'static [&'static str] = &["PROTOCOL", "TLS", "PODS"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.namespace.clone(),
            self.service.clone(),
            self.port.clone(),
            self.addresses.len().to_string(),
            abbreviate(&self.addresses),
        ]
    }

    fn wide_cells(&self) -> Vec<String> {
        vec![self.protocol.to_owned(), listing::yes_no(self.tls).to_owned(), abbreviate(&self.pods)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_addresses_are_shown() {
        let addresses = |count: usize| (1..=count).map(|n| n.to_string()).collect::<Vec<_>>();
        assert_eq!(abbreviate(&addresses(0)), "");
        assert_eq!(abbreviate(&addresses(3)), "1,2,3");
        assert_eq!(abbreviate(&addresses(5)), "1,2,3 + 2 more");
    }
}
