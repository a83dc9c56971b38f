//! Statuses of objects, and how they are merged with the existing status without disturbing other controllers'
//! entries.

use std::sync::Arc;

use fairway_objects::gateway_api::ParentReference;
use fairway_objects::object::Kind;
use fairway_objects::placement::Address;
use fairway_objects::shared;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::condition::{Condition, OWN_CONDITION_TYPES};

/// The group of the Gateway API.
pub(crate) const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";

/// Maximum number of `status.ancestors` entries of a policy, for all controllers together (Gateway API
/// `PolicyStatus`).
pub(crate) const MAX_ANCESTORS: usize = 16;
const ANCESTORS: EntryList =
    EntryList { field: "ancestors", reference: "ancestorRef", max_entries: MAX_ANCESTORS };
/// For routes and pools: Gateway API `RouteStatus` and `InferencePoolStatus`.
const PARENTS: EntryList = EntryList { field: "parents", reference: "parentRef", max_entries: MAX_PARENTS };
pub(crate) const MAX_PARENTS: usize = 32;

/// The status to write for an object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectStatus {
    /// Its `metadata.uid`, or empty.
    pub uid: Arc<str>,
    /// The `metadata.resourceVersion` that the status was derived from, or empty.
    pub version: Arc<str>,
    /// Its `metadata.generation`, reported as `observedGeneration` by each condition.
    pub generation: Option<i64>,
    /// The name of this controller, which identifies its entries.
    pub controller: Arc<str>,
    /// The content.
    pub own_status: OwnStatus,
}

/// The content of a status.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnStatus {
    /// A GatewayClass.
    Class(Box<ClassStatus>),
    /// A Gateway.
    Gateway(Box<GatewayStatus>),
    /// A ListenerSet.
    ListenerSet(Box<ListenerSetStatus>),
    /// A route, with an entry for each parent of this controller; routes with equal entries share them. Or an
    /// InferencePool, with an entry for each Gateway whose routes use it.
    Route(Arc<[ParentStatus]>),
    /// A policy, with an entry for each Gateway that reaches its target.
    Policy(Arc<[ParentStatus]>),
}

/// The status of a GatewayClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassStatus {
    /// `conditions`.
    pub conditions: Vec<Condition>,
    /// `supportedFeatures`.
    pub features: &'static [&'static str],
}

/// The status of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayStatus {
    /// `conditions`.
    pub conditions: Vec<Condition>,
    /// `addresses`.
    pub addresses: Vec<Address>,
    /// `listeners`.
    pub listeners: Vec<ListenerStatus>,
    /// `attachedListenerSets`.
    pub attached_listener_sets: usize,
}

/// The status of a ListenerSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerSetStatus {
    /// `conditions`.
    pub conditions: Vec<Condition>,
    /// `listeners`.
    pub listeners: Vec<ListenerStatus>,
}

/// The status of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerStatus {
    /// `name`.
    pub name: Arc<str>,
    /// `supportedKinds`.
    pub kinds: Vec<Kind>,
    /// `attachedRoutes`.
    pub attached_routes: usize,
    /// `conditions`.
    pub conditions: Vec<Condition>,
}

/// The status of an object relative to another: the parent of a route or the ancestor of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct ParentStatus {
    /// `parentRef` as the route wrote it, or `ancestorRef`.
    pub parent: Arc<ParentReference>,
    /// `conditions`.
    pub conditions: Vec<Condition>,
}

/// A list that several controllers write to.
struct EntryList {
    field: &'static str,
    /// The field that identifies an entry, besides the controller.
    reference: &'static str,
    /// The API server's limit.
    max_entries: usize,
}

/// Values common to everything in one status update.
#[derive(Clone, Copy)]
struct StatusWriter<'a> {
    generation: Option<i64>,
    controller: &'a str,
    now: &'a str,
}

impl ObjectStatus {
    pub(crate) fn new(metadata: &ObjectMeta, controller: &Arc<str>, own_status: OwnStatus) -> Self {
        let text = |field: &Option<String>| shared::text(field.as_deref().unwrap_or_default());
        Self {
            uid: text(&metadata.uid),
            version: text(&metadata.resource_version),
            generation: metadata.generation,
            controller: controller.clone(),
            own_status,
        }
    }

