//! Checks that the series that dashboards and alerts query exist: those of ingress-nginx and of the chart, compared with a scrape
//! of a running process after traffic, as Prometheus stores it.

mod documented;
mod known;
mod promql;
mod scrape;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use fairway_objects::manifest::{self, Schema};
use fairway_testkit::backend::{Backend, BackendResponse};
use fairway_testkit::certificates::Authority;
use fairway_testkit::client::{Client, Request};
use fairway_testkit::manifests::{
    Ingress, Manifests, endpoint_slices, ingress_class, service, service_with_endpoints,
};
use fairway_testkit::mmdb::{self, Mmdb};
use fairway_testkit::process::Fairway;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::OnceCell;

use documented::{Documented, file};
use known::{ALERTS, CONTROLLER, NEXT, NOWHERE, PERFORMANCE, SelectedSeries};
use promql::{Matcher, Query, Selector};
use scrape::{HonorLabels, Scrape, TARGET};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// A scrape after all kinds of traffic that a query needs, shared by all tests.
async fn scraped() -> &'static Scrape {
    static SCRAPE: OnceCell<Scrape> = OnceCell::const_new();
    SCRAPE.get_or_init(after_traffic).await
}

async fn after_traffic() -> Scrape {
    let manifests = Manifests::new();
    let response =
        |target: &str| BackendResponse::status(if target == "/missing" { 404 } else { 200 }, "web");
    let web = Backend::http(move |request| response(&request.target)).await;
    let canary = Backend::http(|_| BackendResponse::ok("new")).await;
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    manifests.put("tls.yaml", Authority::new("test").leaf(&["a.test"]).secret_yaml("a", "tls"));
    manifests.put("web-service.yaml", service_with_endpoints("a", "web", 80, &[web.address()]));
    manifests.put("new-service.yaml", service_with_endpoints("a", "new", 80, &[canary.address()]));
    let nothing = format!("{}---\n{}", service("a", "empty", 80), endpoint_slices("a", "empty", &[]));
    manifests.put("empty-service.yaml", nothing);
    let ingress = |name: &str, host: &str, to: &str| {
        Ingress::new("a", name).class(Some("fairway")).route(host, "/", (to, 80))
    };
    let main =
        ingress("web", "a.test", "web").tls(Some("tls"), &["a.test"]).annotation("ssl-redirect", "false");
    manifests.put("web.yaml", main.yaml());
    let part = ingress("new", "a.test", "new").annotation("canary", "true");
    manifests.put("new.yaml", part.annotation("canary-by-header", "X-Canary").yaml());
    manifests.put("empty.yaml", ingress("empty", "empty.test", "empty").yaml());
    manifests.put("gone.yaml", ingress("gone", "gone.test", "gone").yaml());
    let databases = tempfile::tempdir().unwrap();
    let countries = databases.path().join("countries.mmdb");
    let mmdb =
        Mmdb::new("GeoLite2-Country", 1).with_network("203.0.113.0/24", &mmdb::country("DE", "Germany"));
    std::fs::write(&countries, mmdb.bytes()).unwrap();
    let flags = "--pod-name fairway-0 --pod-namespace fairway --access-log off --workers 2 --geoip";
    let flags: Vec<&str> = flags.split(' ').chain(countries.to_str()).collect();
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &flags).await;

    let requests = [
        (Request::get("a.test", "/one?x=1"), 200),
        (Request::get("a.test", "/missing"), 404),
        (Request::post("a.test", "/", "body"), 200),
        (Request::get("a.test", "/").header("X-Canary", "always"), 200),
        (Request::get("empty.test", "/"), 503),
        (Request::get("gone.test", "/"), 503),
        (Request::get("nowhere.test", "/\"quoted\\"), 404),
    ];
    let count = requests.len() as f64;
    for (request, status) in requests {
        let mut client = Client::connect(fairway.http).await.unwrap();
        let request = request.close();
        assert_eq!(client.exchange(&request).await.unwrap().status, status, "{request:?}");
    }
    let mut stranger = Client::connect(fairway.https).await.unwrap();
    stranger.send("this is no handshake\r\n\r\n").await.unwrap();
    fairway.until_metric("nginx_ingress_controller_requests", &[], |sum| sum == count).await;
    fairway.until_metric("fairway_refused_connections_total", &[], |sum| sum == 1.0).await;
    Scrape::parse(&fairway.metrics().await.0)
}

