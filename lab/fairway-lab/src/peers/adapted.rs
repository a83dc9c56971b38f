//! nginx, HAProxy, Envoy and Caddy under the laboratory's adapter, which stands in for their controllers.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Context;
use fairway_lab_measure::results::{NamedText, PeerKind, PeerRecord, Settings};
use fairway_lab_measure::{Executable, Release, number};
use serde_json::{Map, Value, json};

use super::artifacts::Artifacts;
use super::names::{PROXY, label};
use super::objects::{self, IngressShape, class_name, deployment, ingress, namespace, service, word};
use super::peer::{Peer, Placement, PreparedPeer};
use super::programs;
use super::route::Route;
use crate::adapter::{
    Action, CORS, DesiredState, Frame, Host, Listen, PROBE_PORT, PathMatch, REDIRECT, RESPONSE_HEADER,
    REWRITE, Rule, caddy, envoy, haproxy, nginx,
};

/// The folder of configurations and sockets in the pod.
const FOLDER: &str = "/run/lab";

/// A proxy under the adapter, in one of its releases.
pub(super) struct AdaptedPeer {
    /// The name of its proxy, with `@` and the release unless it is the current one.
    name: String,
    release: Release,
    shape: &'static Shape,
}

/// Properties that all releases of a proxy share.
pub(super) struct Shape {
    /// The program too, and the word of `fairway-lab adapter`.
    name: &'static str,
    summary: &'static str,
    stands_for: &'static str,
    /// After the version in its title.
    way: &'static str,
    /// Describes for the report how the adapter applies changes, and which controller does the same.
    behaviour: &'static str,
    /// The grace period of its controllers' pods, seconds.
    grace_s: u32,
    render: fn(&Frame, &DesiredState) -> Vec<NamedText>,
}

/// The peers that run by default.
pub(super) const DEFAULT: [&Shape; 4] = [&NGINX, &HAPROXY, &ENVOY, &CADDY];
/// Proxies with more than one release.
pub(super) const RELEASED: [&str; 3] = ["nginx", "haproxy", "caddy"];

const NGINX: Shape = Shape {
    name: "nginx",
    summary: "nginx under the laboratory's adapter: a reload for every change, endpoints included",
    stands_for: "NGINX Ingress Controller with nginx OSS",
    way: "reload",
    behaviour: "Every change, endpoints included, is a new nginx.conf and a reload (SIGHUP), one at a time, known to be \
        done when the master says that it has started a worker; changes that come during a reload are one. nginx's own: \
        its master sleeps 100 ms before it ends the workers of the configuration before, and they answer until then. NGINX Ingress Controller reloads \
        for each entry of its queue, so this is kinder. Only ready endpoints are used. An end (SIGTERM) is nginx -s \
        quit at once: its chart has no preStop hook; grace period 30 s. Recommended: upstream keep-alive, access log \
        off, 5 s to connect (as all peers), as many workers as asked for, long client keep-alive. Defaults: no upstream keep-alive, access log on, \
        a worker for each CPU, 1,024 connections each.",
    // The chart of NGINX Ingress Controller.
    grace_s: 30,
    render: |frame, desired| vec![text("nginx.conf", frame, nginx::render(frame, desired, 1))],
};

const HAPROXY: Shape = Shape {
    name: "haproxy",
    summary: "HAProxy under the laboratory's adapter: the runtime API for endpoints, a reload for routes",
    stands_for: "HAProxy's ingress controllers",
    way: "runtime API, reload",
    behaviour: "Endpoints go through the runtime API into 42 server slots for each Service; hosts, paths, filters, \
        certificates and the 43rd endpoint are a new configuration and a reload that keeps the listening sockets. \
        Both happen at once: HAProxy's ingress controller waits up to 5 s (its sync period) before routes, so this is \
        kinder. Only ready endpoints are used. An end (SIGTERM) is a soft stop at once: its chart has no preStop \
        hook; grace period 60 s. Recommended: http-reuse always, redispatch, long time-outs, access log off, as many \
        threads as asked for. Defaults: http-reuse safe, the controller's time-outs, access log on, a thread for \
        each CPU.",
    // The chart of HAProxy's ingress controller.
    grace_s: 60,
    render: |frame, desired| {
        let mut slots = haproxy::Slots::default();
        slots.fit(&desired.backends);
        vec![text("haproxy.cfg", frame, haproxy::render(frame, desired, &slots, 1))]
    },
};

