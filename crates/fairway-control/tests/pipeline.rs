//! The pipeline over time: what it keeps while changes come and come.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use fairway_control::directory::{Directory, News};
use fairway_control::{Batch, Freshness, Pipeline, Publication};
use fairway_objects::options::Options;

const CLASS: &str = "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: fairway}\n\
                     spec: {controller: fairway.dev/ingress-controller}\n";

/// Redirects to another place with each `version`.
fn put(root: &Path, version: usize) {
    let born = root.with_file_name("born.yaml");
    let text = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: web\n  namespace: shop\n  annotations:\n    \
         nginx.ingress.kubernetes.io/temporal-redirect: https://n{version}.test/\nspec:\n  ingressClassName: fairway\n  \
         rules:\n  - host: a.test\n    http:\n      paths:\n      - path: /\n        pathType: Prefix\n        \
         backend: {{service: {{name: web, port: {{number: 80}}}}}}\n"
    );
    fs::write(&born, text).unwrap();
    fs::rename(&born, root.join("web.yaml")).unwrap();
}

/// What is in the directory, and what becomes of it, told to the pipeline.
fn watch(root: &Path, pipeline: &Pipeline) -> Directory {
    let inlet = pipeline.inlet();
    let tell = move |News { changes, diagnostics, heard }| {
        inlet.send(Batch { changes, diagnostics, heard, written: None });
    };
    Directory::start(root, tell).unwrap()
}

#[test]
fn changes_that_never_rest_keep_nothing_of_what_they_replace() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("conf");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("class.yaml"), CLASS).unwrap();
    put(&root, 0);
    let pipeline = Pipeline::start(Options::default(), Box::new(drop)).unwrap();
    let _directory = watch(&root, &pipeline);
    let mut kept = pipeline.wait_for_first(Duration::from_secs(30)).unwrap().kept;
    let started = Instant::now();
    for version in 1.. {
        let before = pipeline.view().unwrap().outcome.snapshot.version();
        put(&root, version);
        while pipeline.view().unwrap().outcome.snapshot.version() == before {
            assert!(
                started.elapsed() < Duration::from_secs(30),
                "{kept} snapshots are kept after {version} changes"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        let now = pipeline.view().unwrap().kept;
        if now < kept {
            return;
        }
        kept = now;
    }
}

/// A pipeline whose publications can be looked at, of a process that listens on this port.
fn observed(port: u16) -> (Pipeline, std::sync::mpsc::Receiver<Publication>) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let publish = Box::new(move |publication| drop(sender.send(publication)));
    let mut options = Options::default();
    options.listeners.http.bind = vec![([127, 0, 0, 1], port).into()];
    (Pipeline::start(options, publish).unwrap(), receiver)
}

/// The port of the listener `http`.
fn port(publication: &Publication) -> u16 {
    publication.outcome.snapshot.listener("http").unwrap().bind[0].port()
}

#[test]
fn what_an_earlier_process_served_is_served_until_the_source_tells() {
    const PATIENCE: Duration = Duration::from_secs(30);
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("conf");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("class.yaml"), CLASS).unwrap();
    put(&root, 0);
    let (first, publications) = observed(8001);
    let _directory = watch(&root, &first);
    let served = publications.recv_timeout(PATIENCE).unwrap().outcome;

    let (second, publications) = observed(8002);
    second.inlet().restore(served.translation.config.clone());
    let stale = publications.recv_timeout(PATIENCE).unwrap();
    assert_eq!((stale.freshness, stale.outcome.digest), (Freshness::Stale, served.digest));
    assert_eq!(port(&stale), 8002, "it listens where this process was told to");
    assert_eq!(second.wait_for_first(PATIENCE).unwrap().freshness, Freshness::Stale);

    put(&root, 1);
    let _directory = watch(&root, &second);
    let fresh = publications.recv_timeout(PATIENCE).unwrap();
    assert_eq!((fresh.freshness, port(&fresh)), (Freshness::Current, 8002));
    assert_ne!(fresh.outcome.digest, served.digest);
    assert!(fresh.outcome.snapshot.version() > stale.outcome.snapshot.version());
    second.inlet().restore(served.translation.config);
    put(&root, 2);
    assert_eq!(publications.recv_timeout(PATIENCE).unwrap().freshness, Freshness::Current);
}