/// Describes the selected series that do not exist.
fn missing(scrape: &Scrape, wanted_series: &[SelectedSeries]) -> String {
    let mut wrong = String::new();
    for SelectedSeries { metric, variables, fixed, grouped } in wanted_series {
        let variables = variables.iter().map(|label| format!("{label}=~\"$any\""));
        let conditions: Vec<_> = variables.chain((!fixed.is_empty()).then(|| (*fixed).to_owned())).collect();
        let text = format!("{metric}{{{}}}", conditions.join(", "));
        let query = Query::parse(&text).unwrap();
        let admitted =
            |matcher: &[Matcher], labels: &scrape::Labels| matcher.iter().all(|it| it.admits(labels));
        let found: Vec<_> =
            scrape.named(metric).filter(|it| admitted(&query.selectors[0].matchers, &it.labels)).collect();
        let selected = query.selectors[0].matchers.iter().map(|matcher| matcher.label.as_str());
        for label in selected.chain(grouped.iter().copied()) {
            if !found.iter().any(|series| series.labels.get(label).is_some_and(|value| !value.is_empty())) {
                _ = writeln!(wrong, "{text}: {} series, none with a value for {label}", found.len());
            }
        }
        if found.is_empty() {
            _ = writeln!(wrong, "{text}: no series");
        }
    }
    wrong
}

