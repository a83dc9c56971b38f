//! The tracker alone, event by event: a watch and a response report one Secret in every order.

use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::harness::{ingress, secret, texts};
use crate::source::collection::Collection;
use crate::source::selection::{Selection, ServeGateways};
use crate::source::tracker::{Action, Tracker};
use crate::source::trimmed::{IngressWire, Item, SecretWire, Wire};
use crate::source::watch::{WatchEvent, WatchId, WatchReport};

/// A tracker whose actions are recorded.
struct Fixture {
    tracker: Tracker,
    actions: Vec<Action>,
}

impl Fixture {
    /// With complete, empty lists of everything except Ingresses.
    fn new() -> Self {
        let selection = Selection { gateways: ServeGateways::No, ..Selection::default() };
        let mut fixture = Self { tracker: Tracker::new(selection), actions: Vec::new() };
        fixture.note();
        for kind in [Kind::IngressClass, Kind::Service, Kind::EndpointSlice] {
            fixture.take(fixture.watch(kind), WatchEvent::ListStarted);
            fixture.take(fixture.watch(kind), WatchEvent::ListCompleted("1".to_owned()));
        }
        fixture.take(fixture.watch(Kind::Ingress), WatchEvent::ListStarted);
        fixture
    }

    /// With an Ingress that references the Secret `tls`, and was sent; `late` is not referenced.
    fn with_ingress() -> Self {
        let mut fixture = Self::new();
        fixture.name(1, "web", &["tls"]);
        fixture.take(fixture.watch(Kind::Ingress), WatchEvent::ListCompleted("1".to_owned()));
        let secrets = fixture.watch(Kind::Secret);
        fixture.take(secrets, WatchEvent::ListStarted);
        fixture.take(secrets, WatchEvent::Set(tls(2, "tls")));
        fixture.take(secrets, WatchEvent::Set(tls(3, "late")));
        fixture.take(secrets, WatchEvent::ListCompleted("10".to_owned()));
        assert_eq!(fixture.batch(), ["+Secret shop/tls", "+Ingress shop/web"]);
        fixture
    }

    /// References `late` by another Ingress and delivers the response to its request.
    fn with_fetched(version: u64) -> Self {
        let mut fixture = Self::with_ingress();
        fixture.name(11, "new", &["late"]);
        let (id, object) = fixture.fetch().unwrap();
        fixture.take(id, WatchEvent::Fetched(object, Ok(Some(Box::new(tls(version, "late"))))));
        assert_eq!(fixture.batch(), ["+Secret shop/late", "+Ingress shop/new"]);
        fixture
    }

    fn name(&mut self, version: u64, name: &str, secrets: &[&str]) {
        let item = serde_json::from_value::<IngressWire>(versioned(ingress("shop", name, secrets), version));
        self.take(self.watch(Kind::Ingress), WatchEvent::Set(item.unwrap().trim()));
    }

    fn take(&mut self, id: WatchId, event: WatchEvent) {
        self.tracker.handle_report(WatchReport { id, at: Instant::now(), event });
        self.note();
    }

    fn note(&mut self) {
        self.actions.extend(self.tracker.take_actions());
    }

    fn batch(&mut self) -> Vec<String> {
        let batch = self.tracker.take_batch(Instant::now());
        self.note();
        batch.map(|batch| texts(&batch.changes)).unwrap_or_default()
    }

    /// The watch of a kind, if it was started.
    fn ordered(&self, kind: Kind) -> Option<WatchId> {
        self.actions.iter().find_map(|order| match order {
            Action::Watch(id, Collection { kind: of, .. }) if of.kind() == Some(kind) => Some(*id),
            _ => None,
        })
    }

    fn watch(&self, kind: Kind) -> WatchId {
        self.ordered(kind).unwrap()
    }

