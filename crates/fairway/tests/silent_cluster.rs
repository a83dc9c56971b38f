//! A cluster whose API server does not respond: what the process reports, and what it still serves.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use fairway_control::Engine;
use fairway_control::state::{self, StateWriter};
use fairway_objects::options::Options;
use fairway_testkit::certificates::Authority;
use fairway_testkit::client::{Client, Request};
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class};
use fairway_testkit::process::Fairway;
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually, free_address};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// A kubeconfig of a cluster without an API server.
fn kubeconfig() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: \"http://{}\"}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
        free_address()
    );
    fs::write(directory.path().join("config"), text).unwrap();
    directory
}

fn start(kubeconfig: &TempDir, flags: &[&str]) -> Fairway {
    let file = kubeconfig.path().join("config").display().to_string();
    Fairway::start_with(Path::new(BINARY), &[&["--kubernetes", "--kubeconfig", &file], flags].concat())
}

/// Writes the state that an earlier process would have kept for these manifests.
fn keep(manifests: &Path, state: &Path) {
    let contents = fairway_control::directory::read(manifests).unwrap();
    let mut engine = Engine::new(Options::default());
    engine.update(contents.changes, 0);
    let outcome = engine.current().unwrap().clone();
    StateWriter::start(state).unwrap().store(outcome.translation.config);
    while state::load(state).unwrap().is_none() {
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_replica_without_the_api_is_not_ready_says_why_and_has_metrics() {
    let config = kubeconfig();
    let (chain, key) = Authority::new("test").leaf(&["webhook.test"]).write_to(config.path()).unwrap();
    let (webhook, chain, key) =
        (free_address().to_string(), chain.display().to_string(), key.display().to_string());
    let addresses = ["--publish-status-address", "192.0.2.1", "--pod-name", "p", "--pod-namespace", "n"];
    let webhook = ["--webhook", &webhook, "--webhook-certificate", &chain, "--webhook-key", &key];
    let fairway = start(&config, &[&addresses[..], &webhook[..]].concat());
    eventually("Fairway logs the reason", WAIT_TIMEOUT, || async {
        let response = fairway.admin("/readyz").await;
        response.is_ok_and(|response| response.status == 503 && response.text().contains("API server"))
    })
    .await;
    eventually("the metrics match the documented ones", WAIT_TIMEOUT, || async {
        let printed = fairway.metrics().await.0;
        let types = printed.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let printed: BTreeSet<_> = types.filter_map(|line| line.split_once(' ')).collect();
        let text =
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md")).unwrap();
        let rows = text.lines().filter(|row| row.starts_with("| `"));
        let rows =
            rows.filter(|row| row.contains("| With `--kubernetes`") || row.contains("| With `--webhook`"));
        let described: BTreeSet<_> =
            rows.filter_map(|row| Some((row.split('`').nth(1)?, row.split('|').nth(2)?.trim()))).collect();
        described.len() > 10 && described.is_subset(&printed)
    })
    .await;
}

#[tokio::test]
async fn the_last_good_configuration_is_served_and_marked() {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    let ingress = Ingress::new("a", "web").class(Some("fairway"));
    let ingress = ingress.annotation("temporal-redirect", "https://elsewhere.test/");
    manifests.put("web.yaml", ingress.route("a.test", "/", ("gone", 80)).yaml());
    let state = tempfile::tempdir().unwrap();
    keep(manifests.path(), state.path());

    let config = kubeconfig();
    let fairway = start(&config, &["--state-dir", &state.path().display().to_string()]);
    eventually("Fairway is ready and reports stale", WAIT_TIMEOUT, || async {
        let response = fairway.admin("/readyz").await;
        response.is_ok_and(|response| response.status == 200 && response.text().contains("stale"))
    })
    .await;
    fairway.until_metric("fairway_config_stale", &[], |value| value == 1.0).await;
    let mut client = Client::connect(fairway.http).await.unwrap();
    let response = client.exchange(&Request::get("a.test", "/").close()).await.unwrap();
    assert_eq!((response.status, response.header("Location")), (302, Some("https://elsewhere.test/")));
}
