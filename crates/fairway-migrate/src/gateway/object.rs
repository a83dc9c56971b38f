//! Objects as they are written: their kind, their names, and lines about them.

use fairway_objects::object::ObjectKey;
use k8s_openapi::Resource;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// An object and what is to be said above it.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Lines about it, without `#`.
    pub about: Vec<String>,
    /// The object.
    pub object: Value,
}

/// An object of kind `K` with this `spec`; nothing that it leaves out is written.
pub(crate) fn written<K: Resource>(key: &ObjectKey, spec: &impl Serialize, about: Vec<String>) -> Written {
    let mut object = head::<K>(key);
    object.insert("spec".to_owned(), value(spec));
    Written { about, object: Value::Object(object) }
}

/// A ConfigMap.
pub(crate) fn config_map(key: &ObjectKey, data: &[(&str, &str)], about: Vec<String>) -> Written {
    let mut object = head::<k8s_openapi::api::core::v1::ConfigMap>(key);
    let data: Map<String, Value> =
        data.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
    object.insert("data".to_owned(), Value::Object(data));
    Written { about, object: Value::Object(object) }
}

fn head<K: Resource>(key: &ObjectKey) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(K::API_VERSION));
    object.insert("kind".to_owned(), json!(K::KIND));
    object.insert("metadata".to_owned(), json!({"name": key.name, "namespace": key.namespace}));
    object
}

/// Structs of the Gateway API have no keys that JSON has not.
fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

/// What is said above objects of Fairway's own kinds.
pub(crate) fn about_own_crd() -> Vec<String> {
    vec!["Fairway's own: its CRD must be installed (policies.crds.install=true)".to_owned()]
}
