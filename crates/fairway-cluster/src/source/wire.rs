//! Requests for lists and watches: a page of objects, or a stream of events. Owns request timeouts and decoding; never retries
//! and keeps nothing.

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

use super::collection::{Collection, WatchedKind};
use super::fault::Fault;
use super::trimmed::{
    ConfigMapWire, IngressClassWire, IngressWire, Item, LabelledNamespaceWire, Meta, NamespaceWire, PodWire,
    SecretWire, ServiceWire, WholeWire, Wire,
};
use super::trimmed_gateways::GatewayWire;

/// Objects per page of a list.
const PAGE_SIZE: u32 = 500;
/// Timeout for a complete page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for the response head of a watch. The server sends it at once; an overloaded one queues requests (API Priority and
/// Fairness).
const WATCH_OPEN_TIMEOUT: Duration = Duration::from_secs(15);
/// The server ends a watch after this many seconds; the next one resumes.
const WATCH_DURATION_SECONDS: u32 = 280;

/// A page of a list.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) items: Vec<Item>,
    /// The version of the collection.
    pub(super) version: String,
    /// Continues the list on the next page.
    pub(super) continue_token: Option<String>,
}

/// An event of a watch.
#[derive(Debug)]
pub(super) enum Event {
    /// The object was added or changed.
    Set(Item),
    /// The object was removed.
    Gone(Item),
    /// Nothing else happened up to this version.
    Bookmark(String),
    /// All objects were sent; this is their version.
    Complete(String),
}

/// Where a watch starts.
#[derive(Clone, Copy, Debug)]
pub(super) enum StartFrom<'a> {
    /// With all objects.
    Everything,
    /// After a version.
    Version(&'a str),
}

/// The events of a watch.
pub(super) type Events = Pin<Box<dyn Stream<Item = Result<Event, Fault>> + Send>>;

/// Evaluates an expression in which `$wire` is the wire format of the kind.
macro_rules! with_wire {
    ($watched:expr, $wire:ident => $asked:expr) => {
        with_wire!(@ $watched, $wire, $asked;
            WatchedKind::NamespaceNames = NamespaceWire,
            WatchedKind::Objects(Kind::Ingress) = IngressWire,
            WatchedKind::Objects(Kind::IngressClass) = IngressClassWire,
            WatchedKind::Objects(Kind::Service) = ServiceWire,
            WatchedKind::Objects(Kind::EndpointSlice) = SliceForm<Meta>,
            WatchedKind::Objects(Kind::Pod) = PodWire,
            WatchedKind::Objects(Kind::Secret) = SecretWire,
            WatchedKind::Objects(Kind::ConfigMap) = ConfigMapWire,
            WatchedKind::Objects(Kind::Namespace) = LabelledNamespaceWire,
            WatchedKind::Full(Kind::ConfigMap) = WholeWire<ConfigMap>,
            WatchedKind::Full(Kind::EndpointSlice) = WholeWire<EndpointSlice>,
            WatchedKind::Full(Kind::Pod) = WholeWire<Pod>,
            WatchedKind::Full(Kind::Secret) = WholeWire<Secret>,
            WatchedKind::Full(Kind::Service) = WholeWire<Service>
        )
    };
    (@ $watched:expr, $wire:ident, $asked:expr; $($kubernetes:pat = $form:ty),*) => {
        match $watched {
            $($kubernetes => {
                type $wire = $form;
                $asked
            })*
            WatchedKind::Objects(kind) | WatchedKind::Full(kind) => with_custom_resource!(kind, K => {
                type $wire = GatewayWire<K>;
                $asked
            }, _ => async { Err(Fault::NoSuchApi) }.boxed()),
        }
    };
}

/// A page of the list; `rest` is the continue token of the previous page.
pub(super) async fn fetch_page(
    client: &Client,
    collection: &Collection,
    rest: Option<String>,
) -> Result<Page, Fault> {
    let page = with_wire!(collection.kind, W => page_of::<W>(client, collection, rest).boxed());
    with_timeout(PAGE_TIMEOUT, "a list", page).await
}

/// All objects of the list, in one consistent state.
pub(super) async fn fetch_list(client: &Client, collection: &Collection) -> Result<Page, Fault> {
    let mut complete_list = fetch_page(client, collection, None).await?;
    while let Some(rest) = complete_list.continue_token.take() {
        let next_page = fetch_page(client, collection, Some(rest)).await?;
        complete_list.items.extend(next_page.items);
        complete_list.continue_token = next_page.continue_token;
        if !next_page.version.is_empty() {
            complete_list.version = next_page.version;
        }
    }
    Ok(complete_list)
}

/// Opens a watch.
pub(super) async fn open_watch(
    client: &Client,
    collection: &Collection,
    from: StartFrom<'_>,
) -> Result<Events, Fault> {
    let stream = with_wire!(collection.kind, W => watch_of::<W>(client, collection, from).boxed());
    with_timeout(WATCH_OPEN_TIMEOUT, "a watch", stream).await
}

async fn with_timeout<T>(
    limit: Duration,
    what: &str,
    asked: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    match tokio::time::timeout(limit, asked).await {
        Ok(answer) => answer,
        Err(_) => Err(Fault::Unreachable(format!("{what} timed out after {} s", limit.as_secs()))),
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
        field_selector: collection.field_selector(),
        limit: Some(PAGE_SIZE),
        continue_token: rest,
        ..ListParams::default()
    };
    let request = Request::new(collection.path()).list(&parameters);
    let request = request.map_err(|error| Fault::Unreadable(error.to_string()))?;
    let list: ListWire<W> = client.request(request).await.map_err(|error| Fault::from_error(&error))?;
    Ok(Page {
        items: list.items.unwrap_or_default().into_iter().map(Wire::trim).collect(),
        version: list.metadata.resource_version,
        continue_token: list.metadata.r#continue.filter(|rest| !rest.is_empty()),
    })
}

async fn watch_of<W: Wire>(
    client: &Client,
    collection: &Collection,
    from: StartFrom<'_>,
) -> Result<Events, Fault> {
    let (everything, version) = match from {
        StartFrom::Everything => (true, ""),
        StartFrom::Version(version) => (false, version),
    };
    let parameters = WatchParams {
        label_selector: collection.labels.as_deref().map(str::to_owned),
        field_selector: collection.field_selector(),
        timeout: Some(WATCH_DURATION_SECONDS),
        bookmarks: true,
        send_initial_events: everything,
    };
    let request = Request::new(collection.path()).watch(&parameters, version);
    let request = request.map_err(|error| Fault::Unreadable(error.to_string()))?;
    let events = client.request_events::<W>(request).await.map_err(|error| Fault::from_error(&error))?;
    let events = events.map(|event| match event {
        Ok(event) => decode_event(event),
        Err(error) => Err(Fault::from_error(&error)),
    });
    Ok(events.boxed())
}

fn decode_event<W: Wire>(event: WatchEvent<W>) -> Result<Event, Fault> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => Ok(Event::Set(object.trim())),
        WatchEvent::Deleted(object) => Ok(Event::Gone(object.trim())),
        WatchEvent::Bookmark(bookmark) => {
            let version = bookmark.metadata.resource_version;
            // API concepts, "Streaming lists": this bookmark ends the list.
            let complete = bookmark.metadata.annotations.contains_key("k8s.io/initial-events-end");
            Ok(if complete { Event::Complete(version) } else { Event::Bookmark(version) })
        }
        WatchEvent::Error(status) => Err(Fault::from_status(&status)),
    }
}