#[tokio::test]
async fn dashboards_and_alerts_of_ingress_nginx_find_their_series_with_their_labels() {
    let scrape = scraped().await;
    let (renamed, honored) =
        (scrape.after_relabeling(HonorLabels::No), scrape.after_relabeling(HonorLabels::Yes));
    let mut wrong = missing(&renamed, CONTROLLER) + &missing(&honored, NEXT);
    for kept in [&renamed, &honored] {
        wrong += &missing(kept, PERFORMANCE);
        wrong += &missing(kept, ALERTS);
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    let certificates: Vec<_> = renamed.named("nginx_ingress_controller_ssl_expire_time_seconds").collect();
    for label in NOWHERE {
        let has = certificates.iter().any(|series| series.labels.contains_key(label));
        assert!(!has, "{label} is not a label of ingress-nginx and has another meaning here");
    }
}

#[tokio::test]
async fn request_series_have_the_values_that_ingress_nginx_gives_them() {
    let scrape = scraped().await;
    let has_series = |name: &str, expected: &[(&str, &str)]| {
        let fits = |labels: &scrape::Labels| {
            expected.iter().all(|(label, value)| labels.get(*label).map(String::as_str) == Some(*value))
        };
        assert!(scrape.named(name).any(|series| fits(&series.labels)), "no {name} with {expected:?}");
    };
    let pod = [
        ("controller_class", "fairway.dev/ingress-controller"),
        ("controller_namespace", "fairway"),
        ("controller_pod", "fairway-0"),
    ];
    let with_labels = |labels: &[(&'static str, &'static str)]| [&pod[..], labels].concat();
    let web = [("namespace", "a"), ("ingress", "web"), ("service", "web"), ("path", "/"), ("host", "a.test")];
    let requests = "nginx_ingress_controller_requests";
    let posted = [("method", "POST"), ("status", "200"), ("canary", "")];
    let tried = [("method", "GET"), ("status", "200"), ("canary", "a-new-80")];
    has_series(requests, &with_labels(&[&web[..], &posted[..]].concat()));
    has_series(requests, &with_labels(&[&web[..], &tried[..]].concat()));
    has_series(requests, &with_labels(&[("ingress", ""), ("host", "*"), ("path", ""), ("status", "404")]));
    has_series(requests, &with_labels(&[("ingress", "empty"), ("service", "empty"), ("status", "503")]));
    let orphan = "nginx_ingress_controller_orphan_ingress";
    has_series(orphan, &with_labels(&[("namespace", "a"), ("ingress", "gone"), ("type", "no-service")]));
    has_series(orphan, &with_labels(&[("namespace", "a"), ("ingress", "empty"), ("type", "no-endpoint")]));
    assert_eq!(scrape.named(orphan).count(), 2, "Ingresses with endpoints have no series");
    let certificate = [("host", "a.test"), ("namespace", "a"), ("secret_name", "tls"), ("class", pod[0].1)];
    has_series("nginx_ingress_controller_ssl_expire_time_seconds", &certificate);
    let algorithm = [("public_key_algorithm", "ECDSA")];
    has_series("nginx_ingress_controller_ssl_certificate_info", &[&certificate[..], &algorithm[..]].concat());
    has_series(
        "nginx_ingress_controller_build_info",
        &with_labels(&[("release", env!("CARGO_PKG_VERSION"))]),
    );
    let paths: BTreeSet<_> = scrape.named(requests).map(|series| series.labels["path"].as_str()).collect();
    assert_eq!(paths, BTreeSet::from(["", "/"]), "the path label is the path of a rule, never of a request");
}

/// Describes the series of a query that a scrape does not have. The labels of metrics that exist only in a cluster, and the names
/// of reasons that did not occur, come from the document.
fn unanswered(scrape: &Scrape, documented: &Documented, query: &Query) -> Vec<String> {
    let mut wrong = Vec::new();
    let known: Vec<_> =
        query.selectors.iter().map(|selector| labels_of(scrape, documented, &selector.metric)).collect();
    for (selector, known) in query.selectors.iter().zip(&known) {
        let Some(known) = known else {
            wrong.push(format!("{} is not exposed", selector.metric));
            continue;
        };
        let unknown = selector.matchers.iter().filter(|matcher| !known.contains(&matcher.label));
        wrong.extend(unknown.map(|matcher| format!("{} has no label {}", selector.metric, matcher.label)));
        if !occurs(scrape, documented, selector) {
            wrong.push(format!("no series for {selector:?}"));
        }
    }
    for (labels, operands) in &query.groupings {
        for (label, number) in labels.iter().flat_map(|label| operands.clone().map(move |at| (label, at))) {
            if known[number].as_ref().is_some_and(|known| !known.contains(label)) {
                wrong.push(format!(
                    "{} is grouped by {label}, which it does not have",
                    query.selectors[number].metric
                ));
            }
        }
    }
    wrong
}

/// The labels of a metric's series; `None` for an unknown metric.
fn labels_of(scrape: &Scrape, documented: &Documented, series: &str) -> Option<BTreeSet<String>> {
    let target = TARGET.iter().map(|(name, _)| (*name).to_owned());
    let found: BTreeSet<_> = scrape.named(series).flat_map(|series| series.labels.keys().cloned()).collect();
    if !found.is_empty() {
        return Some(found);
    }
    let metric = scrape.kind(series).map_or(series, |(metric, _)| metric);
    let described = documented.metrics.get(metric)?;
    let exposed = scrape.types.contains_key(metric) || described.of_a_cluster;
    exposed.then(|| target.chain(described.labels.clone()).collect())
}

/// Whether a series matches the selector, or could match it.
fn occurs(scrape: &Scrape, documented: &Documented, selector: &Selector) -> bool {
    let could_be = |matcher: &Matcher| {
        let reason = |reason: &String| matcher.admits(&[("reason".to_owned(), reason.clone())].into());
        matcher.label == "reason" && documented.reasons.iter().any(reason)
    };
    let mut series = scrape.named(&selector.metric).peekable();
    let admits = |labels: &scrape::Labels| {
        selector.matchers.iter().all(|matcher| matcher.admits(labels) || could_be(matcher))
    };
    series.peek().is_none() || series.any(|series| admits(&series.labels))
}

/// The text as the chart renders it.
fn rendered(text: &str, honor: HonorLabels) -> String {
    match honor {
        HonorLabels::Yes => {
            text.replace("exported_namespace", "namespace").replace("exported_service", "service")
        }
        HonorLabels::No => text.to_owned(),
    }
}

#[derive(Deserialize)]
struct RuleFile {
    groups: Vec<RuleGroup>,
}

#[derive(Deserialize)]
struct RuleGroup {
    rules: Vec<Alert>,
}

#[derive(Deserialize)]
struct Alert {
    alert: String,
    expr: String,
    labels: AlertLabels,
    annotations: AlertAnnotations,
}

#[derive(Deserialize)]
struct AlertLabels {
    severity: String,
}

#[derive(Deserialize)]
struct AlertAnnotations {
    summary: String,
}

fn alerts(honor: HonorLabels) -> Vec<Alert> {
    let text = rendered(&file("charts/fairway/files/alerts.yaml"), honor);
    let rules = manifest::parse_single(&text, Schema::Core).unwrap().unwrap();
    let rules: RuleFile = serde_json::from_value(rules.to_json()).unwrap();
    let alerts: Vec<_> = rules.groups.into_iter().flat_map(|group| group.rules).collect();
    assert!(alerts.len() > 15, "the alerts were found");
    alerts
}

/// The names between `{{` and `}}` in a text, without the part before the last dot.
fn templated(text: &str) -> Vec<&str> {
    let inside = text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
    inside.map(|name| name.trim().rsplit('.').next().unwrap()).collect()
}

/// The names in a text that a query does not keep.
fn lost<'t>(text: &'t str, query: &Query) -> Vec<&'t str> {
    let grouped_by: BTreeSet<&String> = query.groupings.iter().flat_map(|(labels, _)| labels).collect();
    let everything = grouped_by.is_empty();
    templated(text)
        .into_iter()
        .filter(|name| !everything && !grouped_by.iter().any(|label| label == name))
        .collect()
}