const ENVOY: Shape = Shape {
    name: "envoy",
    summary: "Envoy under the laboratory's adapter: dynamic discovery from files",
    stands_for: "Envoy Gateway, Ambassador",
    way: "dynamic discovery",
    behaviour: "Listeners, routes, clusters, endpoints and secrets are files that Envoy watches, written as changes \
        come, without a hold-off (Envoy Gateway has none by default), a new cluster before the routes to it; nothing restarts. Only ready endpoints are used. An end (SIGTERM) is Envoy \
        Gateway's: health checks fail, answers close connections, it accepts for 10 s more and ends when no \
        connection is left or after 60 s. Recommended: no limits of connections and requests to a Service, two \
        retries of what never reached a backend, no time-out of a whole answer, access log off, as many workers as \
        asked for. Defaults: Envoy's limits of 1,024, no retries, 15 s, access log on, a worker for each CPU.",
    // Envoy Gateway.
    grace_s: 360,
    render: |frame, desired| {
        let files = envoy::render(frame, desired).into_iter();
        files.map(|(name, value)| text(&name, frame, format!("{value:#}"))).collect()
    },
};

const CADDY: Shape = Shape {
    name: "caddy",
    summary: "Caddy under the laboratory's adapter: the whole configuration through its admin API",
    stands_for: "Caddy's ingress controller; a proxy in Go",
    way: "admin API",
    behaviour: "Every change, endpoints included, is the whole configuration as JSON (POST /load), which Caddy takes over \
        within its process: new servers start, the old ones finish what they have and close idle connections of \
        clients. One at a time; changes that come meanwhile are one. Caddy's ingress controller loads one for each \
        entry of its queue, so this is kinder. Only ready endpoints are used. An end (SIGTERM) is a graceful stop at \
        once: its chart has no preStop hook; grace period 30 s. Recommended: upstream keep-alive without the limit of \
        32 idle connections, least connections, tries for 5 s elsewhere (what never reached a backend, and GET; Caddy \
        2.6 gives up what waits for another try when a configuration is loaded), HTTP/1.1 and 2, no gzip of its own towards backends, GOMAXPROCS as many as workers were asked for. Defaults: \
        a random endpoint, one try, 32 idle connections for each endpoint, HTTP/3 offered, a thread for each CPU. The \
        access log is off in both, as Caddy comes.",
    // The chart of Caddy's ingress controller sets none; this is the default of Kubernetes.
    grace_s: 30,
    render: |frame, desired| {
        let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, 2019));
        vec![text("caddy.json", frame, format!("{:#}", caddy::render(frame, desired, admin)))]
    },
};

fn text(name: &str, frame: &Frame, text: String) -> NamedText {
    NamedText { name: format!("{name} ({})", word(frame.settings)), text }
}

impl AdaptedPeer {
    /// The current release of a proxy.
    pub(super) fn current(shape: &'static Shape) -> Self {
        Self { name: shape.name.to_owned(), release: Release::Current, shape }
    }

    /// A release by its name, e.g. `nginx@1.22`.
    ///
    /// # Errors
    /// Nothing after the `@`, or a proxy that has no releases.
    pub(super) fn named(name: &str) -> anyhow::Result<Self> {
        let (proxy, release) = Release::split_name(name)?;
        let shape = DEFAULT.into_iter().find(|shape| shape.name == proxy && RELEASED.contains(&proxy));
        let shape = shape.with_context(|| {
            format!("there is no peer {name:?}: other releases are known of {}", RELEASED.join(", "))
        })?;
        Ok(Self { name: name.to_owned(), release, shape })
    }
}

impl Peer for AdaptedPeer {
    fn name(&self) -> &str {
        &self.name
    }

    fn summary(&self) -> &str {
        self.shape.summary
    }

    fn prepare(&self, artifacts: &Artifacts) -> anyhow::Result<PreparedPeer> {
        let shape = self.shape;
        let found = find(artifacts, shape.name, &self.release)?;
        let version = found.version()?;
        let program = format!("/usr/sbin/{}", shape.name);
        let contents =
            [(artifacts.laboratory.as_path(), "/usr/bin/fairway-lab"), (found.path(), program.as_str())];
        let archive = programs::pack(artifacts, &self.name, &contents, found.root())?;
        let shown = |settings| (shape.render)(&sample_frame(settings), &sample());
        let conduct =
            NamedText { name: "what the adapter does".to_owned(), text: shape.behaviour.to_owned() };
        let rendered = [Settings::Recommended, Settings::Defaults].into_iter().flat_map(shown);
        Ok(PreparedPeer {
            record: PeerRecord {
                name: self.name.clone(),
                title: format!("{} {} under the adapter ({})", shape.name, number(&version), shape.way),
                kind: PeerKind::Adapter,
                stands_for: shape.stands_for.to_owned(),
                versions: BTreeMap::from([(shape.name.to_owned(), version)]),
                configurations: std::iter::once(conduct).chain(rendered).collect(),
            },
            archives: vec![archive],
        })
    }

