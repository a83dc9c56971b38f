//! Every supported annotation is really read: removing it changes the meaning of a golden case.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fairway_ingress::{Support, Translation, known_annotations, translate};

use crate::support::{NOW, scene};

#[test]
fn every_annotation_that_works_has_an_effect_in_a_golden_case() {
    let cases = golden_cases();
    let works = |support| matches!(support, Support::Done | Support::Differs { .. });
    let working = known_annotations().iter().filter(|known| works(known.support));
    let unread: Vec<_> = working
        .map(|known| known.name)
        .filter(|name| !cases.values().any(|case| reads(case, name)))
        .collect();
    assert!(unread.is_empty(), "no golden case shows what they do: {unread:?}");
}

fn golden_cases() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    folders
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path.join("in.yaml")).unwrap())
        })
        .collect()
}

/// Whether renaming the annotation to an unknown name changes the meaning of the case.
fn reads(case: &str, name: &str) -> bool {
    let known = format!("nginx.ingress.kubernetes.io/{name}:");
    let without = case.replace(&known, "example.com/unknown:");
    without != case && meaning(&without) != meaning(case)
}

/// The treatment of requests and passed-through connections. A backend's key includes its TLS settings; certificates
/// are left out, because each run creates new ones.
fn meaning(case: &str) -> String {
    let scene = scene(case);
    let Translation { config, .. } = translate(&scene.resources, &scene.options, NOW);
    let hosts: Vec<_> = config.hosts.values().collect();
    let backends: Vec<_> = config.backends.keys().collect();
    let streams: Vec<_> = config.streams.values().collect();
    serde_json::to_string(&(hosts, backends, streams)).unwrap()
}
