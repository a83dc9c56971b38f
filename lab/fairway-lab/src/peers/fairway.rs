//! Fairway as its chart installs it. Routes are Ingresses with the annotations of ingress-nginx.

use std::collections::BTreeMap;

use anyhow::Context;
use fairway_lab_measure::results::{NamedText, PeerKind, PeerRecord, Settings};
use serde_json::{Map, Value, json};

use super::artifacts::Artifacts;
use super::names::{PROXY, PROXY_LABEL, RESPONSE_HEADER};
use super::objects::{IngressShape, class_name, ingress, namespace};
use super::peer::{Peer, Placement, PreparedPeer};
use super::route::Route;
use super::route_api::{GatewayApi, RouteApi};
use super::{programs, yaml};

const NAME: &str = "fairway";

/// Fairway.
pub(super) struct Fairway;

impl Peer for Fairway {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "Fairway: its own Rust data plane, changed in place"
    }

    fn gateway_api(&self) -> Result<GatewayApi, &'static str> {
        let controller = "fairway.dev/gateway-controller";
        Ok(GatewayApi { controller, ports: [80, 443], listener_sets: true })
    }

    fn prepare(&self, artifacts: &Artifacts) -> anyhow::Result<PreparedPeer> {
        let Artifacts { fairway_archive: archive, fairway_image: image, .. } = artifacts;
        anyhow::ensure!(archive.is_file(), "the image {image} is not there; make image makes it");
        programs::build_helm(artifacts)?;
        let version = programs::version(&artifacts.fairway, "version", "fairway")?;
        let values = |settings| serde_json::to_string_pretty(&chart_values(image, &sample(settings)));
        Ok(PreparedPeer {
            record: PeerRecord {
                name: NAME.to_owned(),
                title: format!("Fairway {}", fairway_lab_measure::number(&version)),
                kind: PeerKind::Controller,
                stands_for: "itself".to_owned(),
                versions: BTreeMap::from([(NAME.to_owned(), version)]),
                configurations: vec![
                    NamedText {
                        name: "values of charts/fairway (recommended)".to_owned(),
                        text: values(Settings::Recommended)?,
                    },
                    NamedText {
                        name: "values of charts/fairway (defaults)".to_owned(),
                        text: values(Settings::Defaults)?,
                    },
                ],
            },
            archives: vec![archive.clone()],
        })
    }

    fn objects(&self, artifacts: &Artifacts, placement: &Placement) -> anyhow::Result<Vec<Value>> {
        std::fs::create_dir_all(&artifacts.folder)?;
        let values = artifacts.folder.join("fairway-values.json");
        std::fs::write(&values, chart_values(&artifacts.fairway_image, placement).to_string())
            .context("write the values of the chart")?;
        let mut helm = programs::helm(artifacts);
        helm.args(["template", PROXY]).arg(artifacts.checkout.join("charts/fairway"));
        helm.args(["--namespace", &placement.namespace, "--values"]).arg(values);
        let rendered = programs::output(&mut helm).context("render the chart of Fairway")?;
        let mut objects = vec![namespace(placement)];
        objects.extend(yaml::parse(&rendered).context("read what the chart of Fairway rendered")?);
        Ok(objects)
    }

    fn route(&self, _: &Placement, route: &Route) -> Vec<Value> {
        ingresses(route)
    }
}

/// A placement to show values of in a report before there is one.
fn sample(settings: Settings) -> Placement {
    let text = |text: &str| text.to_owned();
    let (namespace, watched) = (text("lab-fairway"), text("lab"));
    Placement { namespace, replicas: 1, workers: 1, settings, watched, api: RouteApi::Ingress }
}

pub(super) fn chart_values(image: &str, placement: &Placement) -> Value {
    let (repository, tag) = image.rsplit_once(':').unwrap_or((image, ""));
    let mut values = json!({
        "fullnameOverride": PROXY,
        "replicas": placement.replicas,
        "image": { "repository": repository, "tag": tag },
        "ingressClass": { "name": class_name(NAME) },
        "watch": { "namespaces": [placement.watched] },
        // As in ingress-nginx, `custom-headers` may set only headers that the settings allow.
        "settings": { "global-allowed-response-headers": RESPONSE_HEADER },
        "podLabels": { PROXY_LABEL: NAME },
    });
    if placement.settings == Settings::Recommended {
        for (name, value) in recommended_settings().as_object().into_iter().flatten() {
            values["settings"][name] = value.clone();
        }
        values["workers"] = json!(placement.workers);
        values["logs"] = json!({ "access": "off" });
    }
    if placement.api == RouteApi::Gateway {
        values["gatewayApi"] = json!({ "enabled": true });
        // Routes and listeners are in namespaces of their own.
        values["watch"] = json!({ "namespaces": [] });
    }
    values
}

/// Keys of the settings ConfigMap: connections live as long as those of the other proxies in their recommended settings.
pub(super) fn recommended_settings() -> Value {
    json!({
        "proxy-connect-timeout": "5",
        "keep-alive": "600",
        "keep-alive-requests": "100000000",
        "upstream-keepalive-requests": "100000000",
    })
}

/// Plain HTTP is served as well as HTTPS.
pub(super) fn ssl_redirect_off() -> Map<String, Value> {
    Map::from_iter([(key("ssl-redirect"), json!("false"))])
}

fn key(name: &str) -> String {
    format!("nginx.ingress.kubernetes.io/{name}")
}

/// The main Ingress, the ConfigMap of a response header, and one Ingress each for a rewritten and a redirected path,
/// because annotations apply to all paths of an Ingress.
fn ingresses(route: &Route) -> Vec<Value> {
    let mut objects = Vec::new();
    let mut annotations = ssl_redirect_off();
    if route.filters.cors {
        annotations.insert(key("enable-cors"), json!("true"));
    }
    if let Some((name, value)) = &route.filters.response_header {
        let map = format!("{}-headers", route.name);
        objects.push(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": map, "namespace": route.namespace }, "data": { name: value },
        }));
        annotations.insert(key("custom-headers"), json!(format!("{}/{map}", route.namespace)));
    }
    let mut add = |suffix: &str, annotations: &Map<String, Value>, path: &str, path_type: &str| {
        let annotations = Value::Object(annotations.clone());
        let shape = IngressShape { suffix, class: class_name(NAME), annotations, path, path_type };
        objects.push(ingress(route, &shape));
    };
    add("", &annotations, "/", "Prefix");
    if let Some(prefix) = &route.filters.rewrite {
        let mut annotations = annotations.clone();
        annotations.insert(key("use-regex"), json!("true"));
        annotations.insert(key("rewrite-target"), json!("/$2"));
        add("-rewrite", &annotations, &format!("{prefix}(/|$)(.*)"), "ImplementationSpecific");
    }
    if let Some((path, to)) = &route.filters.redirect {
        annotations.insert(key("temporal-redirect"), json!(to));
        if route.filters.rewrite.is_some() {
            // One Ingress with regular expressions turns all paths of the host into expressions, which match
            // prefixes.
            add("-redirect", &annotations, &format!("{path}$"), "ImplementationSpecific");
        } else {
            add("-redirect", &annotations, path, "Exact");
        }
    }
    objects
}
