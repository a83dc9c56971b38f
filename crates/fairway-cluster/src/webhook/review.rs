//! `AdmissionReview` of `admission.k8s.io/v1`: the question read, the answer worded. Pure.

use fairway_control::trial::Verdict;
use fairway_objects::diagnostic::Diagnostic;
use k8s_openapi::api::networking::v1::Ingress;
use serde::Deserialize;
use serde_json::{Value, json};

/// More warnings only hide the first ones, and the API server cuts off at 4,096 bytes in all.
const MOST_WARNINGS: usize = 16;

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

/// What is asked.
#[derive(Debug)]
pub(crate) struct Question {
    /// Names the question in the answer.
    pub(crate) uid: String,
    pub(crate) about: About,
}

#[derive(Debug)]
pub(crate) enum About {
    /// An Ingress that is made or changed.
    Ingress(Box<Ingress>),
    /// Nothing that is judged here.
    AnythingElse,
}

impl Question {
    /// Reads a review; the error says what is wrong with it.
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
            return Ok(Self { uid, about: About::AnythingElse });
        }
        let mut ingress: Ingress = serde_json::from_value(object)
            .map_err(|error| format!("request.object: not an Ingress: {error}"))?;
        if ingress.metadata.deletion_timestamp.is_some() {
            // Its finalizers must be removable, whatever is wrong with it.
            return Ok(Self { uid, about: About::AnythingElse });
        }
        if ingress.metadata.namespace.is_none() && !namespace.is_empty() {
            ingress.metadata.namespace = Some(namespace);
        }
        Ok(Self { uid, about: About::Ingress(Box::new(ingress)) })
    }
}

/// The answer to the question `uid`.
pub(crate) fn answer(uid: &str, verdict: &Verdict) -> Value {
    match verdict {
        Verdict::NotOurs => allowed(uid, &[]),
        Verdict::Ours { errors, warnings } if errors.is_empty() => allowed(uid, &texts(warnings)),
        Verdict::Ours { errors, warnings } => {
            let message = texts(errors).join("\n");
            let status = json!({ "code": 422, "reason": "Invalid", "message": message });
            let warnings = some(&texts(warnings));
            wrapped(&json!({ "uid": uid, "allowed": false, "status": status, "warnings": warnings }))
        }
    }
}

/// Allows, and says these words.
pub(crate) fn allowed(uid: &str, warnings: &[String]) -> Value {
    wrapped(&json!({ "uid": uid, "allowed": true, "warnings": some(warnings) }))
}

fn wrapped(response: &Value) -> Value {
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
}

fn texts(diagnostics: &[Diagnostic]) -> Vec<String> {
    diagnostics.iter().map(ToString::to_string).collect()
}

fn some(warnings: &[String]) -> Vec<String> {
    let mut shown: Vec<_> = warnings.iter().take(MOST_WARNINGS).cloned().collect();
    if let Some(more) = warnings.len().checked_sub(MOST_WARNINGS).filter(|more| *more > 0) {
        shown.push(format!("and {more} more; `fairway check` prints all"));
    }
    shown
}
