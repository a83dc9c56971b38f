//! Immediate responses: a status and JSON. All regular responses for objects and collections are here.

use std::sync::Arc;

use serde_json::{Value, json};

use super::objects::{ObjectPath, Objects};
use super::request::{ApiRequest, Target};

/// A status and a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The status.
    pub status: u16,
    /// JSON.
    pub text: String,
}

impl Page {
    pub(super) fn ok(text: impl Into<String>) -> Self {
        Self { status: 200, text: text.into() }
    }

    pub(super) fn failure(status: u16, reason: &str, message: &str) -> Self {
        Self::detailed_failure((status, reason, message), &Value::Null)
    }

    pub(super) fn detailed_failure((status, reason, message): (u16, &str, &str), details: &Value) -> Self {
        let failure = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message,
            "code": status, "details": details,
        });
        Self { status, text: failure.to_string() }
    }

    /// There is no such resource.
    pub(super) fn no_such_resource() -> Self {
        Self::failure(404, "NotFound", "the server could not find the requested resource")
    }
}

/// The response for an object or a collection.
pub(super) fn page(request: &ApiRequest, target: &Target, objects: &mut Objects) -> Page {
    let Some(place) = target.object_path() else {
        return match &*request.method {
            "GET" => Page::ok(list(request, target, objects)),
            "POST" => create(request, target, objects),
            _ => not_allowed(),
        };
    };
    let Some(found) = objects.text(&place).cloned() else {
        return Page::failure(404, "NotFound", &format!("there is no {} {}", target.resource, place.name));
    };
    match &*request.method {
        "GET" => Page::ok(&*found),
        "PUT" | "PATCH" => write(request, target.part.as_deref(), place, objects),
        "DELETE" => Page::ok(objects.delete(&place).as_deref().unwrap_or_default()),
        _ => not_allowed(),
    }
}

fn write(request: &ApiRequest, part: Option<&str>, path: ObjectPath, objects: &mut Objects) -> Page {
    let mut object = objects.value(&path).unwrap_or_default();
    let based_on = request.body.pointer("/metadata/resourceVersion");
    if based_on.is_some_and(|version| *version != object["metadata"]["resourceVersion"]) {
        return Page::failure(409, "Conflict", "it was changed in between");
    }
    let is_patch = request.method == "PATCH";
    match part {
        Some(part) if is_patch => merge(&mut object[part], &request.body[part]),
        Some(part) => object[part] = request.body[part].clone(),
        None if is_patch => merge(&mut object, &request.body),
        None => object = request.body.clone(),
    }
    if part == Some("status") {
        let manager = request.query.get("fieldManager").map_or("unknown", String::as_str);
        note_writer(&mut object, manager);
    }
    Page::ok(&*objects.store(path, object))
}

/// Notes who wrote the status of an object last.
pub fn note_writer(object: &mut Value, manager: &str) {
    object["metadata"]["managedFields"] = json!([{
        "manager": manager, "operation": "Update", "subresource": "status",
        "time": "2026-01-01T00:00:00Z", "fieldsV1": { "f:status": { "f:loadBalancer": {} } }
    }]);
}

fn create(request: &ApiRequest, target: &Target, objects: &mut Objects) -> Page {
    let mut object = request.body.clone();
    if let Some(namespace) = &target.namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    let path = ObjectPath::from_object(&target.resource, &object);
    if objects.text(&path).is_some() {
        return Page::failure(409, "AlreadyExists", &format!("there is {} {}", target.resource, path.name));
    }
    Page { status: 201, ..Page::ok(&*objects.store(path, object)) }
}

/// A page of a list.
fn list(request: &ApiRequest, target: &Target, objects: &Objects) -> String {
    let selection = request.selection(target);
    let all: Vec<&Arc<str>> = objects.selected(&selection).collect();
    let from = request.number("continue").unwrap_or(0).min(all.len());
    let to = request.number("limit").map_or(all.len(), |limit: usize| (from + limit).min(all.len()));
    let mut metadata = json!({ "resourceVersion": objects.version().to_string() });
    if to < all.len() {
        metadata["continue"] = json!(to.to_string());
    }
    let items: Vec<&str> = all[from..to].iter().map(|text| &***text).collect();
    format!(
        "{{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{metadata},\"items\":[{}]}}",
        items.join(",")
    )
}

/// RFC 7396.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, value) in patch {
        match into.as_object_mut() {
            Some(into) if value.is_null() => _ = into.remove(name),
            _ => merge(&mut into[name], value),
        }
    }
}

fn not_allowed() -> Page {
    Page::failure(405, "MethodNotAllowed", "this server does not do that")
}
