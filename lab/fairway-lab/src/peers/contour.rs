//! Contour as its example manifests install it, built from its Go module, with the Envoy of the wheel. The manifests
//! are read from the module; comments mark each change. Routes are HTTPProxies.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use fairway_lab_measure::results::{NamedText, PeerKind, PeerRecord, Settings};
use serde_json::{Value, json};

use super::artifacts::Artifacts;
use super::names::CERTIFICATE;
use super::objects::{class, class_name, deployment, namespace, service, word};
use super::peer::{Peer, Placement, PreparedPeer};
use super::route::Route;
use super::route_api::{GatewayApi, RouteApi};
use super::{programs, yaml};
use crate::adapter::CORS_HEADERS;

const NAME: &str = "contour";
/// The folder of manifests in the module, and those that are used, in their order.
const MANIFESTS: &str = "examples/contour";
const USED: [&str; 6] = [
    "00-common.yaml",
    "02-job-certgen.yaml",
    "02-rbac.yaml",
    "02-role-contour.yaml",
    "02-service-contour.yaml",
    "03-contour.yaml",
];

/// Contour.
pub(super) struct Contour;

impl Peer for Contour {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "Contour itself, with Envoy as its data plane"
    }

    fn gateway_api(&self) -> Result<GatewayApi, &'static str> {
        // Its single Gateway is configured by name; no release supports ListenerSets.
        let controller = "projectcontour.io/gateway-controller";
        Ok(GatewayApi { controller, ports: [80, 443], listener_sets: false })
    }

    fn prepare(&self, artifacts: &Artifacts) -> anyhow::Result<PreparedPeer> {
        let (_, program) = programs::tool(artifacts, NAME)?;
        let envoy = programs::envoy(&artifacts.cache)?;
        let version = programs::version(&program, "version", "version:")?;
        let envoy_version = programs::version(&envoy, "--version", "version")?;
        let archive = programs::pack(
            artifacts,
            NAME,
            &[(&program, "/bin/contour"), (&envoy, "/usr/local/bin/envoy")],
            None,
        )?;
        let shown = |settings| NamedText {
            name: format!("contour.yaml ({})", word(settings)),
            text: configuration(settings).to_owned(),
        };
        let (number, envoy_number) =
            (fairway_lab_measure::number(&version), fairway_lab_measure::number(&envoy_version));
        Ok(PreparedPeer {
            record: PeerRecord {
                name: NAME.to_owned(),
                title: format!("Contour {number} with Envoy {envoy_number}"),
                kind: PeerKind::Controller,
                stands_for: "itself".to_owned(),
                configurations: vec![shown(Settings::Recommended), shown(Settings::Defaults)],
                versions: BTreeMap::from([
                    (NAME.to_owned(), version.clone()),
                    ("envoy".to_owned(), envoy_version.clone()),
                ]),
            },
            archives: vec![archive],
        })
    }

    fn objects(&self, artifacts: &Artifacts, placement: &Placement) -> anyhow::Result<Vec<Value>> {
        let (module, _) = programs::tool(artifacts, NAME)?;
        let folder = module.join(MANIFESTS);
        let mut all = yaml::read(&folder.join("01-crds.yaml"))?;
        all.push(namespace(placement));
        all.push(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": NAME, "namespace": placement.namespace },
            "data": { "contour.yaml": configured(placement) },
        }));
        for name in USED {
            for mut object in yaml::read(&folder.join(name))? {
                if object["kind"] != "Namespace" {
                    adopt(&mut object, placement)?;
                    all.push(object);
                }
            }
        }
        all.push(class(NAME, "projectcontour.io/ingress-controller"));
        all.push(service(placement, NAME));
        all.push(data_plane(&folder, placement)?);
        Ok(all)
    }

    fn route(&self, placement: &Placement, route: &Route) -> Vec<Value> {
        vec![proxy(placement, route)]
    }
}

