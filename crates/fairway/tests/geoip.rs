//! `fairway run` as a process: access by country and autonomous system, GeoIP data in headers and in the log, and databases that
//! change, are truncated or missing.

use std::fs;
use std::path::Path;

use fairway_testkit::manifests::{Ingress, Manifests, config_map, ingress_class, service_with_endpoints};
use fairway_testkit::mmdb::{Mmdb, country, network};
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually};
use fairway_testkit::{Backend, BackendResponse, Client, Fairway, Request};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

const GERMAN: &str = "203.0.113.9";
const BLOCKED: &str = "203.0.113.200";
const FRENCH: &str = "198.51.100.7";
const UNLISTED: &str = "192.0.2.1";

/// 203.0.113.0/24 is in this country.
fn countries(code: &str, built: u64) -> Vec<u8> {
    let mmdb =
        Mmdb::new("GeoLite2-Country", built).with_network("203.0.113.0/24", &country(code, "Some Country"));
    mmdb.with_network("198.51.100.0/24", &country("FR", "France")).bytes()
}

fn networks() -> Vec<u8> {
    Mmdb::new("GeoLite2-ASN", 1).with_network("203.0.113.128/25", &network(64666, "Spam")).bytes()
}

/// Hosts that allow Germany except for one network, and that deny France; with settings for headers and log.
async fn guarded() -> (Manifests, Backend) {
    let backend = Backend::http(|_| BackendResponse::ok("inside")).await;
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    for (name, rules) in [
        (
            "allow",
            r#"{"rules": [{"action": "Deny", "asns": [64666]}, {"action": "Allow", "countries": ["DE", "AT"]}]}"#,
        ),
        ("deny", r#"{"rules": [{"action": "Deny", "countries": ["FR"]}]}"#),
    ] {
        let ingress = Ingress::new("a", name)
            .class(Some("fairway"))
            .annotation("fairway.dev/authorization", rules)
            .route(&format!("{name}.test"), "/", ("web", 80));
        manifests.put(&format!("{name}.yaml"), ingress.yaml());
    }
    manifests.put("service.yaml", service_with_endpoints("a", "web", 80, &[backend.address()]));
    let keys = [
        ("use-forwarded-headers", "true"),
        ("proxy-set-headers", "a/headers"),
        (
            "log-format-upstream",
            "mine $the_real_ip $status $geoip2_city_country_code $geoip2_asn [$geoip2_org] $fairway_reason",
        ),
    ];
    manifests.put("settings.yaml", config_map("a", "settings", &keys));
    let headers =
        [("X-Country", "$geoip2_country_code"), ("X-Country-Name", "in $geoip2_country_name, maybe")];
    manifests.put("headers.yaml", config_map("a", "headers", &headers));
    (manifests, backend)
}

async fn run(manifests: &Manifests, additional: &[&str]) -> Fairway {
    let flags = ["--configmap", "a/settings", "--trusted-forwarders", "127.0.0.0/8"];
    Fairway::ready(Path::new(BINARY), manifests.path(), &[&flags, additional].concat()).await
}

async fn status(fairway: &Fairway, host: &str, client: &str) -> u16 {
    let mut connection = Client::connect(fairway.http).await.unwrap();
    let request = Request::get(host, "/")
        .header("X-Forwarded-For", client)
        .header("X-Country", "spoofed")
        .header("x-country-name", "spoofed");
    connection.exchange(&request.close()).await.unwrap().status
}

/// Replaces a file by renaming, as geoipupdate does.
fn replace(file: &Path, bytes: &[u8]) {
    let new = file.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, file).unwrap();
}

#[tokio::test]
async fn clients_pass_by_country_and_network_which_headers_and_log_show() {
    let (manifests, backend) = guarded().await;
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("country.mmdb"), folder.path().join("asn.mmdb"));
    fs::write(&one, countries("DE", 1_700_000_000)).unwrap();
    fs::write(&other, networks()).unwrap();
    let files = format!("{},{}", one.display(), other.display());
    let fairway = run(&manifests, &["--geoip", &files]).await;
    for (host, client, expected) in [
        ("allow.test", GERMAN, 200),
        ("allow.test", BLOCKED, 403),
        ("allow.test", FRENCH, 403),
        ("allow.test", UNLISTED, 403),
        ("allow.test", "unreadable", 403),
        ("deny.test", GERMAN, 200),
        ("deny.test", FRENCH, 403),
        ("deny.test", UNLISTED, 200),
        ("deny.test", "unreadable", 403),
    ] {
        assert_eq!(status(&fairway, host, client).await, expected, "{host} {client}");
    }
    let headers: Vec<_> = backend
        .requests()
        .iter()
        .map(|request| {
            let header = |name: &str| request.header(name).map(str::to_owned);
            (header("X-Country"), header("X-Country-Name"))
        })
        .collect();
    let german = (Some("DE".to_owned()), Some("in Some Country, maybe".to_owned()));
    let unlisted = (None, Some("in , maybe".to_owned()));
    assert_eq!(headers, [german.clone(), german, unlisted]);
    for line in [
        "mine 203.0.113.9 200 DE - [-] -",
        "mine 203.0.113.200 403 DE 64666 [Spam] not_allowed",
        "mine 192.0.2.1 403 - - [-] not_allowed",
    ] {
        eventually(line, WAIT_TIMEOUT, || async { fairway.lines().iter().any(|it| it == line) }).await;
    }

    let refused = "fairway_geoip_databases_refused_total";
    let name = one.display().to_string();
    let torn = countries("FR", 1_800_000_000);
    replace(&one, &torn[..torn.len() / 2]);
    fairway.until_metric(refused, &[("file", &name)], |count| count == 1.0).await;
    fairway.line_with(&format!("the GeoIP database {name} is torn")).await;
    assert_eq!(status(&fairway, "allow.test", GERMAN).await, 200, "the last valid database is in use");

    replace(&one, &torn);
    let built = "fairway_geoip_database_built_timestamp_seconds";
    let labels = [("file", &*name), ("type", "GeoLite2-Country")];
    fairway.until_metric(built, &labels, |built| built == 1_800_000_000.0).await;
    assert_eq!(status(&fairway, "allow.test", GERMAN).await, 403);
    assert_eq!(status(&fairway, "deny.test", GERMAN).await, 403);
    assert_eq!(fairway.metrics().await.sum(refused, &[]), 1.0);
}

#[tokio::test]
async fn without_a_database_no_client_passes_by_country() {
    let (manifests, backend) = guarded().await;
    let missing = "/nonexistent/country.mmdb";
    let fairway = run(&manifests, &["--geoip", missing]).await;
    for host in ["allow.test", "deny.test"] {
        for client in [GERMAN, FRENCH, UNLISTED] {
            assert_eq!(status(&fairway, host, client).await, 403, "{host} {client}");
        }
    }
    assert_eq!(backend.request_count(), 0);
    fairway.line_with(&format!("the GeoIP database {missing} cannot be read")).await;
    fairway.line_with("no GeoIP database of countries").await;
    assert_eq!(fairway.metrics().await.sum("fairway_geoip_databases_refused_total", &[]), 1.0);
    let reports =
        fairway.lines().iter().filter(|line| line.contains("no GeoIP database of countries")).count();
    assert_eq!(reports, 1);
}
