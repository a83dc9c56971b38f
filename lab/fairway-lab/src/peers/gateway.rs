//! Objects of the Gateway API as scenarios need them, the same for every peer that takes them. Never applies them.

use std::process::Command;

use anyhow::Context;
use serde_json::{Value, json};

use super::artifacts::Artifacts;
use super::names::CERTIFICATE;
use super::objects::class_name;
use super::peer::Placement;
use super::route::Route;
use super::route_api::GatewayApi;
use super::{programs, yaml};

const GROUP: &str = "gateway.networking.k8s.io";
/// The HTTP listener, and the HTTPS listener that terminates TLS.
pub const HTTP: &str = "http";
const HTTPS: &str = "https";

/// The parent of a route.
#[derive(Clone, Copy, Debug)]
pub enum Parent<'a> {
    /// The Gateway of a peer, in the namespace of the backends.
    Gateway {
        /// The peer.
        peer: &'a str,
        /// The namespace of the Gateway.
        namespace: &'a str,
    },
    /// A ListenerSet of the route's own namespace.
    ListenerSet(&'a str),
}

/// An HTTPRoute with one host, one path and one Service.
#[derive(Clone, Copy, Debug)]
pub struct HttpRoute<'a> {
    /// Its name and namespace; the Service is of the same namespace.
    pub name: &'a str,
    /// See [`HttpRoute::name`].
    pub namespace: &'a str,
    /// The host; `None` if the listener has one.
    pub host: Option<&'a str>,
    /// The prefix of its paths.
    pub path: &'a str,
    /// The Service, whose port is 80.
    pub service: &'a str,
    /// The parent.
    pub parent: Parent<'a>,
}

/// The CRDs of the experimental channel, whose releases of kinds all peers can read, from the module that the conformance
/// suite pins.
///
/// # Errors
/// The module cannot be had.
pub fn definitions(artifacts: &Artifacts) -> anyhow::Result<Vec<Value>> {
    let mut tool = Command::new(artifacts.checkout.join("lab/peers/tool"));
    let folder = programs::output(tool.arg("gateway-api")).context("find the CRDs of Gateway API")?;
    let mut all = Vec::new();
    let folder_of_definitions = std::path::Path::new(folder.trim()).join("config/crd/experimental");
    let entries = std::fs::read_dir(&folder_of_definitions)
        .with_context(|| format!("look into {}", folder_of_definitions.display()))?;
    let mut files: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // Without the policy that forbids to change the channel, and without the kinds of `gateway.networking.x-k8s.io`.
        if name.starts_with("gateway.networking.k8s.io_") && !name.contains("_vap_") {
            all.extend(yaml::read(&file)?);
        }
    }
    anyhow::ensure!(!all.is_empty(), "{} has no CRDs of Gateway API", folder_of_definitions.display());
    Ok(all)
}

/// The class of a peer and its Gateway, which admits routes and ListenerSets of every namespace.
#[must_use]
pub fn gateway(peer: &str, api: &GatewayApi, placement: &Placement) -> [Value; 2] {
    let class = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "GatewayClass",
        "metadata": { "name": class_name(peer) }, "spec": { "controllerName": api.controller },
    });
    let every = json!({ "namespaces": { "from": "All" } });
    let [http, https] = api.ports;
    let mut gateway = named(peer, &placement.watched);
    gateway["spec"] = json!({
        "gatewayClassName": class_name(peer),
        "listeners": [
            { "name": HTTP, "port": http, "protocol": "HTTP", "allowedRoutes": every },
            {
                "name": HTTPS, "port": https, "protocol": "HTTPS", "allowedRoutes": every,
                "tls": { "certificateRefs": [{ "name": CERTIFICATE }] },
            },
        ],
    });
    if api.listener_sets {
        gateway["spec"]["allowedListeners"] = every;
    }
    [class, gateway]
}

/// The Gateway of a peer without its `spec`, to ask for it.
#[must_use]
pub fn named(peer: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Gateway",
        "metadata": { "name": class_name(peer), "namespace": namespace },
    })
}

/// An HTTPRoute.
#[must_use]
pub fn http_route(http_route: &HttpRoute<'_>) -> Value {
    let parent = match http_route.parent {
        Parent::Gateway { peer, namespace } => json!({ "name": class_name(peer), "namespace": namespace }),
        Parent::ListenerSet(name) => json!({ "group": GROUP, "kind": "ListenerSet", "name": name }),
    };
    let mut route = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "HTTPRoute",
        "metadata": { "name": http_route.name, "namespace": http_route.namespace },
        "spec": {
            "parentRefs": [parent],
            "rules": [{
                "matches": [{ "path": { "type": "PathPrefix", "value": http_route.path } }],
                "backendRefs": [{ "name": http_route.service, "port": 80 }],
            }],
        },
    });
    if let Some(host) = http_route.host {
        route["spec"]["hostnames"] = json!([host]);
    }
    route
}

/// A route of scenarios, attached to the Gateway of a peer. Filters are what the studies change, and those use Ingresses.
#[must_use]
pub fn route(peer: &str, placement: &Placement, route: &Route) -> Value {
    http_route(&HttpRoute {
        name: &route.name,
        namespace: &route.namespace,
        host: Some(&route.host),
        path: "/",
        service: &route.service,
        parent: Parent::Gateway { peer, namespace: &placement.watched },
    })
}

/// A ListenerSet of a peer's Gateway with one HTTPS listener, whose certificate is in its own namespace.
#[must_use]
pub fn listener_set(peer: &str, placement: &Placement, name: &str, namespace: &str, host: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ListenerSet",
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "parentRef": { "name": class_name(peer), "namespace": placement.watched },
            "listeners": [{
                "name": HTTPS, "port": 443, "protocol": "HTTPS", "hostname": host,
                "tls": { "certificateRefs": [{ "name": CERTIFICATE }] },
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use fairway_lab_measure::results::Settings;

    use super::super::route_api::RouteApi;
    use super::*;

    fn placement() -> Placement {
        Placement {
            namespace: "lab-contour".to_owned(),
            replicas: 1,
            workers: 1,
            settings: Settings::Recommended,
            watched: "site".to_owned(),
            api: RouteApi::Gateway,
        }
    }

    #[test]
    fn a_gateway_admits_routes_of_all_namespaces_at_the_ports_of_its_peer() {
        let api = GatewayApi { controller: "a.test/c", ports: [8080, 8443], listener_sets: false };
        let [class, gateway] = gateway("traefik", &api, &placement());
        assert_eq!(class["spec"]["controllerName"], "a.test/c");
        assert_eq!(gateway["spec"]["gatewayClassName"], class["metadata"]["name"]);
        assert_eq!(gateway["metadata"]["namespace"], "site");
        let ports: Vec<_> =
            gateway["spec"]["listeners"].as_array().unwrap().iter().map(|it| it["port"].clone()).collect();
        assert_eq!(ports, [8080, 8443]);
        assert!(gateway["spec"].get("allowedListeners").is_none(), "a field that old releases do not know");
    }

    #[test]
    fn a_route_names_its_parent_across_namespaces_and_a_listener_set_within_its_own() {
        let at = |parent| {
            let route = HttpRoute { name: "r", namespace: "a", host: None, path: "/x", service: "s", parent };
            http_route(&route)["spec"]["parentRefs"][0].clone()
        };
        let gateway = at(Parent::Gateway { peer: "fairway", namespace: "site" });
        assert_eq!(gateway, json!({ "name": "lab-fairway", "namespace": "site" }));
        assert_eq!(at(Parent::ListenerSet("ls"))["kind"], "ListenerSet");
    }
}