#[tokio::test]
async fn alerts_of_the_chart_use_only_exposed_metrics() {
    let documented = Documented::read();
    let mut wrong = String::new();
    for honor in [HonorLabels::Yes, HonorLabels::No] {
        let scrape = scraped().await.after_relabeling(honor);
        for Alert { alert, expr, annotations, .. } in alerts(honor) {
            match Query::parse(&expr) {
                Ok(query) => {
                    for problem in unanswered(&scrape, &documented, &query) {
                        _ = writeln!(wrong, "{alert} ({honor:?}): {problem}");
                    }
                    for label in lost(&annotations.summary, &query) {
                        _ = writeln!(
                            wrong,
                            "{alert} ({honor:?}): the summary names {label}, which the query drops"
                        );
                    }
                }
                Err(problem) => _ = writeln!(wrong, "{alert}: {problem}"),
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_alert_is_documented_and_has_a_severity_and_a_unique_name() {
    let described = Documented::read().alerts;
    let alerts = alerts(HonorLabels::No);
    let names: BTreeSet<_> = alerts.iter().map(|it| it.alert.clone()).collect();
    assert_eq!(names.len(), alerts.len(), "two alerts have the same name");
    assert_eq!(names, described);
    for Alert { alert, labels, .. } in &alerts {
        assert!(["critical", "warning"].contains(&labels.severity.as_str()), "{alert}: {}", labels.severity);
    }
}

/// The queries of the dashboard with their panel and legend.
fn queries(dashboard: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            found.push((text(panel, "title"), text(target, "expr"), text(target, "legendFormat")));
        }
    }
    for annotation in dashboard["annotations"]["list"].as_array().unwrap() {
        found.push((text(annotation, "name"), text(annotation, "expr"), text(annotation, "textFormat")));
    }
    found
}

#[tokio::test]
async fn the_dashboard_of_the_chart_uses_only_exposed_metrics() {
    let documented = Documented::read();
    let text = file("charts/fairway/files/dashboard.json");
    let mut wrong = String::new();
    for honor in [HonorLabels::Yes, HonorLabels::No] {
        let scrape = scraped().await.after_relabeling(honor);
        let dashboard: Value = serde_json::from_str(&rendered(&text, honor)).unwrap();
        let queries = queries(&dashboard);
        assert!(queries.len() > 40, "the queries were found");
        for (title, expression, legend) in queries {
            let query = Query::parse(&expression).unwrap_or_else(|problem| panic!("{title}: {problem}"));
            assert!(!query.selectors.is_empty(), "{title}: {expression}");
            for problem in unanswered(&scrape, &documented, &query) {
                _ = writeln!(wrong, "{title} ({honor:?}): {problem}");
            }
            for label in lost(&legend, &query) {
                _ = writeln!(wrong, "{title} ({honor:?}): the legend names {label}, which the query drops");
            }
        }
        for variable in dashboard["templating"]["list"].as_array().unwrap() {
            let Some(listed) = variable["query"]["query"].as_str() else { continue };
            let (query, label) = Query::label_values(listed).unwrap_or_else(|| panic!("{listed}"));
            let has = |selector: &Selector| {
                labels_of(&scrape, &documented, &selector.metric).is_some_and(|known| known.contains(&label))
            };
            if !unanswered(&scrape, &documented, &query).is_empty() || !query.selectors.iter().all(has) {
                _ = writeln!(wrong, "variable ({honor:?}): {listed}");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn the_dashboard_uses_only_its_own_variables_and_unique_panel_numbers() {
    let text = file("charts/fairway/files/dashboard.json");
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let variables: BTreeSet<_> =
        variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    let used = text.split('$').skip(1).map(|rest| {
        let rest = rest.trim_start_matches('{');
        rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap()
    });
    let unknown: BTreeSet<_> =
        used.filter(|name| !name.starts_with("__") && !variables.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    let panels = dashboard["panels"].as_array().unwrap();
    let numbers: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(numbers.len(), panels.len());
}

#[tokio::test]
async fn the_documented_types_and_labels_match_a_scrape() {
    let (scrape, documented) = (scraped().await, Documented::read());
    let mut wrong = String::new();
    for (name, metric) in documented.metrics.iter().filter(|(_, metric)| !metric.of_a_cluster) {
        if scrape.types.get(name) != Some(&metric.kind) {
            _ = writeln!(wrong, "{name} is a {:?}, not a {}", scrape.types.get(name), metric.kind);
        }
        for series in
            scrape.series.iter().filter(|it| scrape.kind(&it.name).is_some_and(|(family, _)| family == name))
        {
            let labels: BTreeSet<_> = series.labels.keys().filter(|label| *label != "le").cloned().collect();
            if labels != metric.labels {
                _ = writeln!(wrong, "{} has {labels:?}, described are {:?}", series.name, metric.labels);
                break;
            }
        }
    }
    let undescribed = scrape.types.keys().filter(|name| !documented.metrics.contains_key(*name));
    undescribed.for_each(|name| _ = writeln!(wrong, "{name} is not described"));
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[tokio::test]
async fn a_query_for_a_missing_metric_is_detected() {
    let (scrape, documented) = (scraped().await.after_relabeling(HonorLabels::No), Documented::read());
    for (query, part) in [
        ("fairway_nothing", "not exposed"),
        ("fairway_faults_total{status=\"1\"}", "no label status"),
        ("fairway_faults_total{reason=\"nothing_like_it\"}", "no series"),
        ("nginx_ingress_controller_requests{ingress=\"none\"}", "no series"),
        ("sum by (reason) (fairway_connections_open)", "is grouped by reason"),
        ("sum(fairway_cluster_watches) by (severity)", "is grouped by severity"),
        ("fairway_config_version_bucket", "not exposed"),
    ] {
        let wrong = unanswered(&scrape, &documented, &Query::parse(query).unwrap());
        assert!(wrong.iter().any(|problem| problem.contains(part)), "{query}: {wrong:?}");
    }
    for fine in ["fairway_faults_total{reason=\"overloaded\"}", "fairway_cluster_watches{state=\"failing\"}"]
    {
        assert_eq!(unanswered(&scrape, &documented, &Query::parse(fine).unwrap()), Vec::<String>::new());
    }
}
