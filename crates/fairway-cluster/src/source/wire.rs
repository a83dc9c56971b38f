//! Lists and watches as requests: a page of objects, or a stream of what happens to them. Owns time limits of requests
//! and the reading of answers; never retries and keeps nothing.

use std::pin::Pin;
use std::time::Duration;

use fairway_objects::kinds::Kind;
use fairway_objects::slice::SliceForm;
use fairway_objects::with_custom_resource;
use futures_util::{FutureExt, Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{ListParams, Request, WatchEvent, WatchParams};
use serde::Deserialize;

use super::collection::{Collection, Watched};
use super::fault::Fault;
use super::trimmed::{
    ConfigMapWire, IngressClassWire, IngressWire, Item, LabelledNamespaceWire, Meta, NamespaceWire, PodWire,
    SecretWire, ServiceWire, WholeWire, Wire,
};
use super::trimmed_gateways::GatewayWire;

/// Objects in a page of a list.
const PAGE: u32 = 500;
/// A page is there, whole, within this time.
const PAGE_TIME: Duration = Duration::from_secs(30);
/// The head of the answer to a watch is there within this time. The server sends it at once; one with too much to do
/// queues requests for a while (API Priority and Fairness).
const HEAD_TIME: Duration = Duration::from_secs(15);
/// The server ends a watch after this many seconds; the next one continues where it was.
const WATCH_SECONDS: u32 = 280;

/// A part of a list.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) items: Vec<Item>,
    /// The state of the collection that it shows.
    pub(super) version: String,
    /// How to ask for the rest.
    pub(super) rest: Option<String>,
}

