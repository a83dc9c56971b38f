//! Keys of the settings ConfigMap that ingress-nginx hands on to nginx: what nginx answered with them (`cases/`), asked again of
//! the real binary.
//!
//! `record` beside this file makes the answers of nginx again. An exchange that Fairway answers otherwise on purpose says how, and
//! why; the test fails where it does not, and where it no longer differs.

mod case;
mod server;

use std::net::SocketAddr;
use std::path::Path;

use fairway_testkit::manifests::{Ingress, Manifests, config_map, ingress_class, service_with_endpoints};
use fairway_testkit::{Answer, Backend, Client, Fairway, Request};
use tokio::task::JoinSet;

use case::{Answered, Case, Exchange, File};
use server::Nginx;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
const HOST: &str = "a.test";

/// Where nginx is, while its answers are recorded: a root folder with its libraries (`lab/peers/current`).
const RECORDING: &str = "FAIRWAY_NGINX_ROOT";

/// Cases that are asked at a time: each has a process of its own.
const AT_A_TIME: usize = 4;

/// What the files hold at least.
const EXPECTED: [(&str, usize, usize); 3] =
    [("header-names", 4, 160), ("client-address", 20, 60), ("blocked-clients", 30, 90)];

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
        let asked: usize = file.cases.iter().map(|case| case.exchanges.len()).sum();
        assert!(asked >= exchanges, "{name}: {asked} exchanges");
        wrong.extend(replayed(file.cases).await.into_iter().map(|found| format!("{name}: {found}")));
    }
    assert!(wrong.is_empty(), "{} deviations:\n{}", wrong.len(), wrong.join("\n"));
}

/// Asks nginx, and keeps what it answers.
async fn record(case: &mut Case, root: &Path) {
    let backend = backend().await;
    let nginx = Nginx::start(root, case, backend.address()).await;
    for exchange in &mut case.exchanges {
        exchange.nginx = Some(ask(nginx.address, exchange, &backend).await);
    }
}

/// The deviations from what was recorded.
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
    let backend = backend().await;
    let manifests = manifests(&case, backend.address());
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &["--configmap", "a/settings"]).await;
    let mut found = Vec::new();
    for exchange in &case.exchanges {
        let now = ask(fairway.http, exchange, &backend).await;
        found.extend(exchange.judge(&now).map(|problem| format!("{}: {problem}", case.name)));
    }
    found
}

async fn backend() -> Backend {
    Backend::http(|_| Answer::ok("seen")).await
}

fn manifests(case: &Case, backend: SocketAddr) -> Manifests {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    let mut ingress = Ingress::new("a", "web").class(Some("fairway")).route(HOST, "/", ("web", 80));
    if let Some(allow) = &case.allow {
        ingress = ingress.annotation("whitelist-source-range", allow);
    }
    manifests.put("web.yaml", ingress.yaml());
    manifests.put("service.yaml", service_with_endpoints("a", "web", 80, &[backend]));
    let keys: Vec<_> = case.keys.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    manifests.put("settings.yaml", config_map("a", "settings", &keys));
    manifests
}

/// One exchange over a connection of its own.
async fn ask(address: SocketAddr, exchange: &Exchange, backend: &Backend) -> Answered {
    let before = backend.request_count();
    let mut client = Client::connect(address).await.unwrap();
    if let Some(header) = &exchange.proxy_header {
        client.send(format!("{header}\r\n")).await.unwrap();
    }
    let request = exchange
        .headers
        .iter()
        .fold(Request::get(HOST, "/"), |request, (name, value)| request.header(name, value));
    let answer = client.exchange(&request.close()).await;
    let status = answer.map_or(0, |answer| answer.status);
    let requests = backend.requests();
    Answered { status, seen: requests.get(before).map(case::seen) }
}
