//! Pages that are about no object: versions, health, and which custom resources are defined.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::request::Target;
use super::responses::Page;

/// The group of the Gateway API.
pub const GATEWAY_API: &str = "gateway.networking.k8s.io";
/// The group of Fairway's policies.
pub const POLICIES: &str = "fairway.dev";
/// The group of the Gateway API Inference Extension.
pub const INFERENCE_EXTENSION: &str = "inference.networking.k8s.io";

/// A version and a resource that is defined in it.
pub type Definition = (&'static str, &'static str);

/// The custom resources that are defined. Those of other groups than these are always there.
pub(super) struct Definitions(BTreeMap<&'static str, BTreeSet<Definition>>);

impl Definitions {
    /// Without the CRDs of the Gateway API and of Fairway's policies.
    pub(super) fn none() -> Self {
        Self(
            [GATEWAY_API, POLICIES, INFERENCE_EXTENSION]
                .into_iter()
                .map(|group| (group, BTreeSet::new()))
                .collect(),
        )
    }

    /// The resources of a group.
    pub(super) fn of_group(&mut self, group: &'static str) -> &mut BTreeSet<Definition> {
        self.0.entry(group).or_default()
    }

    pub(super) fn has(&self, target: &Target) -> bool {
        let is =
            |(version, resource): &Definition| *version == target.version && *resource == target.resource;
        self.0.get(&*target.group).is_none_or(|of_group| of_group.iter().any(is))
    }

    /// The page about a group or one of its versions.
    fn page(&self, group: &str, version: Option<&str>) -> Page {
        let defined = self.0.get(group).into_iter().flatten();
        let versions: BTreeSet<&str> = defined.clone().map(|(version, _)| *version).collect();
        let version_entry =
            |version: &str| json!({ "groupVersion": format!("{group}/{version}"), "version": version });
        let Some(version) = version else {
            let Some(preferred) = versions.first() else { return Page::no_such_resource() };
            let all: Vec<Value> = versions.iter().map(|version| version_entry(version)).collect();
            let page = json!({
                "kind": "APIGroup", "apiVersion": "v1", "name": group,
                "versions": all, "preferredVersion": version_entry(preferred),
            });
            return Page::ok(page.to_string());
        };
        if !versions.contains(version) {
            return Page::no_such_resource();
        }
        let of_version = defined.filter(|(defined_version, _)| *defined_version == version);
        let resources: Vec<Value> = of_version.map(|(_, resource)| described(resource)).collect();
        let page = json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"),
            "resources": resources,
        });
        Page::ok(page.to_string())
    }
}

fn described(resource: &str) -> Value {
    let namespaced = resource != "gatewayclasses";
    json!({
        "name": resource, "singularName": "", "namespaced": namespaced, "kind": resource, "verbs": ["list", "watch"]
    })
}

/// A page that is about no object.
pub(super) fn page(path: &str, minor: u32, definitions: &Definitions) -> Page {
    match path.trim_matches('/').split('/').collect::<Vec<_>>().as_slice() {
        ["version"] => {
            let version =
                json!({ "major": "1", "minor": minor.to_string(), "gitVersion": format!("v1.{minor}.0") });
            Page::ok(version.to_string())
        }
        ["readyz" | "livez" | "healthz"] => Page::ok("\"ok\""),
        ["apis", group] => definitions.page(group, None),
        ["apis", group, version] => definitions.page(group, Some(version)),
        _ => Page::no_such_resource(),
    }
}
