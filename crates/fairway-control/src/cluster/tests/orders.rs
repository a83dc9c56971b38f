//! The ledger alone, news by news: what a watch and an answer tell of one Secret in every order.

use fairway_translate::{Kind, ObjectKey, ObjectRef};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::scene::{ingress, secret, texts};
use crate::cluster::collection::{Collection, Watched};
use crate::cluster::ledger::{Ledger, Order};
use crate::cluster::selection::Selection;
use crate::cluster::trimmed::{IngressWire, Item, SecretWire, Wire};
use crate::cluster::watch::{News, Told, WatchId};

/// A ledger whose orders are noted.
struct Desk {
    ledger: Ledger,
    orders: Vec<Order>,
}

impl Desk {
    /// With complete and empty lists of everything but the Ingresses.
    fn new() -> Self {
        let mut desk = Self { ledger: Ledger::new(Selection::default()), orders: Vec::new() };
        desk.note();
        for kind in [Watched::IngressClass, Watched::Service, Watched::EndpointSlice] {
            desk.take(desk.watch(kind), News::Began);
            desk.take(desk.watch(kind), News::Complete("1".to_owned()));
        }
        desk.take(desk.watch(Watched::Ingress), News::Began);
        desk
    }

    /// One that has told an Ingress with the Secret `tls`, while `late` is not named.
    fn told() -> Self {
        let mut desk = Self::new();
        desk.name(1, "web", &["tls"]);
        desk.take(desk.watch(Watched::Ingress), News::Complete("1".to_owned()));
        let secrets = desk.watch(Watched::Secret);
        desk.take(secrets, News::Began);
        desk.take(secrets, News::Set(tls(2, "tls")));
        desk.take(secrets, News::Set(tls(3, "late")));
        desk.take(secrets, News::Complete("10".to_owned()));
        assert_eq!(desk.batch(), ["+Secret shop/tls", "+Ingress shop/web"]);
        desk
    }

    /// Names `late` by another Ingress and answers the question for it.
    fn with_fetched(version: u64) -> Self {
        let mut desk = Self::told();
        desk.name(11, "new", &["late"]);
        let (id, object) = desk.fetch().unwrap();
        desk.take(id, News::Fetched(object, Ok(Some(Box::new(tls(version, "late"))))));
        assert_eq!(desk.batch(), ["+Secret shop/late", "+Ingress shop/new"]);
        desk
    }

    fn name(&mut self, version: u64, name: &str, secrets: &[&str]) {
        let item = serde_json::from_value::<IngressWire>(versioned(ingress("shop", name, secrets), version));
        self.take(self.watch(Watched::Ingress), News::Set(item.unwrap().trim()));
    }

    fn take(&mut self, id: WatchId, news: News) {
        self.ledger.take(Told { id, at: Instant::now(), news });
        self.note();
    }

    fn note(&mut self) {
        self.orders.extend(self.ledger.orders());
    }

    fn batch(&mut self) -> Vec<String> {
        let batch = self.ledger.batch(Instant::now());
        self.note();
        batch.map(|batch| texts(&batch.changes)).unwrap_or_default()
    }

    /// The watch of a kind, if it was ordered.
    fn ordered(&self, kind: Watched) -> Option<WatchId> {
        self.orders.iter().find_map(|order| match order {
            Order::Watch(id, Collection { kind: of, .. }) if *of == kind => Some(*id),
            _ => None,
        })
    }

    fn watch(&self, kind: Watched) -> WatchId {
        self.ordered(kind).unwrap()
    }

    fn fetch(&self) -> Option<(WatchId, ObjectRef)> {
        self.orders.iter().find_map(|order| match order {
            Order::Fetch(id, _, object) => Some((*id, object.clone())),
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
    let mut desk = Desk::new();
    desk.name(1, "web", &["tls"]);
    assert_eq!(desk.ordered(Watched::Secret), None);
    desk.take(desk.watch(Watched::Ingress), News::Complete("1".to_owned()));
    assert!(desk.ordered(Watched::Secret).is_some());
}

#[test]
fn a_secret_that_is_named_while_its_list_is_on_the_way_is_asked_for() {
    let mut desk = Desk::new();
    desk.name(1, "web", &["tls"]);
    desk.take(desk.watch(Watched::Ingress), News::Complete("1".to_owned()));
    let secrets = desk.watch(Watched::Secret);
    desk.take(secrets, News::Began);
    desk.take(secrets, News::Set(tls(3, "late")));
    desk.name(4, "new", &["late"]);
    assert_eq!(desk.fetch(), None);
    desk.take(secrets, News::Complete("5".to_owned()));
    let late = ObjectRef::new(Kind::Secret, ObjectKey::new("shop", "late"));
    assert_eq!(desk.fetch(), Some((secrets, late.clone())));
    desk.take(secrets, News::Fetched(late, Ok(Some(Box::new(tls(3, "late"))))));
    assert_eq!(desk.batch(), ["+Secret shop/late", "+Ingress shop/new", "+Ingress shop/web"]);
}

#[test]
fn a_watch_that_is_behind_an_answer_takes_nothing_back() {
    let mut desk = Desk::with_fetched(20);
    let secrets = desk.watch(Watched::Secret);
    desk.take(secrets, News::Set(tls(15, "late")));
    desk.take(secrets, News::Gone(tls(16, "late")));
    assert!(desk.batch().is_empty());
    desk.take(secrets, News::Set(tls(20, "late")));
    assert!(desk.batch().is_empty());
    desk.take(secrets, News::Set(tls(21, "late")));
    assert_eq!(desk.batch(), ["+Secret shop/late"]);
    desk.take(secrets, News::Gone(tls(22, "late")));
    assert_eq!(desk.batch(), ["-Secret shop/late"]);
}

#[test]
fn a_list_from_before_an_answer_removes_nothing_and_one_from_after_it_does() {
    let mut desk = Desk::with_fetched(20);
    let secrets = desk.watch(Watched::Secret);
    for (version, told) in [("15", vec![]), ("25", vec!["-Secret shop/late"])] {
        desk.take(secrets, News::Began);
        desk.take(secrets, News::Set(tls(2, "tls")));
        desk.take(secrets, News::Complete(version.to_owned()));
        assert_eq!(desk.batch(), told);
    }
}

#[test]
fn an_event_is_worth_more_than_an_answer_that_comes_after_it() {
    let mut desk = Desk::told();
    desk.name(11, "new", &["late"]);
    let (id, late) = desk.fetch().unwrap();
    desk.take(id, News::Gone(tls(12, "late")));
    assert_eq!(desk.batch(), ["+Ingress shop/new"]);
    desk.take(id, News::Fetched(late, Ok(Some(Box::new(tls(3, "late"))))));
    assert!(desk.batch().is_empty());
}
