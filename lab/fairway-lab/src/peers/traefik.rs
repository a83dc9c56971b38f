//! Traefik as its chart installs it, built from its Go module. Routes are Ingresses with Middlewares.

use std::collections::BTreeMap;

use fairway_lab_measure::results::{NamedText, PeerKind, PeerRecord, Settings};
use serde_json::{Value, json};

use super::artifacts::Artifacts;
use super::names::PROXY;
use super::objects::{
    self, IngressShape, class_name, cluster_role, deployment, ingress, namespace, service, word,
};
use super::peer::{Peer, Placement, PreparedPeer};
use super::route::Route;
use super::route_api::{GatewayApi, RouteApi};
use super::{programs, yaml};
use crate::adapter::CORS_HEADERS;

const NAME: &str = "traefik";
const CRDS: &str = "docs/content/reference/dynamic-configuration/kubernetes-crd-definition-v1.yml";

/// Traefik.
pub(super) struct Traefik;

impl Peer for Traefik {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "Traefik itself, a Go proxy that is changed in place"
    }

    fn gateway_api(&self) -> Result<GatewayApi, &'static str> {
        // A listener's port must be that of an entry point.
        let controller = "traefik.io/gateway-controller";
        Ok(GatewayApi { controller, ports: [8080, 8443], listener_sets: false })
    }

    fn prepare(&self, artifacts: &Artifacts) -> anyhow::Result<PreparedPeer> {
        let (_, program) = programs::tool(artifacts, NAME)?;
        let version = programs::version(&program, "version", "version:")?;
        let archive = programs::pack(artifacts, NAME, &[(&program, "/usr/bin/traefik")], None)?;
        let shown = |settings| {
            let placement = Placement {
                namespace: class_name(NAME),
                replicas: 1,
                workers: 1,
                settings,
                watched: "lab".to_owned(),
                api: RouteApi::Ingress,
            };
            let text = format!("traefik {}", arguments(&placement).join(" \\\n  "));
            NamedText { name: format!("command line ({})", word(settings)), text }
        };
        Ok(PreparedPeer {
            record: PeerRecord {
                name: NAME.to_owned(),
                title: format!("Traefik {}", fairway_lab_measure::number(&version)),
                kind: PeerKind::Controller,
                stands_for: "itself".to_owned(),
                versions: BTreeMap::from([(NAME.to_owned(), version)]),
                configurations: vec![shown(Settings::Recommended), shown(Settings::Defaults)],
            },
            archives: vec![archive],
        })
    }

    fn objects(&self, artifacts: &Artifacts, placement: &Placement) -> anyhow::Result<Vec<Value>> {
        let (module, _) = programs::tool(artifacts, NAME)?;
        let mut all = yaml::read(&module.join(CRDS))?;
        all.push(namespace(placement));
        all.push(objects::account(placement, PROXY));
        all.extend(cluster_role(placement, NAME, PROXY, &rules()));
        all.push(objects::class(NAME, "traefik.io/ingress-controller"));
        all.push(service(placement, NAME));
        all.push(deployment(placement, NAME, &pod(placement)));
        Ok(all)
    }

    fn route(&self, _: &Placement, route: &Route) -> Vec<Value> {
        let mut objects = middlewares(route);
        let names: Vec<_> = objects
            .iter()
            .filter_map(|object| object["metadata"]["name"].as_str())
            .map(|name| format!("{}-{name}@kubernetescrd", route.namespace))
            .collect();
        let annotations = if names.is_empty() {
            json!({})
        } else {
            json!({ "traefik.ingress.kubernetes.io/router.middlewares": names.join(",") })
        };
        let class = class_name(NAME);
        let shape = IngressShape { suffix: "", class, annotations, path: "/", path_type: "Prefix" };
        objects.push(ingress(route, &shape));
        objects
    }
}

/// Command-line arguments of the settings. Telemetry and version checks are off.
pub(super) fn settings(settings: Settings) -> Vec<&'static str> {
    let mut all =
        vec!["--global.checkNewVersion=false", "--global.sendAnonymousUsage=false", "--log.level=INFO"];
    if settings == Settings::Recommended {
        // Traefik's default of 200 idle connections per server is below the concurrency of the scenarios.
        all.push("--serversTransport.maxIdleConnsPerHost=4096");
        // The timeout of all peers; Traefik's default is 30 s.
        all.push("--serversTransport.forwardingTimeouts.dialTimeout=5s");
    }
    all
}