/// Contour's configuration file, from its examples. Recommended settings turn off the access log and Envoy's built-in
/// limit of 1,024 connections to a Service, and remove the rate limit of the Kubernetes client: by default Contour
/// writes 20 statuses a second, two for each route, and later routes wait, 5 s for each hundred.
fn configuration(settings: Settings) -> &'static str {
    match settings {
        Settings::Defaults => "disablePermitInsecure: false\naccesslog-format: envoy\n",
        Settings::Recommended => {
            "disablePermitInsecure: false
accesslog-level: disabled
kubernetesClientQPS: 1000
kubernetesClientBurst: 1000
timeouts:
  connect-timeout: 5s
cluster:
  circuit-breakers:
    max-connections: 1000000
    max-pending-requests: 1000000
    max-requests: 1000000
    max-retries: 1000000
"
        }
    }
}

/// The file for this placement, with its Gateway if routes use the Gateway API.
fn configured(placement: &Placement) -> String {
    let text = configuration(placement.settings);
    match placement.api {
        RouteApi::Ingress => text.to_owned(),
        RouteApi::Gateway => {
            let (namespace, name) = (&placement.watched, class_name(NAME));
            format!("{text}gateway:\n  gatewayRef:\n    namespace: {namespace}\n    name: {name}\n")
        }
    }
}

/// Moves an object of the examples into the placement: its namespace, image, class, and names that all of the cluster
/// sees.
fn adopt(object: &mut Value, placement: &Placement) -> anyhow::Result<()> {
    rename(object, "projectcontour", &placement.namespace);
    match object["kind"].as_str() {
        Some("ClusterRole" | "ClusterRoleBinding") => rename_cluster_wide(object),
        Some("Job") => set_image(&mut object["spec"]["template"]["spec"]),
        Some("Deployment") => {
            // A second replica would only protect the control plane from the loss of a node, and there is one node.
            object["spec"]["replicas"] = json!(1);
            let template = &mut object["spec"]["template"];
            // Contour reads its file once: other settings are another pod.
            template["metadata"]["annotations"] =
                json!({ "lab.fairway.dev/settings": word(placement.settings) });
            let pod = &mut template["spec"];
            set_image(pod);
            let arguments = pod["containers"][0]["args"].as_array_mut();
            arguments.context("the example of contour serve has no arguments")?.extend([
                json!(format!("--ingress-class-name={}", class_name(NAME))),
                json!(format!("--leader-election-resource-namespace={}", placement.namespace)),
                json!("--envoy-service-name=proxy"),
                json!(format!("--envoy-service-namespace={}", placement.namespace)),
            ]);
            if placement.api == RouteApi::Ingress {
                let watched = json!(format!("--watch-namespaces={}", placement.watched));
                pod["containers"][0]["args"]
                    .as_array_mut()
                    .into_iter()
                    .for_each(|all| all.push(watched.clone()));
            }
        }
        _ => {}
    }
    Ok(())
}

fn rename_cluster_wide(object: &mut Value) {
    object["metadata"]["name"] = json!(class_name(NAME));
    if let Some(role) = object.get_mut("roleRef") {
        role["name"] = json!(class_name(NAME));
    }
}

/// Replaces a text wherever it is a whole value.
fn rename(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) if text == from => to.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, from, to)),
        Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, from, to)),
        _ => {}
    }
}

fn set_image(pod: &mut Value) {
    for kind in ["containers", "initContainers"] {
        for container in pod[kind].as_array_mut().into_iter().flatten() {
            container["image"] = json!(programs::image(NAME));
        }
    }
    // The module's Go client writes `null` if there are no init containers.
    if pod["initContainers"].is_null()
        && let Some(pod) = pod.as_object_mut()
    {
        pod.remove("initContainers");
    }
}

