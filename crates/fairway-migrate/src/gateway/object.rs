//! The written objects with their kind, name and comments.

use fairway_objects::object::ObjectKey;
use k8s_openapi::Resource;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// An object with the comment above it.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenObject {
    /// The lines of the comment, without `#`.
    pub about: Vec<String>,
    /// The object.
    pub object: Value,
}

/// An object of kind `K` with this `spec`. Unset fields are omitted.
pub(crate) fn write_object<K: Resource>(
    key: &ObjectKey,
    spec: &impl Serialize,
    about: Vec<String>,
) -> WrittenObject {
    let mut object = object_head::<K>(key);
    object.insert("spec".to_owned(), to_json(spec));
    WrittenObject { about, object: Value::Object(object) }
}

/// A ConfigMap.
pub(crate) fn config_map(key: &ObjectKey, data: &[(&str, &str)], about: Vec<String>) -> WrittenObject {
    let mut object = object_head::<k8s_openapi::api::core::v1::ConfigMap>(key);
    let data: Map<String, Value> =
        data.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
    object.insert("data".to_owned(), Value::Object(data));
    WrittenObject { about, object: Value::Object(object) }
}

fn object_head<K: Resource>(key: &ObjectKey) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(K::API_VERSION));
    object.insert("kind".to_owned(), json!(K::KIND));
    object.insert("metadata".to_owned(), json!({"name": key.name, "namespace": key.namespace}));
    object
}

/// Cannot fail: all map keys in Gateway API types are strings.
fn to_json(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// The comment above objects of Fairway's own kinds.
pub(crate) fn about_own_crd() -> Vec<String> {
    vec!["Fairway's own: its CRD must be installed (policies.crds.install=true)".to_owned()]
}
