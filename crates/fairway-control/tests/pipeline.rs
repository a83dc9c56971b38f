//! The pipeline over time: continuous changes do not pile up snapshots, and a restored configuration is served until
//! the source reports.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use fairway_control::directory::{DirectoryUpdate, WatchedDirectory};
use fairway_control::{ChangeBatch, Freshness, Pipeline, Publication};
use fairway_objects::options::Options;

const CLASS: &str = "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: fairway}\n\
                     spec: {controller: fairway.dev/ingress-controller}\n";

/// Writes an Ingress that redirects to a host named after `version`. The rename makes the change atomic, so that the
/// watch never reads half a manifest.
fn write_ingress(root: &Path, version: usize) {
    let unfinished = root.with_file_name("unfinished.yaml");
    let manifest = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: web\n  namespace: shop\n  annotations:\n    \
         nginx.ingress.kubernetes.io/temporal-redirect: https://n{version}.test/\nspec:\n  ingressClassName: fairway\n  \
         rules:\n  - host: a.test\n    http:\n      paths:\n      - path: /\n        pathType: Prefix\n        \
         backend: {{service: {{name: web, port: {{number: 80}}}}}}\n"
    );
    fs::write(&unfinished, manifest).unwrap();
    fs::rename(&unfinished, root.join("web.yaml")).unwrap();
}

/// Sends the directory's content and changes to the pipeline.
fn watch(root: &Path, pipeline: &Pipeline) -> WatchedDirectory {
    let inlet = pipeline.inlet();
    let forward = move |DirectoryUpdate { changes, diagnostics, received_at }| {
        inlet.send(ChangeBatch { changes, diagnostics, received_at, written: None });
    };
    WatchedDirectory::start(root, forward).unwrap()
}

#[test]
fn replaced_snapshots_are_freed_during_continuous_changes() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("conf");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("class.yaml"), CLASS).unwrap();
    write_ingress(&root, 0);
    let pipeline = Pipeline::start(Options::default(), Box::new(drop)).unwrap();
    let _directory = watch(&root, &pipeline);
    let mut retained = pipeline.wait_for_first(Duration::from_secs(30)).unwrap().retained;
    let started = Instant::now();
    for version in 1.. {
        let previous_version = pipeline.view().unwrap().outcome.snapshot.version();
        write_ingress(&root, version);
        while pipeline.view().unwrap().outcome.snapshot.version() == previous_version {
            assert!(
                started.elapsed() < Duration::from_secs(30),
                "expected the pipeline to free snapshots: {retained} are retained after {version} changes"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        let now_retained = pipeline.view().unwrap().retained;
        if now_retained < retained {
            return;
        }
        retained = now_retained;
    }
}

/// Starts a pipeline whose HTTP listener binds to a port, and returns it with its publications.
fn start_on_port(port: u16) -> (Pipeline, std::sync::mpsc::Receiver<Publication>) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let publish = Box::new(move |publication| drop(sender.send(publication)));
    let mut options = Options::default();
    options.listeners.http.bind = vec![([127, 0, 0, 1], port).into()];
    (Pipeline::start(options, publish).unwrap(), receiver)
}

/// The port that the listener `http` of a publication binds to.
fn http_port(publication: &Publication) -> u16 {
    publication.outcome.snapshot.listener("http").unwrap().bind[0].port()
}

#[test]
fn a_restored_configuration_is_served_until_the_source_reports() {
    const TEST_TIMEOUT: Duration = Duration::from_secs(30);
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("conf");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("class.yaml"), CLASS).unwrap();
    write_ingress(&root, 0);
    let (first, publications) = start_on_port(8001);
    let _directory = watch(&root, &first);
    let served = publications.recv_timeout(TEST_TIMEOUT).unwrap().outcome;

    let (second, publications) = start_on_port(8002);
    second.inlet().restore(served.translation.config.clone());
    let stale = publications.recv_timeout(TEST_TIMEOUT).unwrap();
    assert_eq!((stale.freshness, stale.outcome.digest), (Freshness::Stale, served.digest));
    assert_eq!(
        http_port(&stale),
        8002,
        "expected the listener address of this process, not of the one that wrote the configuration"
    );
    assert_eq!(second.wait_for_first(TEST_TIMEOUT).unwrap().freshness, Freshness::Stale);

    write_ingress(&root, 1);
    let _directory = watch(&root, &second);
    let fresh = publications.recv_timeout(TEST_TIMEOUT).unwrap();
    assert_eq!((fresh.freshness, http_port(&fresh)), (Freshness::Current, 8002));
    assert_ne!(fresh.outcome.digest, served.digest);
    assert!(fresh.outcome.snapshot.version() > stale.outcome.snapshot.version());
    second.inlet().restore(served.translation.config);
    write_ingress(&root, 2);
    assert_eq!(publications.recv_timeout(TEST_TIMEOUT).unwrap().freshness, Freshness::Current);
}
