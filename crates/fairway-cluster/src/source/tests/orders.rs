//! The tracker alone, event by event: what a watch and an answer tell of one Secret in every order.

use fairway_objects::object::{Kind, ObjectKey, ObjectRef};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::harness::{ingress, secret, texts};
use crate::source::collection::Collection;
use crate::source::selection::{Selection, ServeGateways};
use crate::source::tracker::{Action, Tracker};
use crate::source::trimmed::{IngressWire, Item, SecretWire, Wire};
use crate::source::watch::{WatchEvent, WatchId, WatchReport};

/// A tracker whose actions are noted.
struct Fixture {
    tracker: Tracker,
    actions: Vec<Action>,
}

impl Fixture {
    /// With complete and empty lists of everything but the Ingresses.
    fn new() -> Self {
        let selection = Selection { gateways: ServeGateways::No, ..Selection::default() };
        let mut fixture = Self { tracker: Tracker::new(selection), actions: Vec::new() };
        fixture.note();
        for kind in [Kind::IngressClass, Kind::Service, Kind::EndpointSlice] {
            fixture.take(fixture.watch(kind), WatchEvent::Began);
            fixture.take(fixture.watch(kind), WatchEvent::Complete("1".to_owned()));
        }
        fixture.take(fixture.watch(Kind::Ingress), WatchEvent::Began);
        fixture
    }

    /// One that has passed on an Ingress with the Secret `tls`, while `late` is not named.
    fn with_ingress() -> Self {
        let mut fixture = Self::new();
        fixture.name(1, "web", &["tls"]);
        fixture.take(fixture.watch(Kind::Ingress), WatchEvent::Complete("1".to_owned()));
        let secrets = fixture.watch(Kind::Secret);
        fixture.take(secrets, WatchEvent::Began);
        fixture.take(secrets, WatchEvent::Set(tls(2, "tls")));
        fixture.take(secrets, WatchEvent::Set(tls(3, "late")));
        fixture.take(secrets, WatchEvent::Complete("10".to_owned()));
        assert_eq!(fixture.batch(), ["+Secret shop/tls", "+Ingress shop/web"]);
        fixture
    }

    /// Names `late` by another Ingress and answers the question for it.
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
        self.tracker.take(WatchReport { id, at: Instant::now(), event });
        self.note();
    }

    fn note(&mut self) {
        self.actions.extend(self.tracker.actions());
    }

    fn batch(&mut self) -> Vec<String> {
        let batch = self.tracker.batch(Instant::now());
        self.note();
        batch.map(|batch| texts(&batch.changes)).unwrap_or_default()
    }

    /// The watch of a kind, if it was ordered.
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
fn secrets_are_listed_once_it_is_known_which_are_named() {
    let mut fixture = Fixture::new();
    fixture.name(1, "web", &["tls"]);
    assert_eq!(fixture.ordered(Kind::Secret), None);
    fixture.take(fixture.watch(Kind::Ingress), WatchEvent::Complete("1".to_owned()));
    assert!(fixture.ordered(Kind::Secret).is_some());
}

#[test]
fn a_secret_that_is_named_while_its_list_is_on_the_way_is_asked_for() {
    let mut fixture = Fixture::new();
    fixture.name(1, "web", &["tls"]);
    fixture.take(fixture.watch(Kind::Ingress), WatchEvent::Complete("1".to_owned()));
    let secrets = fixture.watch(Kind::Secret);
    fixture.take(secrets, WatchEvent::Began);
    fixture.take(secrets, WatchEvent::Set(tls(3, "late")));
    fixture.name(4, "new", &["late"]);
    assert_eq!(fixture.fetch(), None);
    fixture.take(secrets, WatchEvent::Complete("5".to_owned()));
    let late = ObjectRef::new(Kind::Secret, ObjectKey::new("shop", "late"));
    assert_eq!(fixture.fetch(), Some((secrets, late.clone())));
    fixture.take(secrets, WatchEvent::Fetched(late, Ok(Some(Box::new(tls(3, "late"))))));
    assert_eq!(fixture.batch(), ["+Secret shop/late", "+Ingress shop/new", "+Ingress shop/web"]);
}

#[test]
fn a_watch_that_is_behind_an_answer_takes_nothing_back() {
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
fn a_list_from_before_an_answer_removes_nothing_and_one_from_after_it_does() {
    let mut fixture = Fixture::with_fetched(20);
    let secrets = fixture.watch(Kind::Secret);
    for (version, changes) in [("15", vec![]), ("25", vec!["-Secret shop/late"])] {
        fixture.take(secrets, WatchEvent::Began);
        fixture.take(secrets, WatchEvent::Set(tls(2, "tls")));
        fixture.take(secrets, WatchEvent::Complete(version.to_owned()));
        assert_eq!(fixture.batch(), changes);
    }
}

#[test]
fn an_event_is_worth_more_than_an_answer_that_comes_after_it() {
    let mut fixture = Fixture::with_ingress();
    fixture.name(11, "new", &["late"]);
    let (id, late) = fixture.fetch().unwrap();
    fixture.take(id, WatchEvent::Gone(tls(12, "late")));
    assert_eq!(fixture.batch(), ["+Ingress shop/new"]);
    fixture.take(id, WatchEvent::Fetched(late, Ok(Some(Box::new(tls(3, "late"))))));
    assert!(fixture.batch().is_empty());
}