/// The example's DaemonSet of Envoy as a Deployment, so that it can be scaled; for the same reason without ports of the
/// node.
fn data_plane(folder: &Path, placement: &Placement) -> anyhow::Result<Value> {
    let examples = yaml::read(&folder.join("03-envoy.yaml"))?;
    let example = examples.into_iter().find(|object| object["kind"] == "DaemonSet");
    let mut example = example.context("the examples of Contour have no DaemonSet of Envoy")?;
    rename(&mut example, "projectcontour", &placement.namespace);
    let mut pod = example["spec"]["template"]["spec"].take();
    set_image(&mut pod);
    let containers = pod["containers"].as_array_mut().context("the example of Envoy has no containers")?;
    for container in containers {
        for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            port.as_object_mut().and_then(|port| port.remove("hostPort"));
        }
        if placement.settings == Settings::Recommended && container["name"] == "envoy" {
            // As one argument, like the example's own flags with their values.
            let workers = json!(format!("--concurrency {}", placement.workers));
            let arguments = container.get_mut("args").and_then(Value::as_array_mut);
            arguments.context("the example of Envoy has no arguments")?.push(workers);
        }
    }
    Ok(deployment(placement, NAME, &pod))
}

fn proxy(placement: &Placement, route: &Route) -> Value {
    let filters = &route.filters;
    let mut host = json!({ "fqdn": route.host });
    if route.tls {
        host["tls"] = json!({ "secretName": CERTIFICATE });
    }
    if filters.cors {
        let list = |text: &str| text.split(',').map(str::trim).map(str::to_owned).collect::<Vec<_>>();
        host["corsPolicy"] = json!({
            "allowOrigin": ["*"],
            "allowMethods": list(CORS_HEADERS[1].1),
            "allowHeaders": list(CORS_HEADERS[2].1),
            "maxAge": "480h",
        });
    }
    let mut routes = vec![forward(placement, route, "/")];
    if let Some(prefix) = &filters.rewrite {
        // With its slash: Contour's prefixes are not of whole segments.
        let prefix = format!("{prefix}/");
        let mut rewritten = forward(placement, route, &prefix);
        rewritten["pathRewritePolicy"] =
            json!({ "replacePrefix": [{ "prefix": prefix, "replacement": "/" }] });
        routes.push(rewritten);
    }
    if let Some((path, to)) = &filters.redirect {
        routes.push(json!({
            "conditions": [{ "exact": path }], "permitInsecure": true, "requestRedirectPolicy": redirect(to),
        }));
    }
    json!({
        "apiVersion": "projectcontour.io/v1", "kind": "HTTPProxy",
        "metadata": { "name": route.name, "namespace": route.namespace },
        "spec": { "ingressClassName": class_name(NAME), "virtualhost": host, "routes": routes },
    })
}

fn forward(placement: &Placement, route: &Route, prefix: &str) -> Value {
    let mut forward = json!({
        "conditions": [{ "prefix": prefix }],
        "services": [{ "name": route.service, "port": route.port }],
        "permitInsecure": true,
    });
    if let Some((name, value)) = &route.filters.response_header {
        forward["responseHeadersPolicy"] = json!({ "set": [{ "name": name, "value": value }] });
    }
    if placement.settings == Settings::Recommended {
        // What a request that never reached the backend can be sent again for, as for Envoy under the adapter.
        forward["retryPolicy"] = json!({ "count": 2, "retryOn": ["connect-failure", "refused-stream"] });
    }
    forward
}

/// `requestRedirectPolicy` takes the parts of a location.
fn redirect(to: &str) -> Value {
    let (scheme, rest) = to.split_once("://").unwrap_or(("", to));
    let (authority, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    let mut policy = json!({ "path": path, "statusCode": 302 });
    if !scheme.is_empty() {
        policy["scheme"] = json!(scheme);
    }
    if !host.is_empty() {
        policy["hostname"] = json!(host);
    }
    if let Ok(port) = port.parse::<u16>() {
        policy["port"] = json!(port);
    }
    policy
}