    fn objects(&self, _: &Artifacts, placement: &Placement) -> anyhow::Result<Vec<Value>> {
        let read = json!(["get", "list", "watch"]);
        let rules = json!([
            { "apiGroups": [""], "resources": ["services", "secrets"], "verbs": read },
            { "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": read },
            { "apiGroups": ["networking.k8s.io"], "resources": ["ingresses"], "verbs": read },
        ]);
        let mut all = vec![namespace(placement), objects::account(placement, PROXY)];
        all.extend(objects::role(placement, &self.name, PROXY, &rules));
        all.push(objects::class(&self.name, &format!("lab.fairway.dev/{}", label(&self.name))));
        all.push(service(placement, &self.name));
        all.push(deployment(placement, &self.name, &self.pod(placement)));
        Ok(all)
    }

    fn route(&self, _: &Placement, route: &Route) -> Vec<Value> {
        let annotations = Value::Object(annotations(route));
        let class = class_name(&self.name);
        vec![ingress(route, &IngressShape { suffix: "", class, annotations, path: "/", path_type: "Prefix" })]
    }
}

impl AdaptedPeer {
    fn pod(&self, placement: &Placement) -> Value {
        let mut arguments = vec!["adapter", self.shape.name, "--settings", word(placement.settings)];
        let (class, workers) = (class_name(&self.name), placement.workers.to_string());
        arguments.extend(["--class", &class, "--namespace", &placement.watched, "--folder", FOLDER]);
        if placement.settings == Settings::Recommended {
            arguments.extend(["--workers", &workers]);
        }
        json!({
            "serviceAccountName": PROXY,
            "terminationGracePeriodSeconds": self.shape.grace_s,
            "enableServiceLinks": false,
            "securityContext": { "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532 },
            "containers": [{
                "name": PROXY, "image": programs::image(&self.name), "imagePullPolicy": "IfNotPresent",
                "args": arguments,
                "ports": [
                    { "name": "http", "containerPort": 8080 }, { "name": "https", "containerPort": 8443 },
                    { "name": "probe", "containerPort": PROBE_PORT },
                ],
                "readinessProbe": {
                    "httpGet": { "path": "/", "port": "probe" }, "periodSeconds": 1, "timeoutSeconds": 2,
                },
                "resources": { "requests": { "cpu": "100m", "memory": "128Mi" } },
                "volumeMounts": [{ "name": "run", "mountPath": FOLDER }],
            }],
            "volumes": [{ "name": "run", "emptyDir": { "medium": "Memory" } }],
        })
    }
}

/// The program of a proxy.
pub(super) fn find(artifacts: &Artifacts, program: &str, release: &Release) -> anyhow::Result<Executable> {
    match program {
        "envoy" => programs::envoy(&artifacts.cache).map(Executable::of_system),
        package => release.find(&artifacts.cache, package, || programs::debian(&artifacts.cache, package)),
    }
}

fn annotations(route: &Route) -> Map<String, Value> {
    let filters = &route.filters;
    let mut annotations = Map::new();
    if filters.cors {
        annotations.insert(CORS.to_owned(), json!("true"));
    }
    if let Some((name, value)) = &filters.response_header {
        annotations.insert(RESPONSE_HEADER.to_owned(), json!(format!("{name}: {value}")));
    }
    if let Some(prefix) = &filters.rewrite {
        annotations.insert(REWRITE.to_owned(), json!(prefix));
    }
    if let Some((path, to)) = &filters.redirect {
        annotations.insert(REDIRECT.to_owned(), json!(format!("{path} {to}")));
    }
    annotations
}

/// A configuration to show in a report before there is one: one host, two pods.
fn sample() -> DesiredState {
    let forward = Action::Forward { backend: "backend-80".to_owned(), strip: None };
    let host = Host {
        certificate: None,
        rules: vec![Rule { path: PathMatch::Prefix("/".to_owned()), action: forward }],
        ..Host::default()
    };
    let pods = [2, 3].map(|last| SocketAddr::from((Ipv4Addr::new(10, 244, 0, last), 8080)));
    DesiredState {
        hosts: BTreeMap::from([("app.example.com".to_owned(), host)]),
        backends: BTreeMap::from([("backend-80".to_owned(), pods.to_vec())]),
        ..DesiredState::default()
    }
}

fn sample_frame(settings: Settings) -> Frame {
    let any = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    Frame {
        listen: Listen { http: any(8080), https: any(8443) },
        workers: (settings == Settings::Recommended).then_some(1),
        settings,
        folder: PathBuf::from(FOLDER),
    }
}