/// What a watch says.
#[derive(Debug)]
pub(super) enum Event {
    /// The object is new or different.
    Set(Item),
    /// The object is gone.
    Gone(Item),
    /// Nothing else happened up to this version.
    Bookmark(String),
    /// All objects were sent; this is their version.
    Complete(String),
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum From<'a> {
    /// With all objects.
    Everything,
    /// After a version.
    Version(&'a str),
}

/// The events of a watch.
pub(super) type Events = Pin<Box<dyn Stream<Item = Result<Event, Fault>> + Send>>;

/// Evaluates an expression in which `$wire` is the form that objects of the kind have on the wire.
macro_rules! with_wire {
    ($watched:expr, $wire:ident => $asked:expr) => {
        with_wire!(@ $watched, $wire, $asked;
            Watched::Selection = NamespaceWire,
            Watched::Objects(Kind::Ingress) = IngressWire,
            Watched::Objects(Kind::IngressClass) = IngressClassWire,
            Watched::Objects(Kind::Service) = ServiceWire,
            Watched::Objects(Kind::EndpointSlice) = SliceForm<Meta>,
            Watched::Objects(Kind::Pod) = PodWire,
            Watched::Objects(Kind::Secret) = SecretWire,
            Watched::Objects(Kind::ConfigMap) = ConfigMapWire,
            Watched::Objects(Kind::Namespace) = LabelledNamespaceWire,
            Watched::Whole(Kind::ConfigMap) = WholeWire<ConfigMap>,
            Watched::Whole(Kind::EndpointSlice) = WholeWire<EndpointSlice>,
            Watched::Whole(Kind::Pod) = WholeWire<Pod>,
            Watched::Whole(Kind::Secret) = WholeWire<Secret>,
            Watched::Whole(Kind::Service) = WholeWire<Service>
        )
    };
    (@ $watched:expr, $wire:ident, $asked:expr; $($kubernetes:pat = $form:ty),*) => {
        match $watched {
            $($kubernetes => {
                type $wire = $form;
                $asked
            })*
            Watched::Objects(kind) | Watched::Whole(kind) => with_custom_resource!(kind, K => {
                type $wire = GatewayWire<K>;
                $asked
            }, _ => async { Err(Fault::NoSuchApi) }.boxed()),
        }
    };
}

/// A page of the list; `rest` is what the page before said.
pub(super) async fn page(
    client: &Client,
    collection: &Collection,
    rest: Option<String>,
) -> Result<Page, Fault> {
    let asked = with_wire!(collection.kind, W => page_of::<W>(client, collection, rest).boxed());
    within(PAGE_TIME, "a list", asked).await
}

/// All objects of the list, which is of one state whatever happens meanwhile.
pub(super) async fn list(client: &Client, collection: &Collection) -> Result<Page, Fault> {
    let mut whole = page(client, collection, None).await?;
    while let Some(rest) = whole.rest.take() {
        let more = page(client, collection, Some(rest)).await?;
        whole.items.extend(more.items);
        whole.rest = more.rest;
        if !more.version.is_empty() {
            whole.version = more.version;
        }
    }
    Ok(whole)
}

/// Opens a watch.
pub(super) async fn watch(client: &Client, collection: &Collection, from: From<'_>) -> Result<Events, Fault> {
    let asked = with_wire!(collection.kind, W => watch_of::<W>(client, collection, from).boxed());
    within(HEAD_TIME, "a watch", asked).await
}

async fn within<T>(
    limit: Duration,
    what: &str,
    asked: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    match tokio::time::timeout(limit, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(Fault::Unreachable(format!("{what} was not answered within {} s", limit.as_secs()))),
    }
}

#[derive(Deserialize)]
struct ListWire<W> {
    metadata: ListMetaWire,
    /// Go writes an empty list as null.
    items: Option<Vec<W>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetaWire {
    resource_version: String,
    r#continue: Option<String>,
}

async fn page_of<W: Wire>(
    client: &Client,
    collection: &Collection,
    rest: Option<String>,
) -> Result<Page, Fault> {
    let parameters = ListParams {
        label_selector: collection.labels.as_deref().map(str::to_owned),
        field_selector: collection.fields(),
        limit: Some(PAGE),
        continue_token: rest,
        ..ListParams::default()
    };
    let request = Request::new(collection.path()).list(&parameters);
    let request = request.map_err(|error| Fault::Unreadable(error.to_string()))?;
    let list: ListWire<W> = client.request(request).await.map_err(|error| Fault::of(&error))?;
    Ok(Page {
        items: list.items.unwrap_or_default().into_iter().map(Wire::trim).collect(),
        version: list.metadata.resource_version,
        rest: list.metadata.r#continue.filter(|rest| !rest.is_empty()),
    })
}

async fn watch_of<W: Wire>(
    client: &Client,
    collection: &Collection,
    from: From<'_>,
) -> Result<Events, Fault> {
    let (everything, version) = match from {
        From::Everything => (true, ""),
        From::Version(version) => (false, version),
    };
    let parameters = WatchParams {
        label_selector: collection.labels.as_deref().map(str::to_owned),
        field_selector: collection.fields(),
        timeout: Some(WATCH_SECONDS),
        bookmarks: true,
        send_initial_events: everything,
    };
    let request = Request::new(collection.path()).watch(&parameters, version);
    let request = request.map_err(|error| Fault::Unreadable(error.to_string()))?;
    let events = client.request_events::<W>(request).await.map_err(|error| Fault::of(&error))?;
    let events = events.map(|event| match event {
        Ok(event) => read(event),
        Err(error) => Err(Fault::of(&error)),
    });
    Ok(events.boxed())
}

fn read<W: Wire>(event: WatchEvent<W>) -> Result<Event, Fault> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => Ok(Event::Set(object.trim())),
        WatchEvent::Deleted(object) => Ok(Event::Gone(object.trim())),
        WatchEvent::Bookmark(bookmark) => {
            let version = bookmark.metadata.resource_version;
            // API concepts, "Streaming lists": this bookmark ends the list.
            let complete = bookmark.metadata.annotations.contains_key("k8s.io/initial-events-end");
            Ok(if complete { Event::Complete(version) } else { Event::Bookmark(version) })
        }
        WatchEvent::Error(status) => Err(Fault::status(&status)),
    }
}
