//! Measures the control side: 10,000 Ingresses, a file each, are loaded; then single files change, and the time from the
//! rename to the publication of the snapshot is taken. Prints figures, asserts nothing.
//!
//! `cargo run --release -p fairway --example ten_thousand [FILES [CHANGES]]`

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use fairway_control::directory::{DirectoryUpdate, WatchedDirectory};
use fairway_control::{ChangeBatch, Pipeline};
use fairway_objects::options::{LoopbackEndpoints, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let files = arguments.next().transpose()?.unwrap_or(10_000);
    let changes = arguments.next().transpose()?.unwrap_or(1_000);
    let dir = tempfile::tempdir()?;
    let (root, nursery) = (dir.path().join("conf"), dir.path().join("new.yaml"));
    fs::create_dir(&root)?;
    fs::write(root.join("base.yaml"), BASE)?;
    for number in 0..files {
        fs::write(root.join(name(number)), ingress(number, 0))?;
    }
    let options = Options { loopback_endpoints: LoopbackEndpoints::Accepted, ..Options::default() };
    let (published, publications) = channel();
    // The receiver outlives the pipeline's thread only until main returns.
    let publish = Box::new(move |_snapshot| _ = published.send(Instant::now()));
    let started = Instant::now();
    let pipeline = Pipeline::start(options, publish)?;
    let inlet = pipeline.inlet();
    let tell = move |DirectoryUpdate { changes, diagnostics, received_at: heard }| {
        inlet.send(ChangeBatch { changes, diagnostics, received_at: heard, written: None });
    };
    let _directory = WatchedDirectory::start(&root, tell)?;
    let read = started.elapsed();
    let loaded = publications.recv()? - started;
    let mut out = std::io::stdout();
    writeln!(out, "{files} files: read in {read:?}, published after {loaded:?}")?;

    let mut times = Vec::new();
    for change in 1..=changes {
        let number = change * 7919 % files;
        fs::write(&nursery, ingress(number, change))?;
        // Single changes are measured: those right behind each other would be gathered on purpose.
        std::thread::sleep(Duration::from_millis(5));
        let from = Instant::now();
        fs::rename(&nursery, root.join(name(number)))?;
        times.push(publications.recv_timeout(Duration::from_secs(10))? - from);
    }
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    writeln!(out, "{changes} changes: p50 {:?}, p99 {:?}, max {:?}", at(50), at(99), at(100))?;
    bursts(&mut out, &root, files, &publications)
}

/// A hundred files at once: how long until the last is published, and in how many publications.
fn bursts(
    out: &mut impl Write,
    root: &Path,
    files: usize,
    publications: &std::sync::mpsc::Receiver<Instant>,
) -> Result<(), Box<dyn Error>> {
    let from = Instant::now();
    for number in 0..files.min(100) {
        fs::write(root.join(name(number)), ingress(number, usize::MAX))?;
    }
    let (mut count, mut last) = (0, from);
    while let Ok(at) = publications.recv_timeout(Duration::from_millis(500)) {
        (count, last) = (count + 1, at);
    }
    writeln!(out, "100 files written at once: {count} publications, the last after {:?}", last - from)?;
    Ok(())
}

fn name(number: usize) -> String {
    format!("web-{number:05}.yaml")
}

fn ingress(number: usize, version: usize) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  namespace: shop\n  name: web-{number}\n  annotations:\n    \
         nginx.ingress.kubernetes.io/proxy-read-timeout: \"{timeout}\"\n    nginx.ingress.kubernetes.io/enable-cors: \"true\"\n\
         spec:\n  ingressClassName: fairway\n  rules:\n  - host: web-{number}.example.com\n    http:\n      paths:\n      \
         - path: /\n        pathType: Prefix\n        backend:\n          service:\n            name: web\n            port:\n              \
         name: http\n      - path: /v{version}\n        pathType: Exact\n        backend:\n          service:\n            name: web\n            \
         port:\n              number: 80\n",
        timeout = 30 + version % 100,
    )
}

const BASE: &str = "apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: fairway}
spec: {controller: fairway.dev/ingress-controller}
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web}
spec:
  ports: [{name: http, port: 80}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  namespace: shop
  name: web-1
  labels: {kubernetes.io/service-name: web}
addressType: IPv4
ports: [{name: http, port: 3001}]
endpoints: [{addresses: [127.0.0.1]}]
";