/// The chart's entry points and providers, for one class and one namespace.
fn arguments(placement: &Placement) -> Vec<String> {
    let mut arguments: Vec<_> = [
        "--entryPoints.web.address=:8080",
        "--entryPoints.websecure.address=:8443",
        "--entryPoints.websecure.http.tls=true",
        "--entryPoints.traefik.address=:9000",
        "--ping=true",
    ]
    .map(str::to_owned)
    .to_vec();
    arguments.extend(match placement.api {
        RouteApi::Ingress => by_ingresses(placement),
        RouteApi::Gateway => by_gateways(placement),
    });
    arguments.extend(settings(placement.settings).into_iter().map(str::to_owned));
    arguments
}

fn by_gateways(placement: &Placement) -> Vec<String> {
    let address = "--providers.kubernetesGateway.statusAddress.service";
    vec![
        "--providers.kubernetesGateway=true".to_owned(),
        format!("{address}.namespace={}", placement.namespace),
        format!("{address}.name={PROXY}"),
    ]
}

fn by_ingresses(placement: &Placement) -> Vec<String> {
    let mut arguments: Vec<_> =
        ["--providers.kubernetesIngress=true", "--providers.kubernetesCRD=true"].map(str::to_owned).to_vec();
    for provider in ["kubernetesIngress", "kubernetesCRD"] {
        arguments.push(format!("--providers.{provider}.namespaces={}", placement.watched));
    }
    arguments.push(format!("--providers.kubernetesIngress.ingressClass={}", class_name(NAME)));
    arguments.push(format!(
        "--providers.kubernetesIngress.ingressEndpoint.publishedService={}/{PROXY}",
        placement.namespace
    ));
    arguments
}

fn rules() -> Value {
    let read = json!(["get", "list", "watch"]);
    json!([
        { "apiGroups": [""], "resources": ["services", "secrets", "nodes", "configmaps", "namespaces"], "verbs": read },
        { "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": read },
        { "apiGroups": ["networking.k8s.io"], "resources": ["ingresses", "ingressclasses"], "verbs": read },
        { "apiGroups": ["networking.k8s.io"], "resources": ["ingresses/status"], "verbs": ["update"] },
        { "apiGroups": ["traefik.io"], "resources": ["*"], "verbs": read },
        { "apiGroups": ["gateway.networking.k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch", "update"] },
    ])
}

fn pod(placement: &Placement) -> Value {
    let mut environment = Vec::new();
    if placement.settings == Settings::Recommended {
        environment.push(json!({ "name": "GOMAXPROCS", "value": placement.workers.to_string() }));
    }
    json!({
        "serviceAccountName": PROXY,
        // The chart's.
        "terminationGracePeriodSeconds": 60,
        "enableServiceLinks": false,
        "securityContext": { "runAsUser": 65532, "runAsGroup": 65532 },
        "containers": [{
            "name": PROXY, "image": programs::image(NAME), "imagePullPolicy": "IfNotPresent",
            "args": arguments(placement), "env": environment,
            "ports": [
                { "name": "http", "containerPort": 8080 }, { "name": "https", "containerPort": 8443 },
                { "name": "traefik", "containerPort": 9000 },
            ],
            "readinessProbe": {
                "httpGet": { "path": "/ping", "port": "traefik" }, "periodSeconds": 1, "timeoutSeconds": 2,
            },
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" } },
        }],
    })
}

fn middlewares(route: &Route) -> Vec<Value> {
    let middleware = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "traefik.io/v1alpha1", "kind": "Middleware",
            "metadata": { "name": format!("{}-{kind}", route.name), "namespace": route.namespace }, "spec": spec,
        })
    };
    let filters = &route.filters;
    let mut all = Vec::new();
    if let Some((path, to)) = &filters.redirect {
        let regex = format!("^https?://[^/]+{path}$");
        all.push(middleware("redirect", json!({ "redirectRegex": { "regex": regex, "replacement": to } })));
    }
    if filters.cors {
        let list = |text: &str| text.split(',').map(str::trim).map(str::to_owned).collect::<Vec<_>>();
        all.push(middleware(
            "cors",
            json!({ "headers": {
                "accessControlAllowOriginList": ["*"],
                "accessControlAllowMethods": list(CORS_HEADERS[1].1),
                "accessControlAllowHeaders": list(CORS_HEADERS[2].1),
                "accessControlMaxAge": 1_728_000,
            } }),
        ));
    }
    if let Some((name, value)) = &filters.response_header {
        all.push(middleware("header", json!({ "headers": { "customResponseHeaders": { name: value } } })));
    }
    if let Some(prefix) = &filters.rewrite {
        // The regular expression keeps it to whole segments, which stripPrefix does not.
        let regex = format!("^{prefix}(?:/|$)(.*)");
        all.push(middleware(
            "rewrite",
            json!({ "replacePathRegex": { "regex": regex, "replacement": "/$1" } }),
        ));
    }
    all
}
