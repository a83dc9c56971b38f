//! Decodes `AdmissionReview` requests of `admission.k8s.io/v1` and builds the responses. Pure.

use fairway_control::dry_run::Verdict;
use fairway_objects::diagnostic::Diagnostic;
use k8s_openapi::api::networking::v1::Ingress;
use serde::Deserialize;
use serde_json::{Value, json};

/// More warnings would hide the first ones; the API server truncates at 4,096 bytes in total.
const MAX_WARNINGS: usize = 16;

#[derive(Deserialize)]
struct Review {
    #[serde(rename = "apiVersion")]
    api_version: String,
    kind: String,
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    uid: String,
    kind: GroupKind,
    operation: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    object: Value,
}

#[derive(Deserialize)]
struct GroupKind {
    group: String,
    version: String,
    kind: String,
}

/// A decoded admission request.
#[derive(Debug)]
pub(crate) struct AdmissionRequest {
    /// Identifies the request in the response.
    pub(crate) uid: String,
    pub(crate) object: ReviewedObject,
}

#[derive(Debug)]
pub(crate) enum ReviewedObject {
    /// An Ingress that is created or updated.
    Ingress(Box<Ingress>),
    /// Anything that the webhook does not review.
    Other,
}

impl AdmissionRequest {
    /// Decodes a review; the error says what is wrong with it.
    pub(crate) fn read(body: &[u8]) -> Result<Self, String> {
        let review: Review =
            serde_json::from_slice(body).map_err(|error| format!("not an AdmissionReview: {error}"))?;
        if (review.api_version.as_str(), review.kind.as_str()) != ("admission.k8s.io/v1", "AdmissionReview") {
            return Err(format!(
                "{} {} instead of admission.k8s.io/v1 AdmissionReview",
                review.api_version, review.kind
            ));
        }
        let Request { uid, kind, operation, namespace, object } = review.request;
        let GroupKind { group, version, kind } = &kind;
        let is_ingress = (&**group, &**version, &**kind) == ("networking.k8s.io", "v1", "Ingress");
        if !is_ingress || !matches!(operation.as_str(), "CREATE" | "UPDATE") {
            return Ok(Self { uid, object: ReviewedObject::Other });
        }
        let mut ingress: Ingress = serde_json::from_value(object)
            .map_err(|error| format!("request.object: not an Ingress: {error}"))?;
        if ingress.metadata.deletion_timestamp.is_some() {
            // Removing finalizers must succeed whatever else is wrong with the Ingress.
            return Ok(Self { uid, object: ReviewedObject::Other });
        }
        if ingress.metadata.namespace.is_none() && !namespace.is_empty() {
            ingress.metadata.namespace = Some(namespace);
        }
        Ok(Self { uid, object: ReviewedObject::Ingress(Box::new(ingress)) })
    }
}

/// The response to the request `uid`.
pub(crate) fn verdict_response(uid: &str, verdict: &Verdict) -> Value {
    match verdict {
        Verdict::NotOurs => allowed_response(uid, &[]),
        Verdict::Ours { errors, warnings } if errors.is_empty() => allowed_response(uid, &messages(warnings)),
        Verdict::Ours { errors, warnings } => {
            let message = messages(errors).join("\n");
            let status = json!({ "code": 422, "reason": "Invalid", "message": message });
            let warnings = limit_warnings(&messages(warnings));
            wrap_response(&json!({ "uid": uid, "allowed": false, "status": status, "warnings": warnings }))
        }
    }
}

/// Allows the request, with these warnings.
pub(crate) fn allowed_response(uid: &str, warnings: &[String]) -> Value {
    wrap_response(&json!({ "uid": uid, "allowed": true, "warnings": limit_warnings(warnings) }))
}

fn wrap_response(response: &Value) -> Value {
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
}

fn messages(diagnostics: &[Diagnostic]) -> Vec<String> {
    diagnostics.iter().map(ToString::to_string).collect()
}

fn limit_warnings(warnings: &[String]) -> Vec<String> {
    let mut shown: Vec<_> = warnings.iter().take(MAX_WARNINGS).cloned().collect();
    if let Some(more) = warnings.len().checked_sub(MAX_WARNINGS).filter(|more| *more > 0) {
        shown.push(format!("and {more} more; `fairway check` prints all"));
    }
    shown
}