    /// The status to write over `existing`, the current `status` (`Null` if absent); `None` if nothing changes. `now`
    /// is in seconds since 1970. Entries, conditions and fields of other controllers stay, and a condition that does
    /// not change its status keeps its `lastTransitionTime`.
    #[must_use]
    pub fn merged(&self, existing: &Value, now: i64) -> Option<Value> {
        let now = Timestamp::from_second(now).unwrap_or_default().to_string();
        let writing = StatusWriter { generation: self.generation, controller: &self.controller, now: &now };
        let mut status = existing.as_object().cloned().unwrap_or_default();
        match &self.own_status {
            OwnStatus::Class(class) => {
                writing.set_conditions(&mut status, &class.conditions);
                let features = class.features.iter().map(|name| json!({"name": name})).collect();
                set_list(&mut status, "supportedFeatures", features);
            }
            OwnStatus::Gateway(gateway) => writing.gateway(&mut status, gateway),
            OwnStatus::ListenerSet(set) => {
                writing.set_conditions(&mut status, &set.conditions);
                writing.set_listeners(&mut status, &set.listeners);
            }
            OwnStatus::Route(parents) => writing.set_entries(&mut status, &PARENTS, parents),
            OwnStatus::Policy(ancestors) => writing.set_entries(&mut status, &ANCESTORS, ancestors),
        }
        let status = Value::Object(status);
        let nothing = existing.is_null() && status.as_object().is_some_and(Map::is_empty);
        (status != *existing && !nothing).then_some(status)
    }
}

impl StatusWriter<'_> {
    fn gateway(self, status: &mut Map<String, Value>, gateway: &GatewayStatus) {
        self.set_conditions(status, &gateway.conditions);
        let address = |it: &Address| json!({"type": it.kind.name(), "value": it.value});
        set_list(status, "addresses", gateway.addresses.iter().map(address).collect());
        self.set_listeners(status, &gateway.listeners);
        status.insert("attachedListenerSets".to_owned(), json!(gateway.attached_listener_sets));
    }

    fn set_listeners(self, status: &mut Map<String, Value>, listeners: &[ListenerStatus]) {
        let before = list_field(status, "listeners");
        let written = listeners.iter().map(|listener| {
            let same = |it: &&Value| it["name"] == *listener.name;
            let mut entry = before.iter().find(same).and_then(Value::as_object).cloned().unwrap_or_default();
            entry.insert("name".to_owned(), json!(listener.name));
            entry.insert("attachedRoutes".to_owned(), json!(listener.attached_routes));
            let kind = |kind: &Kind| json!({"group": GATEWAY_GROUP, "kind": kind.name()});
            // Required in entries of a Gateway, even if empty.
            entry.insert("supportedKinds".to_owned(), listener.kinds.iter().map(kind).collect());
            self.set_conditions(&mut entry, &listener.conditions);
            Value::Object(entry)
        });
        let written = written.collect();
        set_list(status, "listeners", written);
    }

    /// Replaces this controller's entries in a list.
    fn set_entries(self, status: &mut Map<String, Value>, list_of: &EntryList, own_entries: &[ParentStatus]) {
        let EntryList { field, reference, max_entries: most } = *list_of;
        let before = list_field(status, field);
        let mut remaining: Vec<(Value, &ParentStatus)> = own_entries
            .iter()
            .map(|entry| (serde_json::to_value(&*entry.parent).unwrap_or_default(), entry))
            .collect();
        let mut entries = Vec::new();
        for entry in before {
            if entry["controllerName"] != *self.controller {
                entries.push(entry);
            } else if let Some(at) = remaining.iter().position(|(parent, _)| *parent == entry[reference]) {
                let (_, own) = remaining.remove(at);
                let mut entry = entry.as_object().cloned().unwrap_or_default();
                self.set_conditions(&mut entry, &own.conditions);
                entries.push(Value::Object(entry));
            }
        }
        for (parent, own) in remaining {
            let mut entry = Map::new();
            entry.insert(reference.to_owned(), parent);
            entry.insert("controllerName".to_owned(), json!(self.controller));
            self.set_conditions(&mut entry, &own.conditions);
            entries.push(Value::Object(entry));
        }
        // Existing entries fit; only own entries that are new are left out.
        entries.truncate(most);
        // Required, even if empty.
        status.insert(field.to_owned(), Value::Array(entries));
    }

    fn set_conditions(self, holder: &mut Map<String, Value>, own_conditions: &[Condition]) {
        let before = list_field(holder, "conditions");
        let is_own = |it: &Value| it["type"].as_str().is_some_and(|kind| OWN_CONDITION_TYPES.contains(&kind));
        let mut conditions: Vec<Value> =
            own_conditions.iter().map(|condition| self.condition(condition, &before)).collect();
        conditions.extend(before.into_iter().filter(|it| !is_own(it)));
        set_list(holder, "conditions", conditions);
    }

    fn condition(self, condition: &Condition, before: &[Value]) -> Value {
        let status = if condition.holds { "True" } else { "False" };
        let same = |it: &&Value| it["type"] == condition.kind && it["status"] == status;
        let since = before.iter().find(same).and_then(|it| it["lastTransitionTime"].as_str());
        let mut written = json!({
            "type": condition.kind,
            "status": status,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": since.unwrap_or(self.now),
        });
        if let Some(generation) = self.generation {
            written["observedGeneration"] = json!(generation);
        }
        written
    }
}