    fn fetch(&self) -> Option<(WatchId, ObjectRef)> {
        self.actions.iter().find_map(|order| match order {
            Action::Fetch(id, _, object) => Some((*id, object.clone())),
            _ => None,
        })
    }
}

fn versioned(mut object: Value, version: u64) -> Value {
    object["metadata"]["uid"] = json!("u");
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    object
}

fn tls(version: u64, name: &str) -> Item {
    serde_json::from_value::<SecretWire>(versioned(secret("shop", name), version)).unwrap().trim()
}

#[test]
fn secrets_are_listed_once_their_references_are_known() {
    let mut fixture = Fixture::new();
    fixture.name(1, "web", &["tls"]);
    assert_eq!(fixture.ordered(Kind::Secret), None);
    fixture.take(fixture.watch(Kind::Ingress), WatchEvent::ListCompleted("1".to_owned()));
    assert!(fixture.ordered(Kind::Secret).is_some());
}

#[test]
fn a_secret_referenced_during_its_list_is_fetched() {
    let mut fixture = Fixture::new();
    fixture.name(1, "web", &["tls"]);
    fixture.take(fixture.watch(Kind::Ingress), WatchEvent::ListCompleted("1".to_owned()));
    let secrets = fixture.watch(Kind::Secret);
    fixture.take(secrets, WatchEvent::ListStarted);
    fixture.take(secrets, WatchEvent::Set(tls(3, "late")));
    fixture.name(4, "new", &["late"]);
    assert_eq!(fixture.fetch(), None);
    fixture.take(secrets, WatchEvent::ListCompleted("5".to_owned()));
    let late = ObjectRef::new(Kind::Secret, ObjectKey::new("shop", "late"));
    assert_eq!(fixture.fetch(), Some((secrets, late.clone())));
    fixture.take(secrets, WatchEvent::Fetched(late, Ok(Some(Box::new(tls(3, "late"))))));
    assert_eq!(fixture.batch(), ["+Secret shop/late", "+Ingress shop/new", "+Ingress shop/web"]);
}

#[test]
fn a_watch_behind_a_response_reverts_nothing() {
    let mut fixture = Fixture::with_fetched(20);
    let secrets = fixture.watch(Kind::Secret);
    fixture.take(secrets, WatchEvent::Set(tls(15, "late")));
    fixture.take(secrets, WatchEvent::Gone(tls(16, "late")));
    assert!(fixture.batch().is_empty());
    fixture.take(secrets, WatchEvent::Set(tls(20, "late")));
    assert!(fixture.batch().is_empty());
    fixture.take(secrets, WatchEvent::Set(tls(21, "late")));
    assert_eq!(fixture.batch(), ["+Secret shop/late"]);
    fixture.take(secrets, WatchEvent::Gone(tls(22, "late")));
    assert_eq!(fixture.batch(), ["-Secret shop/late"]);
}

#[test]
fn only_a_list_newer_than_a_response_removes_its_object() {
    let mut fixture = Fixture::with_fetched(20);
    let secrets = fixture.watch(Kind::Secret);
    for (version, changes) in [("15", vec![]), ("25", vec!["-Secret shop/late"])] {
        fixture.take(secrets, WatchEvent::ListStarted);
        fixture.take(secrets, WatchEvent::Set(tls(2, "tls")));
        fixture.take(secrets, WatchEvent::ListCompleted(version.to_owned()));
        assert_eq!(fixture.batch(), changes);
    }
}

#[test]
fn an_event_takes_precedence_over_a_later_response() {
    let mut fixture = Fixture::with_ingress();
    fixture.name(11, "new", &["late"]);
    let (id, late) = fixture.fetch().unwrap();
    fixture.take(id, WatchEvent::Gone(tls(12, "late")));
    assert_eq!(fixture.batch(), ["+Ingress shop/new"]);
    fixture.take(id, WatchEvent::Fetched(late, Ok(Some(Box::new(tls(3, "late"))))));
    assert!(fixture.batch().is_empty());
}
