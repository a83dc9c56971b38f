//! ConfigMap keys that ingress-nginx passes on to nginx: replays the recorded exchanges with nginx (`cases/`) against the real
//! binary. `record` in this folder records the responses of nginx again. An exchange in which Fairway differs on purpose states
//! how and why; the test fails if it does not differ as stated, or no longer differs.

mod case;
mod server;

use std::net::SocketAddr;
use std::path::Path;

use fairway_testkit::manifests::{Ingress, Manifests, config_map, ingress_class, service_with_endpoints};
use fairway_testkit::{Backend, BackendResponse, Client, Fairway, Request};
use tokio::task::JoinSet;

use case::{Answered, Case, Exchange, File};
use server::Nginx;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
const HOST: &str = "a.test";

/// The root folder with nginx and its libraries (`lab/peers/current`), for recording.
const RECORDING: &str = "FAIRWAY_NGINX_ROOT";

/// The user file of `auth-secret: users`.
const USER: &str = "a:{PLAIN}b";

/// Number of concurrent cases: each has its own process.
const AT_A_TIME: usize = 4;

/// Minimum number of exchanges in the files.
const EXPECTED: [(&str, usize, usize); 7] = [
    ("header-names", 4, 160),
    ("client-address", 20, 60),
    ("blocked-clients", 30, 90),
    ("block-cidrs", 7, 23),
    ("error-pages", 7, 15),
    ("limit-status", 9, 21),
    ("redirect-code", 10, 21),
];

#[tokio::test]
async fn keys_of_nginx_have_its_effect_or_differ_by_design() {
    let mut wrong = Vec::new();
    for (name, cases, exchanges) in EXPECTED {
        let mut file = File::read(name);
        if let Ok(root) = std::env::var(RECORDING) {
            for case in &mut file.cases {
                record(case, Path::new(&root)).await;
            }
            file.write();
        }
        assert!(file.cases.len() >= cases, "{name}: {} cases", file.cases.len());
        let exchange_count: usize = file.cases.iter().map(|case| case.exchanges.len()).sum();
        assert!(exchange_count >= exchanges, "{name}: {exchange_count} exchanges");
        wrong.extend(replayed(file.cases).await.into_iter().map(|found| format!("{name}: {found}")));
    }
    assert!(wrong.is_empty(), "{} deviations:\n{}", wrong.len(), wrong.join("\n"));
}

/// Sends the requests to nginx and records the responses.
async fn record(case: &mut Case, root: &Path) {
    let (backend, pages) = (backend().await, pages().await);
    let nginx = Nginx::start(root, case, backend.address(), pages.address()).await;
    let _waiting = waiting(nginx.address, case, &backend).await;
    for exchange in &mut case.exchanges {
        exchange.nginx = Some(send_exchange(nginx.address, exchange, &backend, &pages).await);
    }
}

/// The deviations from the recording.
async fn replayed(cases: Vec<Case>) -> Vec<String> {
    let (mut waiting, mut running, mut found) = (cases.into_iter(), JoinSet::new(), Vec::new());
    loop {
        while running.len() < AT_A_TIME
            && let Some(case) = waiting.next()
        {
            running.spawn(replay(case));
        }
        match running.join_next().await {
            Some(deviations) => found.extend(deviations.unwrap()),
            None => return found,
        }
    }
}

async fn replay(case: Case) -> Vec<String> {
    let (backend, pages) = (backend().await, pages().await);
    let manifests = manifests(&case, backend.address(), pages.address());
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &["--configmap", "a/settings"]).await;
    let _waiting = waiting(fairway.http, &case, &backend).await;
    let mut found = Vec::new();
    for exchange in &case.exchanges {
        let now = send_exchange(fairway.http, exchange, &backend, &pages).await;
        found.extend(exchange.judge(&now).map(|problem| format!("{}: {problem}", case.name)));
    }
    found
}

async fn backend() -> Backend {
    Backend::http(|request| {
        let status = request.target.strip_prefix("/status/").and_then(|status| status.parse().ok());
        let response = BackendResponse::status(status.unwrap_or(200), "seen");
        if request.target == "/held" { response.hold() } else { response }
    })
    .await
}

/// The connection of a request without a response, if the case wants one.
async fn waiting(address: SocketAddr, case: &Case, backend: &Backend) -> Option<Client> {
    if !case.busy {
        return None;
    }
    let mut client = Client::connect(address).await.unwrap();
    client.send(Request::get(HOST, "/held").bytes()).await.unwrap();
    backend.wait_until("a request waits", |backend| backend.request_count() > 0).await;
    Some(client)
}

/// The Service of `default-backend: pages`.
async fn pages() -> Backend {
    Backend::http(|_| BackendResponse::status(418, "page")).await
}

fn manifests(case: &Case, backend: SocketAddr, pages: SocketAddr) -> Manifests {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    let mut ingress = Ingress::new("a", "web").class(Some("fairway")).route(HOST, "/", ("web", 80));
    if let Some(allow) = &case.allow {
        ingress = ingress.annotation("whitelist-source-range", allow);
    }
    for (name, value) in &case.annotations {
        ingress = ingress.annotation(name, value);
    }
    manifests.put("web.yaml", ingress.yaml());
    let users = format!("metadata: {{name: users, namespace: a}}\nstringData: {{auth: \"{USER}\"}}\n");
    manifests.put("users.yaml", format!("apiVersion: v1\nkind: Secret\n{users}"));
    manifests.put("pages.yaml", service_with_endpoints("a", "pages", 80, &[pages]));
    manifests.put("service.yaml", service_with_endpoints("a", "web", 80, &[backend]));
    let keys: Vec<_> = case.keys.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    manifests.put("settings.yaml", config_map("a", "settings", &keys));
    manifests
}

/// One exchange over a new connection.
async fn send_exchange(
    address: SocketAddr,
    exchange: &Exchange,
    backend: &Backend,
    pages: &Backend,
) -> Answered {
    let (before, pages_before) = (backend.request_count(), pages.request_count());
    let mut client = Client::connect(address).await.unwrap();
    if let Some(header) = &exchange.proxy_header {
        client.send(format!("{header}\r\n")).await.unwrap();
    }
    let request = exchange
        .headers
        .iter()
        .fold(Request::get(HOST, exchange.target.as_deref().unwrap_or("/")), |request, (name, value)| {
            request.header(name, value)
        });
    let response = client.exchange(&request.close()).await.ok();
    let page = pages.requests().get(pages_before).map(|request| {
        ["x-code", "x-original-uri"].map(|name| request.header(name).unwrap_or_default().to_owned())
    });
    Answered {
        status: response.as_ref().map_or(0, |response| response.status),
        location: response.and_then(|response| response.header("location").map(str::to_owned)),
        page,
        seen: backend.requests().get(before).map(case::relevant_headers),
    }
}
