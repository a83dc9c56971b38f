//! Metrics that ingress-nginx reports about its controller, under the same names: configuration, certificates, Ingresses without
//! a backend. docs/metrics.md describes what each means here, where nothing is ever reloaded.

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use fairway_model::{Action, Certificate, CertificateKey, Config, Rule};

use super::identity::Identity;
use crate::exposition::{escaped, head, line, single};
use crate::pipeline::{Freshness, View};

/// Workers adopt a configuration within milliseconds; after this time adoption counts as failed.
const ADOPTION_TIMEOUT: Duration = Duration::from_secs(1);

/// The metrics of what is served, when every worker has adopted version `adopted` or later.
pub(super) fn metrics_text(view: &View, adopted: u64, identity: &Identity) -> String {
    let mut out = String::new();
    write_configuration(&mut out, view, adopted, identity.labels());
    write_certificates(&mut out, &view.outcome.translation.config, identity.class());
    write_orphans(&mut out, view, identity.labels());
    out
}

fn write_configuration(out: &mut String, view: &View, adopted: u64, labels: &str) {
    let published = view.published.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let version = view.outcome.snapshot.version();
    for (name, kind, help, value) in [
        (
            "config_hash",
            "gauge",
            "The published configuration by its content.",
            view.outcome.digest.number() as f64,
        ),
        (
            "config_last_reload_successful",
            "gauge",
            "1 while every worker serves the configuration of the objects as they are.",
            f64::from(u8::from(is_served(view, adopted))),
        ),
        (
            "config_last_reload_successful_timestamp_seconds",
            "gauge",
            "When the configuration was published.",
            published,
        ),
        ("success", "counter", "Configurations that were published.", version as f64),
        ("errors", "counter", "Always 0: no change fails as a whole.", 0.0),
    ] {
        let name = format!("nginx_ingress_controller_{name}");
        single(out, &name, kind, help, labels, value);
    }
}

/// Whether every worker serves the last published configuration, and that is made from the current objects.
fn is_served(view: &View, adopted: u64) -> bool {
    let late = view.published.elapsed().is_ok_and(|age| age > ADOPTION_TIMEOUT);
    let waits = adopted < view.outcome.snapshot.version() && late;
    view.freshness == Freshness::Current && !waits
}

fn write_certificates(out: &mut String, config: &Config, class: &str) {
    let served = served_certificates(config);
    let name = "nginx_ingress_controller_ssl_expire_time_seconds";
    head(out, name, "gauge", "The end of validity of a certificate in seconds since 1970.");
    for (host, certificate) in &served {
        line(out, name, &certificate_labels(host, certificate, class), certificate.not_after);
    }
    let name = "nginx_ingress_controller_ssl_certificate_info";
    head(out, name, "gauge", "1; the labels describe a certificate.");
    for (host, certificate) in &served {
        let issued = &certificate.issued;
        let labels = format!(
            "{},issuer_common_name=\"{}\",issuer_organization=\"{}\",serial_number=\"{}\",public_key_algorithm=\"{}\"",
            certificate_labels(host, certificate, class),
            escaped(&issued.issuer_common_name),
            escaped(&issued.issuer_organization),
            issued.serial_number,
            issued.public_key_algorithm,
        );
        line(out, name, &labels, 1);
    }
}

/// The labels that identify the certificate of a host.
fn certificate_labels(host: &str, certificate: &Certificate, class: &str) -> String {
    let (origin, issued) = (&certificate.origin, &certificate.issued);
    format!(
        "host=\"{}\",namespace=\"{}\",secret_name=\"{}\",class=\"{class}\",identifier=\"{}-{}\"",
        escaped(host),
        escaped(&origin.namespace),
        escaped(&origin.name),
        escaped(&issued.issuer_serial_number),
        issued.serial_number,
    )
}

/// Each host with its certificate; `_` stands for clients that name no host with one.
fn served_certificates(config: &Config) -> Vec<(String, &Certificate)> {
    let known = |key: &Option<CertificateKey>| key.as_ref().and_then(|key| config.certificates.get(key));
    let hosts = config.hosts.values();
    let hosts = hosts.filter_map(|host| Some((host.key.host.to_string(), &**known(&host.certificate)?)));
    let fallback = known(&config.default_certificate).map(|certificate| ("_".to_owned(), &**certificate));
    hosts.chain(fallback).collect()
}

