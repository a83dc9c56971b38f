//! The telemetry that a collector receives from the binary: metrics and access log lines, over TLS, with headers that appear in no
//! log and on no page.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use fairway_testkit::backend::{Backend, BackendResponse, RecordedRequest};
use fairway_testkit::certificates::Authority;
use fairway_testkit::client::{Client, Request};
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class};
use fairway_testkit::process::Fairway;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
const SECRET: &str = "s3cret-of-the-collector";

/// The requests for a path.
fn requests_for(collector: &Backend, path: &str) -> Vec<RecordedRequest> {
    collector.requests().into_iter().filter(|request| request.target == path).collect()
}

/// The lines that a collector has received.
fn lines(collector: &Backend) -> Vec<String> {
    let requests = requests_for(collector, "/v1/logs");
    let messages = requests.iter().map(|it| ExportLogsServiceRequest::decode(&*it.body).unwrap());
    let scopes = messages.flat_map(|it| it.resource_logs).flat_map(|it| it.scope_logs);
    let bodies = scopes.flat_map(|it| it.log_records).filter_map(|it| it.body?.value);
    bodies
        .map(|body| match body {
            Value::StringValue(line) => line,
            other => panic!("{other:?}"),
        })
        .collect()
}

/// The metrics with their kinds, and whether a message has this service name.
fn metrics(collector: &Backend, service: &str) -> BTreeSet<(String, &'static str)> {
    let requests = requests_for(collector, "/v1/metrics");
    let messages = requests.iter().map(|it| ExportMetricsServiceRequest::decode(&*it.body).unwrap());
    let mut found = BTreeSet::new();
    for resource in messages.flat_map(|it| it.resource_metrics) {
        let attributes = format!("{:?}", resource.resource);
        assert!(attributes.contains(service), "{attributes}");
        for metric in resource.scope_metrics.into_iter().flat_map(|it| it.metrics) {
            let kind = match metric.data {
                Some(Data::Sum(_)) => "counter",
                Some(Data::Gauge(_)) => "gauge",
                Some(Data::Histogram(_)) => "histogram",
                other => panic!("{other:?}"),
            };
            found.insert((metric.name, kind));
        }
    }
    found
}

#[tokio::test]
async fn a_collector_gets_metrics_and_lines_and_only_it_gets_its_headers() {
    let authority = Authority::new("collectors");
    let tls = authority.leaf(&["localhost", "127.0.0.1"]).server_config(&["http/1.1"]);
    let collector = Backend::https(tls, |_| BackendResponse::ok("")).await;
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let headers = file("headers", &format!("# of the collector\nx-key={SECRET}\n"));
    let ca = file("ca.crt", authority.pem());
    let endpoint = format!("https://localhost:{}", collector.address().port());

    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    let ingress = Ingress::new("a", "web").class(Some("fairway"));
    manifests.put("web.yaml", ingress.route("a.test", "/", ("gone", 80)).yaml());
    let flags = [
        "--otlp-endpoint",
        &endpoint,
        "--otlp-protocol",
        "http",
        "--otlp-headers-file",
        &headers,
        "--otlp-ca-file",
        &ca,
        "--otlp-service-name",
        "edge",
        "--otlp-metrics-interval",
        "1",
        "--otlp-logs",
        "--access-log",
        "json",
        "--drain-delay",
        "0",
        "--log-level",
        "trace",
    ];
    let mut fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &flags).await;
    let mut client = Client::connect(fairway.http).await.unwrap();
    client.exchange(&Request::get("a.test", "/first").close()).await.unwrap();

    collector
        .wait_until("the metrics of the request come", |collector| {
            metrics(collector, "edge").contains(&("nginx_ingress_controller_requests".to_owned(), "counter"))
        })
        .await;
    let exported = metrics(&collector, "edge");
    for name in [
        ("fairway_otlp_items_sent_total", "counter"),
        ("fairway_connections_open", "gauge"),
        ("nginx_ingress_controller_request_duration_seconds", "histogram"),
    ] {
        assert!(exported.contains(&(name.0.to_owned(), name.1)), "{name:?} in {exported:?}");
    }
    // The exported metrics are exactly those of a scrape.
    let shown = fairway.metrics().await.0;
    let shown: BTreeSet<_> = shown
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(['{', ' ']).next().unwrap().to_owned())
        .collect();
    for (name, kind) in &exported {
        let sample = if *kind == "histogram" { format!("{name}_count") } else { name.clone() };
        assert!(shown.contains(&sample), "{sample} is not shown");
    }

    for page in ["/metrics", "/config", "/dashboard/", "/served"] {
        assert!(!fairway.admin(page).await.unwrap().text().contains(SECRET), "{page}");
    }
    // The line of the second request has not been exported yet when the process stops.
    let mut client = Client::connect(fairway.http).await.unwrap();
    client.exchange(&Request::get("a.test", "/second").close()).await.unwrap();
    fairway.program().terminate().unwrap();
    let status = fairway.program().exit_within(Duration::from_secs(60)).await;
    assert!(status.success(), "{:?}", fairway.lines());

    let printed: Vec<_> = fairway.lines();
    let logged: Vec<_> = printed.iter().filter(|line| line.contains("\"took_us\"")).collect();
    assert_eq!(lines(&collector).iter().collect::<Vec<_>>(), logged, "the lines match the log");
    // Each worker writes its own lines, so the second may come first.
    let has_line = |path: &str| logged.iter().any(|line| line.contains(path));
    assert!(has_line("/first") && has_line("/second") && logged.len() == 2, "{logged:?}");
    assert!(!printed.iter().any(|line| line.contains(SECRET)), "a log has the header");
    for request in collector.requests() {
        assert_eq!(request.header("x-key"), Some(SECRET));
        assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
    }
}

#[tokio::test]
async fn an_unreachable_collector_is_reported_once_and_delays_nothing() {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    let collector = Backend::http(|_| BackendResponse::ok("")).await;
    collector.refuse().await;
    let endpoint = format!("http://{}", collector.address());
    let flags = [
        "--otlp-endpoint",
        &endpoint,
        "--otlp-metrics-interval",
        "1",
        "--drain-delay",
        "0",
        "--log-format",
        "json",
    ];
    let mut fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &flags).await;
    let failed = [("signal", "metrics"), ("outcome", "failed")];
    fairway.until_metric("fairway_otlp_exports_total", &failed, |count| count >= 2.0).await;
    let warnings = fairway.lines().into_iter().filter(|line| line.contains("telemetry: ")).count();
    assert_eq!(warnings, 1, "{:?}", fairway.lines());
    fairway.program().terminate().unwrap();
    // The rest has to be exported within five seconds.
    let status = fairway.program().exit_within(Duration::from_secs(60)).await;
    assert!(status.success(), "{:?}", fairway.lines());
}
