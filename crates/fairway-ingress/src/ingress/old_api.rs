//! Ingresses of API versions removed in Kubernetes 1.22: not served, but reported in their current form.

mod yaml;

use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{Kind, ObjectKey, Sourced};
use serde_json::{Map, Value, json};

use crate::ingress::class::CLASS_ANNOTATION;

/// Reports that an Ingress is not served, with its current form.
pub(crate) fn describe(key: &ObjectKey, old: &Sourced<Value>) -> Diagnostic {
    let version = old.object.get("apiVersion").and_then(Value::as_str).unwrap_or("an old version");
    let problem = format!("apiVersion {version} was removed in Kubernetes 1.22");
    let today = yaml::text(&to_v1(&old.object));
    let consequence = format!("it is not served; today it is written so:\n{today}");
    let origin = old.origin(Kind::OldIngress, key, "apiVersion");
    Diagnostic::new(Severity::Error, "removed-api-version", origin).because(problem, consequence)
}

/// The same Ingress in `networking.k8s.io/v1`.
fn to_v1(old: &Value) -> Value {
    let mut metadata = old.get("metadata").cloned().unwrap_or_else(|| json!({}));
    let mut spec = Map::new();
    if let Some(metadata) = metadata.as_object_mut() {
        let server_made =
            ["managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"];
        metadata.retain(|field, _| !server_made.contains(&field.as_str()));
        if let Some(class) = take_class(metadata) {
            spec.insert("ingressClassName".into(), class);
        }
    }
    for (field, value) in old.get("spec").and_then(Value::as_object).into_iter().flatten() {
        match field.as_str() {
            "backend" => drop(spec.insert("defaultBackend".into(), backend(value))),
            "rules" => drop(spec.insert("rules".into(), map_list(value, rule))),
            _ => drop(spec.insert(field.clone(), value.clone())),
        }
    }
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": spec})
}

/// Removes and returns the annotation that `spec.ingressClassName` replaces.
fn take_class(metadata: &mut Map<String, Value>) -> Option<Value> {
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let class = annotations.remove(CLASS_ANNOTATION)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    Some(class)
}

fn map_list(list: &Value, change: impl Fn(&Value) -> Value) -> Value {
    list.as_array().map_or_else(|| list.clone(), |items| items.iter().map(change).collect())
}

fn rule(old: &Value) -> Value {
    let mut rule = old.clone();
    if let Some(paths) = rule.pointer_mut("/http/paths") {
        *paths = map_list(paths, path);
    }
    rule
}

fn path(old: &Value) -> Value {
    let mut path = old.clone();
    if let Some(fields) = path.as_object_mut() {
        if let Some(old) = fields.get("backend") {
            let new = backend(old);
            fields.insert("backend".into(), new);
        }
        fields.entry("pathType").or_insert_with(|| json!("ImplementationSpecific"));
    }
    path
}

fn backend(old: &Value) -> Value {
    let Some(name) = old.get("serviceName") else { return old.clone() };
    let port = match old.get("servicePort") {
        Some(Value::String(text)) => match text.parse::<u16>() {
            Ok(number) => json!({ "number": number }),
            Err(_) => json!({ "name": text }),
        },
        Some(number) => json!({ "number": number }),
        None => json!({}),
    };
    json!({ "service": { "name": name, "port": port } })
}
