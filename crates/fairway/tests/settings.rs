//! `fairway run` as a process: ConfigMap settings, and the ConfigMaps that they name, while requests are served.

use std::path::Path;
use std::process::Command;

use fairway_testkit::client::TlsOffer;
use fairway_testkit::manifests::{Ingress, Manifests, config_map, ingress_class, service_with_endpoints};
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually};
use fairway_testkit::{Authority, Backend, BackendResponse, Client, Fairway, RawResponse, Request};
use tokio::sync::Mutex;
use tokio_rustls::rustls::version::{TLS12, TLS13};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// An Ingress at `a.test` with a certificate, its backend, and settings with these keys.
struct Site {
    manifests: Manifests,
    backend: Backend,
    authority: Authority,
}

impl Site {
    async fn with(keys: &[(&str, &str)]) -> Self {
        let backend = Backend::http(|_| {
            BackendResponse::with_headers(
                200,
                &[("X-Powered-By", "x/1"), ("Set-Cookie", "sid=7; Path=/")],
                "it",
            )
        })
        .await;
        let (manifests, authority) = (Manifests::new(), Authority::new("test"));
        manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
        let ingress = Ingress::new("a", "web")
            .class(Some("fairway"))
            .annotation("ssl-redirect", "false")
            .tls(Some("tls"), &["a.test"])
            .route("a.test", "/", ("web", 80));
        manifests.put("web.yaml", ingress.yaml());
        manifests.put("tls.yaml", authority.leaf(&["a.test"]).secret_yaml("a", "tls"));
        manifests.put("service.yaml", service_with_endpoints("a", "web", 80, &[backend.address()]));
        let site = Self { manifests, backend, authority };
        site.set(keys);
        site
    }

    fn set(&self, keys: &[(&str, &str)]) {
        self.manifests.put("settings.yaml", config_map("a", "settings", keys));
    }

    async fn run(&self) -> Fairway {
        let flags = ["--configmap", "a/settings", "--workers", "1"];
        Fairway::ready(Path::new(BINARY), self.manifests.path(), &flags).await
    }

    /// All diagnostics.
    fn diagnostics(&self) -> String {
        let check = Command::new(BINARY)
            .args(["check", "--configmap", "a/settings"])
            .arg(self.manifests.path())
            .output()
            .unwrap();
        String::from_utf8(check.stdout).unwrap()
    }
}

async fn send_request(client: &mut Client, target: &str) -> RawResponse {
    client.exchange(&Request::get("a.test", target)).await.unwrap()
}

#[tokio::test]
async fn global_headers_follow_their_config_maps_at_run_time() {
    let keys = [
        ("add-headers", "edge/answers"),
        ("proxy-set-headers", "edge/requests"),
        ("hide-headers", "X-Powered-By"),
    ];
    let site = Site::with(&keys).await;
    let responses = |frame: &str| {
        config_map("edge", "answers", &[("X-Frame-Options", frame), ("X-Request-Number", "$req_id")])
    };
    site.manifests.put("answers.yaml", responses("DENY"));
    let requests =
        [("X-Request-Start", "t=${msec}"), ("X-Asked", "$scheme://$host$request_uri"), ("Accept", "")];
    site.manifests.put("requests.yaml", config_map("edge", "requests", &requests));
    assert_eq!(
        site.diagnostics().lines().filter(|line| line.contains('[')).count(),
        0,
        "{}",
        site.diagnostics()
    );
    let fairway = site.run().await;
    let mut client = Client::connect(fairway.http).await.unwrap();
    let request = Request::get("a.test", "/b?c").header("Accept", "text/html");
    let response = client.exchange(&request).await.unwrap();
    let got = site.backend.requests().pop().unwrap();
    assert_eq!((got.header("X-Asked"), got.header("Accept")), (Some("http://a.test/b?c"), None));
    let start = got.header("X-Request-Start").unwrap();
    assert!(start.strip_prefix("t=").unwrap().parse::<f64>().unwrap() > 1.7e9, "{start}");
    assert_eq!((response.header("X-Frame-Options"), response.header("X-Powered-By")), (Some("DENY"), None));
    assert_eq!(response.header("X-Request-Number"), got.header("X-Request-ID"));

    let mut elsewhere = Client::connect(fairway.http).await.unwrap();
    let unknown = elsewhere.exchange(&Request::get("b.test", "/")).await.unwrap();
    assert_eq!((unknown.status, unknown.header("X-Frame-Options")), (404, Some("DENY")));
    assert_eq!(unknown.header("X-Request-Number").map(str::len), Some(32));

    site.manifests.put("answers.yaml", responses("SAMEORIGIN"));
    let client = Mutex::new(client);
    let shows = async |value: Option<&str>| {
        send_request(&mut *client.lock().await, "/").await.header("X-Frame-Options") == value
    };
    eventually("the new value", WAIT_TIMEOUT, || shows(Some("SAMEORIGIN"))).await;
    site.manifests.remove("answers.yaml");
    eventually("no header", WAIT_TIMEOUT, || shows(None)).await;
    let diagnostics = site.diagnostics();
    assert!(
        diagnostics.contains("missing-reference")
            && diagnostics.contains("ConfigMap edge/answers does not exist"),
        "{diagnostics}"
    );
    let got = site.backend.requests().pop().unwrap();
    assert!(got.header("X-Asked").is_some(), "nothing else is affected");
    site.manifests.put("answers.yaml", responses("DENY"));
    eventually("the header is back", WAIT_TIMEOUT, || shows(Some("DENY"))).await;
    assert_eq!(site.backend.connection_count(), 1);
}

