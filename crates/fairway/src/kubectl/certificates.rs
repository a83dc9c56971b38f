//! `certs`: lists certificates with the hosts that they serve and the days until they expire.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use fairway_model::{Certificate, CertificateKey, Config};
use serde::Serialize;

use super::age::unix_now;
use super::endpoints::abbreviate;
use super::exposition::{Series, series};
use super::fleet::Fleet;
use super::listing::{self, Row, optional_cell};
use super::page::ConfigPage;
use super::scope::Scope;
use crate::admin_client::Extent;
use crate::args::CertsArgs;

/// The metric whose labels describe a certificate.
const CERTIFICATE_INFO_METRIC: &str = "nginx_ingress_controller_ssl_certificate_info";

/// The part of a scrape before the request metrics, which can be very long. It includes the certificate metrics.
const BEFORE_REQUEST_METRICS: Extent = Extent::Before("# TYPE nginx_ingress_controller_requests ");

/// Stands for the hosts that are served with the default certificate.
const OTHER_HOSTS: &str = "(others)";

const DAY: i64 = 24 * 3_600;

/// A row of the listing.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CertificateRow {
    namespace: String,
    secret: String,
    hosts: Vec<String>,
    names: Vec<String>,
    /// Unix time in seconds.
    not_after: i64,
    /// Whole days; negative after the expiry.
    days_left: i64,
    issuer: Option<String>,
}

/// Namespace and name of a Secret.
type SecretName = (String, String);

/// Prints the certificates.
pub(super) async fn certificates(args: &CertsArgs) -> Result<ExitCode> {
    let fleet = Fleet::find_one(&args.target).await?;
    let scope = Scope::new(&args.scope, fleet.default_namespace());
    let page = ConfigPage::fetch(&fleet).await?;
    let mut rows = rows(&page.config, &scope, unix_now());
    if !rows.is_empty() {
        let issuers = issuers(&fleet).await;
        for row in &mut rows {
            row.issuer = issuers.get(&(row.namespace.clone(), row.secret.clone())).cloned();
        }
    }
    let nothing = format!("{} has no certificate of {scope}{}", page.replica, scope.hint());
    listing::print(&rows, args.output, &nothing)?;
    Ok(ExitCode::SUCCESS)
}

/// The rows, sorted by expiry.
fn rows(config: &Config, scope: &Scope, now: i64) -> Vec<CertificateRow> {
    let certificates = config.certificates.values().filter(|it| scope.includes(&it.origin.namespace));
    let row = |certificate: &Certificate| CertificateRow {
        namespace: certificate.origin.namespace.to_string(),
        secret: certificate.origin.name.to_string(),
        hosts: hosts(config, &certificate.key),
        names: certificate.names.iter().map(ToString::to_string).collect(),
        not_after: certificate.not_after,
        days_left: (certificate.not_after - now).div_euclid(DAY),
        issuer: None,
    };
    let mut rows: Vec<_> = certificates.map(|certificate| row(certificate)).collect();
    rows.sort_by_key(|row| row.not_after);
    rows
}

/// The hosts that are served with a certificate.
fn hosts(config: &Config, key: &CertificateKey) -> Vec<String> {
    let of_hosts = config.hosts.values().filter(|host| host.certificate.as_ref() == Some(key));
    let of_hosts = of_hosts.map(|host| host.key.host.to_string());
    let of_listeners = config.listeners.values().filter(|it| it.tls.certificates.contains(key));
    let of_listeners = of_listeners.map(|listener| listener.host.to_string());
    let default = (config.default_certificate.as_ref() == Some(key)).then(|| OTHER_HOSTS.to_owned());
    let mut hosts: Vec<_> = of_hosts.chain(of_listeners).chain(default).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

/// The issuers by Secret, from the metrics of the first replica that responds. Empty if none does.
async fn issuers(fleet: &Fleet) -> BTreeMap<SecretName, String> {
    for replica in &fleet.replicas {
        if let Ok(text) = replica.page("/metrics", BEFORE_REQUEST_METRICS).await {
            return read_issuers(&String::from_utf8_lossy(&text));
        }
    }
    BTreeMap::new()
}

fn read_issuers(metrics: &str) -> BTreeMap<SecretName, String> {
    let issuer = |it: Series<'_>| {
        let secret = (it.label("namespace").to_owned(), it.label("secret_name").to_owned());
        let names = ["issuer_common_name", "issuer_organization"].map(|label| it.label(label));
        let name = names.into_iter().find(|name| !name.is_empty())?;
        Some((secret, name.to_owned()))
    };
    series(metrics, CERTIFICATE_INFO_METRIC).filter_map(issuer).collect()
}

impl Row for CertificateRow {
    const HEADINGS: &'static [&'static str] =
        &["NAMESPACE", "SECRET", "HOSTS", "NAMES", "DAYS LEFT", "ISSUER"];
    const WIDE_HEADINGS: &'static [&'static str] = &["ALL HOSTS"];

    fn cells(&self) -> Vec<String> {
        let days = if self.days_left < 0 { "expired".to_owned() } else { self.days_left.to_string() };
        vec![
            self.namespace.clone(),
            self.secret.clone(),
            abbreviate(&self.hosts),
            abbreviate(&self.names),
            days,
            optional_cell(self.issuer.as_deref()),
        ]
    }

    fn wide_cells(&self) -> Vec<String> {
        vec![self.hosts.join(",")]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fairway_model::{Origin, PrivateKey};

    use super::*;

    #[test]
    fn certificates_are_sorted_by_expiry_with_the_days_left() {
        let mut config = Config { default_certificate: Some("shop/late".into()), ..Config::default() };
        for (name, not_after) in [("late", 10 * DAY), ("soon", DAY - 1), ("over", -1)] {
            let key = CertificateKey::from(format!("shop/{name}").as_str());
            let certificate = Certificate {
                key: key.clone(),
                origin: Origin::object("Secret", "shop", name),
                chain: Vec::new(),
                private_key: PrivateKey::default(),
                names: vec!["a.test".into()],
                not_after,
                issued: Arc::default(),
            };
            config.certificates.insert(key, Arc::new(certificate));
        }
        let rows = rows(&config, &Scope::Everywhere, 0);
        let days: Vec<_> = rows.iter().map(|row| (row.secret.as_str(), row.days_left)).collect();
        assert_eq!(days, [("over", -1), ("soon", 0), ("late", 10)]);
        assert_eq!(
            (rows[0].cells()[4].as_str(), rows[2].hosts.as_slice()),
            ("expired", &[OTHER_HOSTS.to_owned()][..])
        );
    }

    #[test]
    fn an_issuer_without_a_common_name_is_shown_by_organization() {
        let text = format!(
            "{CERTIFICATE_INFO_METRIC}{{host=\"a\",namespace=\"shop\",secret_name=\"tls\",issuer_common_name=\"\",\
             issuer_organization=\"Example\"}} 1\n\
             {CERTIFICATE_INFO_METRIC}{{host=\"b\",namespace=\"shop\",secret_name=\"own\",issuer_common_name=\"Root\"}} 1\n"
        );
        let issuers = read_issuers(&text);
        let issuer_of =
            |secret: &str| issuers.get(&("shop".to_owned(), secret.to_owned())).map(String::as_str);
        assert_eq!(
            (issuer_of("tls"), issuer_of("own"), issuer_of("other")),
            (Some("Example"), Some("Root"), None)
        );
    }
}