fn list_field(object: &Map<String, Value>, field: &str) -> Vec<Value> {
    object.get(field).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Omits an empty list.
fn set_list(object: &mut Map<String, Value>, field: &str, list: Vec<Value>) {
    match list.is_empty() {
        true => drop(object.remove(field)),
        false => drop(object.insert(field.to_owned(), Value::Array(list))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Fault;

    const NOW: i64 = 1_767_225_600;

    fn of_route(conditions: Vec<Condition>) -> ObjectStatus {
        let parent = Arc::new(ParentReference { name: "edge".into(), ..ParentReference::default() });
        let metadata = ObjectMeta { generation: Some(3), ..ObjectMeta::default() };
        let status = OwnStatus::Route([ParentStatus { parent, conditions }].into());
        ObjectStatus::new(&metadata, &"fairway.dev/gateway-controller".into(), status)
    }

    fn accepted() -> Condition {
        Condition::met("Accepted", "Accepted", "")
    }

    #[test]
    fn the_status_of_a_route_is_small() {
        assert!(size_of::<ObjectStatus>() <= 88, "{}", size_of::<ObjectStatus>());
    }

    #[test]
    fn an_unchanged_status_is_not_written_again() {
        let status = of_route(vec![accepted()]);
        let written = status.merged(&Value::Null, NOW).unwrap();
        assert_eq!(written["parents"][0]["conditions"][0]["observedGeneration"], 3);
        assert_eq!(written["parents"][0]["conditions"][0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert_eq!(status.merged(&written, NOW + 5), None);
    }

    #[test]
    fn entries_and_conditions_of_others_stay_as_they_are() {
        let foreign = json!({"parentRef": {"name": "edge"}, "controllerName": "other", "more": [1]});
        let condition = json!({"type": "example.com/Seen", "status": "True", "anything": {}});
        let own_status = json!({
            "parentRef": {"name": "edge"},
            "controllerName": "fairway.dev/gateway-controller",
            "conditions": [condition],
        });
        let existing = json!({"parents": [foreign, own_status], "extra": 7});
        let written = of_route(vec![accepted()]).merged(&existing, NOW).unwrap();
        assert_eq!((&written["parents"][0], &written["extra"]), (&foreign, &json!(7)));
        assert_eq!(written["parents"][1]["conditions"][1], condition);
        let none = ObjectStatus { own_status: OwnStatus::Route(Arc::default()), ..of_route(Vec::new()) };
        assert_eq!(none.merged(&written, NOW).unwrap()["parents"], json!([foreign]));
    }

    #[test]
    fn entries_for_which_there_is_no_room_are_left_out() {
        let ancestor = |name: usize| ParentStatus {
            parent: Arc::new(ParentReference { name: name.to_string(), ..ParentReference::default() }),
            conditions: vec![accepted()],
        };
        let own_status = OwnStatus::Policy((0..10).map(ancestor).collect());
        let status = ObjectStatus { own_status, ..of_route(Vec::new()) };
        let foreign = |name: usize| json!({"ancestorRef": {"name": name}, "controllerName": "other"});
        let existing = json!({"ancestors": (0..9).map(foreign).collect::<Vec<_>>()});
        let written = status.merged(&existing, NOW).unwrap();
        let ancestors = written["ancestors"].as_array().unwrap();
        assert_eq!((ancestors.len(), &ancestors[..9]), (16, &existing["ancestors"].as_array().unwrap()[..]));
        assert_eq!(status.merged(&written, NOW + 5), None);
    }

    #[test]
    fn a_condition_changes_its_time_only_with_its_status() {
        let written = of_route(vec![accepted()]).merged(&Value::Null, NOW).unwrap();
        let other = of_route(vec![Condition::met("Accepted", "Accepted", "better")]);
        let written = other.merged(&written, NOW + 5).unwrap();
        assert_eq!(written["parents"][0]["conditions"][0]["lastTransitionTime"], "2026-01-01T00:00:00Z");
        let fault = Fault::new("NoMatchingParent", "");
        let lost = of_route(vec![Condition::unmet("Accepted", &fault)]);
        let written = lost.merged(&written, NOW + 5).unwrap();
        assert_eq!(written["parents"][0]["conditions"][0]["lastTransitionTime"], "2026-01-01T00:00:05Z");
    }

    #[test]
    fn a_removed_listener_disappears_from_the_status() {
        let listener = |name: &str| ListenerStatus {
            name: name.into(),
            kinds: vec![Kind::HttpRoute],
            attached_routes: 1,
            conditions: vec![accepted()],
        };
        let status_of = |listeners| {
            let gateway = GatewayStatus { listeners, ..GatewayStatus::default() };
            ObjectStatus::new(&ObjectMeta::default(), &"c".into(), OwnStatus::Gateway(Box::new(gateway)))
        };
        let both = status_of(vec![listener("a"), listener("b")]).merged(&Value::Null, NOW).unwrap();
        let single_listener = status_of(vec![listener("b")]).merged(&both, NOW).unwrap();
        assert_eq!(single_listener["listeners"].as_array().unwrap().len(), 1);
        assert_eq!(single_listener["listeners"][0]["supportedKinds"][0]["kind"], "HTTPRoute");
    }
}
