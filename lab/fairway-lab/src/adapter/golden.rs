//! Golden tests of the renderers: each proxy's complete configuration for one site that uses everything. `UPDATE_GOLDEN=1
//! cargo test -p fairway-lab adapter::golden` rewrites the files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fairway_lab_measure::results::Settings;
use fairway_testkit::golden;

use crate::adapter::desired::Certificate;
use crate::adapter::*;

fn site() -> DesiredState {
    let forward = |strip: Option<&str>| Action::Forward {
        backend: "web-80".to_owned(),
        strip: strip.map(str::to_owned),
    };
    let redirect = Action::Redirect { target: "https://b.test/".to_owned() };
    let mut full = Host {
        certificate: Some("certificate".to_owned()),
        rules: vec![
            Rule { path: PathMatch::Prefix("/".to_owned()), action: forward(None) },
            Rule { path: PathMatch::Prefix("/new".to_owned()), action: forward(Some("/new")) },
            Rule { path: PathMatch::Exact("/old".to_owned()), action: redirect },
        ],
        response_headers: vec![("X-One".to_owned(), "two words".to_owned())],
        cors: true,
    };
    full.sort();
    let nowhere = Action::Forward { backend: "gone-80".to_owned(), strip: None };
    let plain = Host {
        rules: vec![Rule { path: PathMatch::Prefix("/".to_owned()), action: nowhere }],
        ..Host::default()
    };
    let certificate = Certificate { chain: "CHAIN\n".to_owned(), key: "KEY\n".to_owned() };
    let endpoints = vec!["10.0.0.2:8080".parse().unwrap(), "10.0.0.3:8080".parse().unwrap()];
    DesiredState {
        hosts: BTreeMap::from([("a.test".to_owned(), full), ("plain.test".to_owned(), plain)]),
        backends: BTreeMap::from([("gone-80".to_owned(), Vec::new()), ("web-80".to_owned(), endpoints)]),
        certificates: BTreeMap::from([("certificate".to_owned(), certificate)]),
    }
}

fn frame(settings: Settings) -> Frame {
    Frame {
        listen: Listen { http: "0.0.0.0:8080".parse().unwrap(), https: "0.0.0.0:8443".parse().unwrap() },
        workers: (settings == Settings::Recommended).then_some(2),
        settings,
        folder: PathBuf::from("/run/lab"),
    }
}

fn check(name: &str, rendered: &str) {
    golden::check(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/adapter/golden").join(name), rendered);
}

#[test]
fn nginx_gets_an_upstream_for_each_service_and_a_server_for_each_host() {
    check("nginx-recommended.conf", &nginx::render(&frame(Settings::Recommended), &site(), 7));
    check("nginx-defaults.conf", &nginx::render(&frame(Settings::Defaults), &site(), 7));
}

#[test]
fn haproxy_gets_maps_and_a_backend_with_slots_for_each_service() {
    let mut slots = haproxy::Slots::default();
    slots.fit(&site().backends);
    for (name, settings) in [("recommended", Settings::Recommended), ("defaults", Settings::Defaults)] {
        let text = haproxy::render(&frame(settings), &site(), &slots, 7);
        // 84 slots are no more telling than four.
        let number_in =
            |line: &str| line.split("SRV_").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        let few: String = text
            .lines()
            .filter(|line| number_in(line).is_none_or(|slot: u32| slot <= 3))
            .map(|line| format!("{line}\n"))
            .collect();
        check(&format!("haproxy-{name}.cfg"), &few);
    }
    let maps: String =
        haproxy::maps(&site()).into_iter().map(|(name, map)| format!("# {name}\n{map}")).collect();
    check("haproxy.maps", &maps);
}

#[test]
fn envoy_gets_its_resources_in_the_order_in_which_they_refer_to_each_other() {
    for (name, settings) in [("recommended", Settings::Recommended), ("defaults", Settings::Defaults)] {
        let files = envoy::render(&frame(settings), &site()).into_iter();
        let text: String = files.map(|(name, value)| format!("// {name}\n{value:#}\n")).collect();
        check(&format!("envoy-{name}.json"), &text);
    }
}

#[test]
fn caddy_gets_one_server_with_a_route_for_each_host() {
    let admin = "127.0.0.1:2019".parse().unwrap();
    for (name, settings) in [("recommended", Settings::Recommended), ("defaults", Settings::Defaults)] {
        let value = caddy::render(&frame(settings), &site(), admin);
        check(&format!("caddy-{name}.json"), &format!("{value:#}\n"));
    }
}