/// Ingresses that reference a missing Service or one without endpoints. Others have no series.
fn write_orphans(out: &mut String, view: &View, labels: &str) {
    let name = "nginx_ingress_controller_orphan_ingress";
    head(out, name, "gauge", "1: the Ingress names a Service that does not exist or has no endpoint.");
    let mut orphans: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
    for it in view.diagnostics() {
        let of_backend =
            it.origin.field.ends_with("service.name") || it.origin.field.ends_with("service.port");
        if it.code == "missing-reference" && of_backend && *it.origin.kind == *"Ingress" {
            orphans.insert((&it.origin.namespace, &it.origin.name, "no-service"));
        }
    }
    let config = &view.outcome.translation.config;
    let routes = config.hosts.values().flat_map(|host| &host.routes);
    for rule in routes.flat_map(|route| &route.rules).filter(|rule| has_no_endpoint(rule, config)) {
        orphans.insert((&rule.labels.namespace, &rule.labels.ingress, "no-endpoint"));
    }
    for (namespace, ingress, kind) in orphans {
        let (namespace, ingress) = (escaped(namespace), escaped(ingress));
        let labels = format!("{labels},namespace=\"{namespace}\",ingress=\"{ingress}\",type=\"{kind}\"");
        line(out, name, &labels, 1);
    }
}

/// Whether the Service in the rule's labels has no endpoint. A canary may be empty: the main Service takes its requests.
fn has_no_endpoint(rule: &Rule, config: &Config) -> bool {
    let (Action::Forward(backends), false) = (&rule.action, rule.labels.ingress.is_empty()) else {
        return false;
    };
    let own_backends = backends.iter().filter_map(|it| config.backends.get(&it.backend));
    let mut same_service = own_backends.filter(|backend| backend.service.name == rule.labels.service);
    same_service.any(|backend| backend.endpoints.is_empty())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use fairway_model::{Issuance, Origin, PrivateKey};
    use fairway_objects::options::Options;

    use super::*;
    use crate::engine::Engine;

    /// A view that was published this many seconds ago, with version 1.
    fn view(age: u64, freshness: Freshness) -> View {
        let mut engine = Engine::new(Options::default());
        engine.update(Vec::new(), 0);
        View {
            outcome: engine.current().cloned().unwrap(),
            source: Arc::default(),
            published: SystemTime::now() - Duration::from_secs(age),
            delay: Duration::ZERO,
            freshness,
            retained: 1,
        }
    }

    #[test]
    fn a_reload_counts_as_failed_while_clients_are_served_by_old_objects() {
        let identity = Identity::new("c", "n", "p", "r");
        let name = "nginx_ingress_controller_config_last_reload_successful{controller_class=\"c\",\
                    controller_namespace=\"n\",controller_pod=\"p\"}";
        for (age, freshness, adopted, expected) in [
            (60, Freshness::Current, 1, 1),
            (60, Freshness::Current, 2, 1),
            (60, Freshness::Current, 0, 0),
            (0, Freshness::Current, 0, 1),
            (60, Freshness::Stale, 1, 0),
        ] {
            let text = metrics_text(&view(age, freshness), adopted, &identity);
            let line = format!("{name} {expected}");
            assert!(text.lines().any(|it| it == line), "{age} {freshness:?} {adopted}: {line}\n{text}");
        }
    }

    #[test]
    fn the_default_certificate_is_listed_for_clients_that_name_no_host() {
        let key = CertificateKey("a/tls".into());
        let certificate = Certificate {
            key: key.clone(),
            origin: Origin::object("Secret", "a", "tls"),
            chain: Vec::new(),
            private_key: PrivateKey::default(),
            names: Vec::new(),
            not_after: 7,
            issued: Arc::new(Issuance { serial_number: "12".to_owned(), ..Issuance::default() }),
        };
        let mut config = Config { default_certificate: Some(key.clone()), ..Config::default() };
        config.certificates.insert(key, Arc::new(certificate));
        let mut out = String::new();
        write_certificates(&mut out, &config, "c");
        let line = "nginx_ingress_controller_ssl_expire_time_seconds{host=\"_\",namespace=\"a\",secret_name=\"tls\",\
                    class=\"c\",identifier=\"-12\"} 7";
        assert!(out.lines().any(|it| it == line), "{out}");
    }
}
