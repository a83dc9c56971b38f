//! Compares the desired status of an object with the stored one. Decides what counts as a difference and who wrote it; reads and
//! writes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use fairway_gateway::ObjectStatus;
use serde_json::Value;

use super::observed::FIELD_MANAGER;

/// Lists whose entries have a key, so that their order is irrelevant (`+listType=map` in the types of the Gateway API).
const KEYED_LISTS: [&str; 3] = ["conditions", "listeners", "supportedFeatures"];

/// Names of status fields.
pub(crate) type FieldNames = BTreeSet<String>;

/// The desired status of an object.
pub(crate) trait ComparableStatus: PartialEq {
    /// Whether it equals `before`, for the same generation of the same object. They may stem from different resource versions:
    /// each write creates a new one.
    fn is_same_as(&self, before: &Self) -> bool;
}

/// A desired status that can be written.
pub(crate) trait WritableStatus: ComparableStatus + Send + Sync + 'static {
    /// The uid of its object.
    fn uid(&self) -> &str;
    /// The generation of its object.
    fn generation(&self) -> Option<i64>;
    /// The status to write over `existing`; `None` if it is up to date. `now` is in seconds since 1970.
    fn merged(&self, existing: &Value, now: i64) -> Option<Value>;

    /// What to write over `existing`; also `None` if only the order of conditions or listeners differs.
    fn pending_update(&self, existing: &Value, now: i64) -> Option<PendingUpdate> {
        let status = self.merged(existing, now)?;
        let differing = differing_fields(&status, existing);
        (!differing.is_empty()).then_some(PendingUpdate { status, differing })
    }
}

/// A status to write.
#[derive(Debug)]
pub(crate) struct PendingUpdate {
    /// The complete status.
    pub(crate) status: Value,
    /// The fields that differ.
    pub(crate) differing: FieldNames,
}

impl ComparableStatus for ObjectStatus {
    fn is_same_as(&self, before: &Self) -> bool {
        let Self { uid, version: _, generation, controller, own_status: own } = self;
        (uid, generation, controller, own)
            == (&before.uid, &before.generation, &before.controller, &before.own_status)
    }
}

impl WritableStatus for ObjectStatus {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn generation(&self) -> Option<i64> {
        self.generation
    }

    fn merged(&self, existing: &Value, now: i64) -> Option<Value> {
        self.merged(existing, now)
    }
}

/// The last writer of an object's status, if the object says so (`metadata.managedFields`).
pub(crate) fn last_writer(object: &Value) -> Option<Arc<str>> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array)?;
    let wrote = |entry: &&Value| entry.pointer("/fieldsV1/f:status").is_some();
    // Times have a resolution of seconds: of two equal ones, the other writer came after this process.
    let last = entries.iter().filter(wrote).max_by_key(|entry| {
        let time = entry["time"].as_str().unwrap_or_default();
        (time.to_owned(), entry["manager"] != *FIELD_MANAGER)
    })?;
    last["manager"].as_str().map(Into::into)
}

/// The fields that differ between two statuses.
fn differing_fields(left: &Value, right: &Value) -> FieldNames {
    let fields = [left, right].into_iter().filter_map(Value::as_object).flat_map(|status| status.keys());
    fields.filter(|name| !is_same(name, &left[name.as_str()], &right[name.as_str()])).cloned().collect()
}

/// Whether a field is equal.
fn is_same(field: &str, left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) if KEYED_LISTS.contains(&field) => {
            let is_in = |entry: &Value| right.iter().any(|it| is_equivalent(entry, it));
            left.len() == right.len() && left.iter().all(is_in)
        }
        _ => is_equivalent(left, right),
    }
}

fn is_equivalent(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let is_in = |(name, value): (&String, &Value)| {
                right.get(name).is_some_and(|theirs| is_same(name, value, theirs))
            };
            left.len() == right.len() && left.iter().all(is_in)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| is_equivalent(left, right))
        }
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use fairway_gateway::{ClassStatus, Condition, OwnStatus};
    use serde_json::json;

    use super::*;

    fn status(version: &str, generation: i64, message: &'static str) -> ObjectStatus {
        let condition = |kind| Condition { kind, holds: true, reason: "Accepted", message: message.into() };
        let conditions = vec![condition("Accepted"), condition("SupportedVersion")];
        ObjectStatus {
            uid: "u".into(),
            version: version.into(),
            generation: Some(generation),
            controller: "c".into(),
            own_status: OwnStatus::Class(Box::new(ClassStatus { conditions, features: &["Gateway"] })),
        }
    }

    #[test]
    fn a_repeated_statement_is_distinguished_from_another_one_and_from_another_generation() {
        let before = status("7", 1, "good");
        assert!(status("8", 1, "good").is_same_as(&before), "it was written, so that it has another version");
        assert!(!status("8", 1, "better").is_same_as(&before));
        assert!(!status("8", 2, "good").is_same_as(&before));
        let recreated = ObjectStatus { uid: "v".into(), ..status("8", 1, "good") };
        assert!(!recreated.is_same_as(&before));
    }

    #[test]
    fn the_order_of_conditions_and_conditions_of_others_make_no_difference() {
        let owed =
            |existing: &Value| status("7", 1, "good").pending_update(existing, 0).map(|owed| owed.differing);
        let mut written = status("7", 1, "good").merged(&Value::Null, 0).unwrap();
        assert_eq!(owed(&written), None);
        let conditions = written["conditions"].as_array_mut().unwrap();
        conditions.push(json!({"type": "example.com/Seen", "status": "True"}));
        conditions.reverse();
        written["example"] = json!([1]);
        assert_eq!(owed(&written), None);
        written["conditions"][1]["status"] = json!("False");
        assert_eq!(owed(&written), Some(FieldNames::from(["conditions".to_owned()])));
        assert_eq!(owed(&Value::Null).unwrap().len(), 2, "both fields are missing");
    }

    #[test]
    fn the_last_writer_of_the_status_is_named() {
        let object = |entries: &[(&str, &str, &str)]| {
            let entry = |(manager, second, field): &(&str, &str, &str)| {
                let time = format!("2026-01-01T00:00:{second}Z");
                json!({"manager": manager, "time": time, "fieldsV1": {*field: {}}})
            };
            json!({"metadata": {"managedFields": entries.iter().map(entry).collect::<Vec<_>>()}})
        };
        let writers = [
            ("rival", "02", "f:status"),
            ("fairway", "02", "f:status"),
            ("early", "01", "f:status"),
            ("kubectl", "03", "f:spec"),
        ];
        assert_eq!(last_writer(&object(&writers)).as_deref(), Some("rival"));
        assert_eq!(last_writer(&object(&writers[1..])).as_deref(), Some("fairway"));
        assert_eq!(last_writer(&json!({"metadata": {}})), None);
    }
}