#[tokio::test]
async fn compression_follows_its_keys_at_run_time() {
    let gzip = [("use-gzip", "true"), ("gzip-min-length", "1"), ("gzip-types", "*")];
    let zstd = [("enable-zstd", "true"), ("zstd-min-length", "2"), ("zstd-types", "*")];
    let keys = [gzip, zstd].concat();
    let site = Site::with(&keys).await;
    let explained = Command::new(BINARY)
        .args(["explain", "http://a.test/", "--configmap", "a/settings", "--manifests"])
        .arg(site.manifests.path())
        .output()
        .unwrap();
    let explained = String::from_utf8(explained.stdout).unwrap();
    let expected = "responses are compressed for clients that accept it: zstd at level 3 from 2 bytes (*, text/html); \
                    gzip at level 1 from 1 bytes (*, text/html)";
    assert!(explained.contains(expected), "{explained}");
    let fairway = site.run().await;
    let client = Mutex::new(Client::connect(fairway.http).await.unwrap());
    let request = Request::get("a.test", "/").header("Accept-Encoding", "gzip, br, zstd");
    let send = async || client.lock().await.exchange(&request).await.unwrap();
    let response = send().await;
    assert_eq!((response.status, response.header("Content-Encoding")), (200, Some("zstd")));
    assert!(response.body.starts_with(b"\x28\xb5\x2f\xfd"), "the magic number of Zstandard");
    site.set(&gzip);
    eventually("gzip", WAIT_TIMEOUT, || async { send().await.header("Content-Encoding") == Some("gzip") })
        .await;
    let response = send().await;
    assert_eq!((response.status, response.header("Content-Encoding")), (200, Some("gzip")));
    assert_eq!((response.header("Vary"), response.header("Content-Length")), (Some("Accept-Encoding"), None));
    assert!(response.body.starts_with(b"\x1f\x8b"), "the magic number of gzip");
    site.set(&[("use-gzip", "false")]);
    eventually("not compressed", WAIT_TIMEOUT, || async {
        send().await.header("Content-Encoding").is_none()
    })
    .await;
    let response = send().await;
    assert_eq!((response.header("Vary"), &response.body[..]), (None, &b"it"[..]));
}

