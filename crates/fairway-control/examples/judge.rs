//! Measures the webhook's review: the time to review one Ingress against a configuration of 10,000, each with a Service and two
//! endpoints. Prints figures, asserts nothing.
//!
//! `cargo run --release -p fairway-control --example judge [INGRESSES [JUDGEMENTS]]`

use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairway_control::{Engine, Trial};
use fairway_objects::object::Object;
use fairway_objects::options::Options;
use fairway_objects::resources::Change;
use k8s_openapi::api::networking::v1::Ingress;
use serde_json::{Value, json};

const NOW: i64 = 1_800_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let count = arguments.next().transpose()?.unwrap_or(10_000);
    let judgements = arguments.next().transpose()?.unwrap_or(2_000);
    let mut out = std::io::stdout();
    let mut engine = Engine::new(Options::default());
    let class = json!({ "metadata": { "name": "fairway" }, "spec": { "controller": "fairway.dev/ingress-controller" } });
    let mut changes = vec![Change::Set(Object::IngressClass(Arc::new(serde_json::from_value(class)?)), None)];
    for number in 0..count {
        changes.push(Change::Set(Object::Service(Arc::new(serde_json::from_value(service(number))?)), None));
        changes
            .push(Change::Set(Object::EndpointSlice(Arc::new(serde_json::from_value(slice(number))?)), None));
        changes.push(Change::Set(Object::Ingress(Arc::new(ingress(number, number, 0)?)), None));
    }
    let started = Instant::now();
    engine.update(changes, NOW);
    writeln!(out, "{count} Ingresses translated and compiled in {:?}", started.elapsed())?;

    for (what, host, path) in
        [("a new Ingress", count, 1), ("a change of one that is there", 0, 1), ("a conflict", 0, 0)]
    {
        let mut times = Vec::new();
        for number in 0..judgements {
            let host = if host == 0 { number * 7919 % count } else { host + number };
            let name = if path == 0 { count + number } else { host };
            let object = ingress(name, host, path)?;
            let from = Instant::now();
            let verdict = Trial::new(&engine).evaluate(object, NOW);
            times.push(from.elapsed());
            drop(verdict);
        }
        print(&mut out, what, &mut times)?;
    }
    // The cost of copies for the engine: the first change after a copy was made.
    let mut times = Vec::new();
    for number in 0..judgements {
        let lent = Trial::new(&engine);
        let change = Change::Set(Object::Ingress(Arc::new(ingress(number, number, 2)?)), None);
        let from = Instant::now();
        engine.update(vec![change], NOW);
        times.push(from.elapsed());
        drop(lent);
    }
    print(&mut out, "a change while a copy is lent", &mut times)?;
    Ok(())
}

fn print(out: &mut impl Write, label: &str, times: &mut [Duration]) -> std::io::Result<()> {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
    writeln!(out, "{label}: p50 {:?}, p99 {:?}, max {:?}", at(50), at(99), at(100))
}

fn service(number: usize) -> Value {
    json!({ "metadata": { "name": format!("web-{number}"), "namespace": "shop" }, "spec": { "ports": [{ "port": 80 }] } })
}

fn slice(number: usize) -> Value {
    let service = format!("web-{number}");
    let address =
        |last: usize| json!({ "addresses": [format!("10.{}.{}.{last}", number / 250, number % 250)] });
    json!({
        "metadata": {
            "name": service, "namespace": "shop", "labels": { "kubernetes.io/service-name": service }
        },
        "addressType": "IPv4", "ports": [{ "port": 8080 }], "endpoints": [address(1), address(2)]
    })
}

/// The Ingress `name` at the host of the Ingress `host`.
fn ingress(name: usize, host: usize, path: usize) -> serde_json::Result<Ingress> {
    let backend =
        json!({ "service": { "name": format!("web-{}", host % 10_000), "port": { "number": 80 } } });
    let path = if path == 0 { "/".to_owned() } else { format!("/v{path}") };
    serde_json::from_value(json!({
        "metadata": {
            "name": format!("web-{name}"), "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": { "nginx.ingress.kubernetes.io/enable-cors": "true" }
        },
        "spec": { "ingressClassName": "fairway", "rules": [{
            "host": format!("web-{host}.example.com"),
            "http": { "paths": [{ "path": path, "pathType": "Prefix", "backend": backend }] }
        }] }
    }))
}
