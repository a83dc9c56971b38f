//! The objects of many routes: a Service with endpoints for each host, and for each of its paths an Ingress or an HTTPRoute of
//! its own, as `kubectl` and controllers write them.

use serde::Serialize;
use serde_json::{Value, json};

use crate::manifests::Ingress;

/// The kind of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An Ingress with one path each.
    Ingress,
    /// An HTTPRoute with one rule each.
    HttpRoute,
}

/// The source of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A directory with a file for each host.
    Directory,
    /// An API server.
    Api,
}

/// The number of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Ingresses or HTTPRoutes.
    pub routes: usize,
    /// The hosts that they share evenly; each has a Service. Not 0, and no more than routes.
    pub hosts: usize,
    /// Endpoints of all Services.
    pub endpoints: usize,
}

impl Shape {
    /// The host of a route.
    pub(super) fn host_of(self, route: usize) -> usize {
        route % self.hosts
    }

    /// The endpoints of a host's Service.
    pub(super) fn endpoints_of(self, host: usize) -> usize {
        self.endpoints / self.hosts + usize::from(host < self.endpoints % self.hosts)
    }
}

const NAMESPACE: &str = "scale";
const CREATED: &str = "2026-01-02T03:04:05Z";
const GATEWAY_GROUP: &str = "gateway.networking.k8s.io/v1";

/// An object and the resource that it belongs to.
pub(super) type Object = (&'static str, Value);

/// The objects shared by all routes. The Gateway listens at `port`.
pub(super) fn common(kind: Kind, port: u16) -> Vec<Object> {
    match kind {
        Kind::Ingress => vec![(
            "ingressclasses",
            json!({
                "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
                "metadata": { "name": "nginx" }, "spec": { "controller": "fairway.dev/ingress-controller" },
            }),
        )],
        Kind::HttpRoute => vec![
            (
                "gatewayclasses",
                json!({
                    "apiVersion": GATEWAY_GROUP, "kind": "GatewayClass", "metadata": { "name": "fairway" },
                    "spec": { "controllerName": "fairway.dev/gateway-controller" },
                }),
            ),
            (
                "gateways",
                json!({
                    "apiVersion": GATEWAY_GROUP, "kind": "Gateway", "metadata": metadata("edge"),
                    "spec": {
                        "gatewayClassName": "fairway",
                        "listeners": [{ "name": "http", "port": port, "protocol": "HTTP" }],
                    },
                }),
            ),
        ],
    }
}

/// The Service of a host with its endpoints.
pub(super) fn service(shape: Shape, host: usize) -> Vec<Object> {
    let name = service_name(host);
    let [_, high, middle, low] = u32::try_from(host).unwrap_or_default().to_be_bytes();
    let endpoint = |number: usize| {
        let address = format!("10.{}.{middle}.{low}", (number % 100) * 2 + usize::from(high) % 2);
        let pod = format!("{name}-5d4f8c7b9-{number:05}");
        json!({ "addresses": [address], "conditions": { "ready": true }, "targetRef": { "kind": "Pod", "name": pod } })
    };
    let mut slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata(&format!("{name}-0")),
        "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": (0..shape.endpoints_of(host)).map(endpoint).collect::<Vec<_>>(),
    });
    slice["metadata"]["labels"] = json!({ "kubernetes.io/service-name": name });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata(&name),
        "spec": { "ports": [{ "name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080 }] },
    });
    vec![("services", service), ("endpointslices", slice)]
}

/// A route; one with a label redirects there.
pub(super) fn route(shape: Shape, kind: Kind, number: usize, label: Option<&str>) -> Object {
    let (host, path) = (shape.host_of(number), path(shape, number));
    let (name, service) = (format!("route-{number}"), service_name(host));
    match kind {
        Kind::Ingress => {
            let mut ingress = Ingress::new(NAMESPACE, &name).created(CREATED).route(
                &host_name(host),
                &path,
                (&service, 80),
            );
            if let Some(label) = label {
                ingress = ingress.annotation("temporal-redirect", &format!("https://{label}.test/"));
            }
            ("ingresses", ingress.into_value())
        }
        Kind::HttpRoute => {
            let mut rule = json!({
                "matches": [{ "path": { "type": "PathPrefix", "value": path } }],
                "backendRefs": [{ "name": service, "port": 80 }],
            });
            if let Some(label) = label {
                let redirect =
                    json!({ "scheme": "https", "hostname": format!("{label}.test"), "statusCode": 302 });
                rule = json!({
                    "matches": rule["matches"],
                    "filters": [{ "type": "RequestRedirect", "requestRedirect": redirect }],
                });
            }
            let route = json!({
                "apiVersion": GATEWAY_GROUP, "kind": "HTTPRoute", "metadata": metadata(&name),
                "spec": { "parentRefs": [{ "name": "edge" }], "hostnames": [host_name(host)], "rules": [rule] },
            });
            ("httproutes", route)
        }
    }
}

/// The path of a route: `/` for the first one of its host.
pub(super) fn path(shape: Shape, number: usize) -> String {
    match number / shape.hosts {
        0 => "/".to_owned(),
        further => format!("/api/v{further}"),
    }
}

pub(super) fn host_name(host: usize) -> String {
    format!("app-{host}.team-{}.test", host % 97)
}

fn service_name(host: usize) -> String {
    format!("service-{host}")
}

fn metadata(name: &str) -> Value {
    json!({ "name": name, "namespace": NAMESPACE, "creationTimestamp": CREATED })
}