#[tokio::test]
async fn tls_versions_follow_their_key_at_run_time() {
    let site = Site::with(&[("ssl-protocols", "TLSv1.2 TLSv1.3")]).await;
    let fairway = site.run().await;
    let connect = async |version| {
        let offer = TlsOffer::new(site.authority.client_config_with_versions(&[version]), "a.test");
        Client::connect_tls(fairway.https, &offer).await
    };
    let mut open = connect(&TLS12).await.unwrap();
    assert_eq!(send_request(&mut open, "/").await.status, 200);
    assert!(connect(&TLS13).await.is_ok());
    for (value, spoken, refused) in [("TLSv1.3", &TLS13, &TLS12), ("TLSv1.1 TLSv1.2", &TLS12, &TLS13)] {
        site.set(&[("ssl-protocols", value)]);
        eventually(value, WAIT_TIMEOUT, || async { connect(refused).await.is_err() }).await;
        assert!(connect(spoken).await.is_ok(), "{value}");
    }
    assert_eq!(send_request(&mut open, "/").await.status, 200, "the change closes no connection");
    assert!(site.diagnostics().contains("older clients cannot connect"), "{}", site.diagnostics());
}

#[tokio::test]
async fn log_lines_contain_the_connection_and_the_original_response() {
    let format = "mine $connection_requests $ssl_protocol $ssl_cipher $ssl_server_name $ssl_session_reused \
                  $upstream_http_x_powered_by $sent_http_x_powered_by $upstream_cookie_sid [$remote_port] $connection";
    let keys = [("log-format-upstream", format), ("hide-headers", "X-Powered-By")];
    let site = Site::with(&keys).await;
    assert_eq!(
        site.diagnostics().lines().filter(|line| line.contains('[')).count(),
        0,
        "{}",
        site.diagnostics()
    );
    let fairway = site.run().await;
    let offer = TlsOffer::new(site.authority.client_config_with_versions(&[&TLS13]), "a.test");
    let mut client = Client::connect_tls(fairway.https, &offer).await.unwrap();
    for _ in 0..2 {
        assert_eq!(send_request(&mut client, "/").await.status, 200);
    }
    let line = |requests: u32| format!("mine {requests} TLSv1.3 TLS_AES_256_GCM_SHA384 a.test . x/1 - 7 [");
    eventually("both lines", WAIT_TIMEOUT, || async {
        let lines = fairway.lines();
        [1, 2].iter().all(|number| lines.iter().any(|found| found.starts_with(&line(*number))))
    })
    .await;
    let ends: Vec<_> =
        fairway.lines().iter().filter_map(|it| Some(it.split_once('[')?.1.to_owned())).collect();
    let (port, number) = ends.last().unwrap().split_once("] ").unwrap();
    assert!(port.parse::<u16>().unwrap() > 0 && number.parse::<u64>().unwrap() > 0, "{ends:?}");
    assert!(
        ends.iter().filter(|end| *end == ends.last().unwrap()).count() == 2,
        "of one connection: {ends:?}"
    );
}

#[tokio::test]
async fn the_log_shows_the_page_that_replaced_a_response() {
    let site =
        Site::with(&[("log-format-upstream", "page $status $sent_http_x_from $upstream_http_x_from")]).await;
    let from = async |name: &'static str| {
        Backend::http(move |_| BackendResponse::with_headers(404, &[("X-From", name)], "none")).await
    };
    let (web, pages) = (from("web").await, from("pages").await);
    site.manifests.put("service.yaml", service_with_endpoints("a", "web", 80, &[web.address()]));
    site.manifests.put("pages.yaml", service_with_endpoints("a", "pages", 80, &[pages.address()]));
    let ingress = Ingress::new("a", "replaced")
        .class(Some("fairway"))
        .annotation("custom-http-errors", "404")
        .annotation("default-backend", "pages")
        .route("b.test", "/", ("web", 80));
    site.manifests.put("replaced.yaml", ingress.yaml());
    let fairway = site.run().await;
    let mut client = Client::connect(fairway.http).await.unwrap();
    for (host, line) in [("a.test", "page 404 web web"), ("b.test", "page 404 pages pages")] {
        let response = client.exchange(&Request::get(host, "/")).await.unwrap();
        assert_eq!(response.header("X-From"), line.split(' ').next_back());
        eventually(line, WAIT_TIMEOUT, || async { fairway.lines().iter().any(|found| found == line) }).await;
    }
}
