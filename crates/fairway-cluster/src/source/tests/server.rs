//! An API server for tests: lists, pages, watches, selectors, resource versions, and faults on demand. Never decides what a
//! test expects.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::{Stream, StreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::{Request, Response, Uri};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::BoxError;

/// The server. A clone is the same one.
#[derive(Clone)]
pub(super) struct Server {
    state: Arc<Mutex<State>>,
    /// Rung after every change of the state.
    bell: watch::Sender<u64>,
}

#[derive(Default)]
pub(super) struct State {
    version: u64,
    objects: BTreeMap<Place, Value>,
    history: History,
    /// Resources and namespaces that are denied; an empty namespace for all.
    pub(super) denied: BTreeSet<(String, String)>,
    /// Resources whose lists fail with 500.
    pub(super) broken_lists: BTreeSet<String>,
    /// Resources that do not exist.
    pub(super) unknown: BTreeSet<String>,
    pub(super) crds: Crds,
    pub(super) line: Network,
    pub(super) lists: Listing,
    /// Minor version.
    pub(super) minor: u32,
    /// Every path with its query.
    pub(super) requests: Vec<String>,
    watches: Watches,
}

/// What is defined there.
#[derive(Default)]
pub(super) struct Crds {
    /// Of the Gateway API, as version and resource.
    pub(super) gateway: BTreeSet<(&'static str, &'static str)>,
    /// The same of Fairway's policies.
    pub(super) policies: BTreeSet<(&'static str, &'static str)>,
    /// The releases in their annotations, by the name of the CRD.
    pub(super) releases: BTreeMap<&'static str, Option<&'static str>>,
}

#[derive(Default)]
struct History {
    events: Vec<Event>,
    /// Watches from before this version are answered with 410.
    oldest: u64,
}

/// Watches by their number.
#[derive(Default)]
struct Watches {
    begun: u64,
    /// Up to this one they say nothing any more.
    stalled: u64,
    /// Up to this one they are closed.
    closed: u64,
}

/// How requests fare.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Network {
    #[default]
    Up,
    /// They fail at once.
    Refusing,
    /// Nothing comes back.
    Silent,
}

/// Whether lists are sent as streams.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Listing {
    #[default]
    Streams,
    /// Such streams never say that they are complete.
    NeverComplete,
    /// With this status: 422 where a feature gate is off, 500 where etcd is too old.
    RefusesStreams(u16),
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/";

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Resource, namespace and name.
type Place = (String, String, String);

#[derive(Clone)]
struct Event {
    version: u64,
    place: Place,
    before: Option<Value>,
    after: Option<Value>,
}

/// What a request is about.
#[derive(Clone)]
struct Query {
    resource: String,
    namespace: String,
    parameters: BTreeMap<String, String>,
}

impl Server {
    pub(super) fn new() -> Self {
        let state = State { version: 10, minor: 36, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)), bell: watch::channel(0).0 }
    }

    pub(super) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { server.answer(request.uri().clone()).await }
        });
        Client::new(service, "default")
    }

    /// Changes what the server does.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let done = change(&mut self.lock());
        self.bell.send_modify(|rings| *rings += 1);
        done
    }

    /// Creates or replaces an object.
    pub(super) fn put(&self, resource: &str, mut object: Value) {
        self.with(|state| {
            state.version += 1;
            let version = state.version;
            let place = place(resource, &object);
            let before = state.objects.get(&place).cloned();
            let uid =
                before.as_ref().map_or(json!(format!("u{version}")), |old| old["metadata"]["uid"].clone());
            object["metadata"]["uid"] = uid;
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            state.objects.insert(place.clone(), object.clone());
            state.history.events.push(Event { version, place, before, after: Some(object) });
        });
    }

    pub(super) fn delete(&self, resource: &str, namespace: &str, name: &str) {
        self.with(|state| {
            let place = (resource.to_owned(), namespace.to_owned(), name.to_owned());
            if let Some(before) = state.objects.remove(&place) {
                state.version += 1;
                state.history.events.push(Event {
                    version: state.version,
                    place,
                    before: Some(before),
                    after: None,
                });
            }
        });
    }

    /// Closes all watches, which then find that what they know is too old.
    pub(super) fn forget_history(&self) {
        self.with(|state| {
            state.version += 1;
            state.history.oldest = state.version;
            state.watches.closed = state.watches.begun;
        });
    }

    /// Closes all watches.
    pub(super) fn close_watches(&self) {
        self.with(|state| state.watches.closed = state.watches.begun);
    }

    /// From now on the watches that are open say nothing.
    pub(super) fn stall_watches(&self) {
        self.with(|state| state.watches.stalled = state.watches.begun);
    }

    /// The requests whose text contains this.
    pub(super) fn requests(&self, part: &str) -> usize {
        self.lock().requests.iter().filter(|request| request.contains(part)).count()
    }

    /// Names of the objects of a resource as `namespace/name@version`.
    pub(super) fn names(&self, resource: &str) -> BTreeSet<String> {
        let state = self.lock();
        let of_resource = state.objects.iter().filter(|((it, _, _), _)| it == resource);
        let text =
            |value: &Value| value["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        of_resource
            .map(|((_, namespace, name), value)| format!("{namespace}/{name}@{}", text(value)))
            .collect()
    }

    /// The Secrets, as `namespace/name`, that Ingresses of these classes name.
    pub(super) fn named_secrets(&self, served: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let state = self.lock();
        let mut named = BTreeSet::new();
        for ((_, namespace, _), ingress) in state.objects.iter().filter(|((it, _, _), _)| it == "ingresses") {
            if served(ingress["spec"]["ingressClassName"].as_str().unwrap_or_default()) {
                let tls = ingress["spec"]["tls"].as_array().into_iter().flatten();
                named.extend(
                    tls.filter_map(|tls| Some(format!("{namespace}/{}", tls["secretName"].as_str()?))),
                );
            }
        }
        named
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn answer(&self, uri: Uri) -> Result<Answer, BoxError> {
        let line = {
            let mut state = self.lock();
            state.requests.push(uri.to_string());
            state.line
        };
        match line {
            Network::Up => {}
            Network::Refusing => return Err("connection refused".into()),
            // A request that got lost in a black hole stays lost.
            Network::Silent => std::future::pending::<()>().await,
        }
        if uri.path() == "/readyz" {
            return Ok(whole("ok".to_owned()));
        }
        if uri.path() == "/version" {
            let minor = self.lock().minor;
            let version =
                json!({ "major": "1", "minor": minor.to_string(), "gitVersion": format!("v1.{minor}.0") });
            return Ok(whole(version.to_string()));
        }
        if let Some(name) = uri.path().strip_prefix(CRDS) {
            return Ok(self.crd(name));
        }
        for group in ["gateway.networking.k8s.io", "fairway.dev"] {
            let path = uri.path().strip_prefix("/apis/").and_then(|path| path.strip_prefix(group));
            if let Some(answer) = path.and_then(|path| self.of_crds(group, path.trim_start_matches('/'))) {
                return Ok(answer);
            }
        }
        let query = Query::read(uri.path(), uri.query().unwrap_or_default());
        if let Some((code, reason, message)) = self.refusal(&query) {
            return Ok(status(code, reason, &message));
        }
        Ok(if query.is("watch") { self.watch(query) } else { self.list(&query) })
    }

    /// The metadata of a CRD.
    fn crd(&self, name: &str) -> Answer {
        let state = self.lock();
        if state.denied.contains(&("customresourcedefinitions".to_owned(), "*".to_owned())) {
            return status(403, "Forbidden", "customresourcedefinitions are forbidden");
        }
        let Some(release) = state.crds.releases.get(name) else {
            return status(404, "NotFound", "there is no such CustomResourceDefinition");
        };
        let annotations = json!({ "gateway.networking.k8s.io/bundle-version": release });
        let metadata = match release {
            Some(_) => json!({ "name": name, "annotations": annotations }),
            None => json!({ "name": name }),
        };
        whole(
            json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
                .to_string(),
        )
    }

    /// The answer about a path in a group of CRDs, unless it is about objects that there are.
    fn of_crds(&self, group: &str, path: &str) -> Option<Answer> {
        let state = self.lock();
        let crds = if group == "fairway.dev" { &state.crds.policies } else { &state.crds.gateway };
        let (version, rest) = path.split_once('/').unwrap_or((path, ""));
        let offered = |version: &str| crds.iter().any(|(known, _)| *known == version);
        let resource = rest.rsplit('/').next().unwrap_or_default();
        let known = crds.contains(&(version, resource)).then_some(());
        if crds.is_empty() || (!version.is_empty() && !offered(version)) {
            return Some(status(404, "NotFound", "the server could not find the requested resource"));
        }
        if version.is_empty() {
            let versions: BTreeSet<_> = crds.iter().map(|(version, _)| *version).collect();
            let one =
                |version: &&str| json!({ "groupVersion": format!("{group}/{version}"), "version": version });
            let versions: Vec<_> = versions.iter().map(one).collect();
            return Some(whole(
                json!({ "kind": "APIGroup", "name": group, "versions": versions }).to_string(),
            ));
        }
        if rest.is_empty() {
            let of_version = crds.iter().filter(|(known, _)| *known == version);
            let one = |resource: &str| json!({ "name": resource, "singularName": "", "namespaced": true, "kind": "X", "verbs": ["list"] });
            let resources: Vec<_> = of_version.map(|(_, resource)| one(resource)).collect();
            let list = json!({ "kind": "APIResourceList", "groupVersion": version, "resources": resources });
            return Some(whole(list.to_string()));
        }
        match known {
            Some(()) => None,
            None => Some(status(404, "NotFound", "the server could not find the requested resource")),
        }
    }

    fn refusal(&self, query: &Query) -> Option<(u16, &'static str, String)> {
        let state = self.lock();
        let denied = |namespace: &str| state.denied.contains(&(query.resource.clone(), namespace.to_owned()));
        if denied(&query.namespace) || denied("*") {
            let user = "system:serviceaccount:edge:fairway";
            let message = format!("{} is forbidden: User \"{user}\" cannot list", query.resource);
            return Some((403, "Forbidden", message));
        }
        if state.unknown.contains(&query.resource) {
            return Some((404, "NotFound", "the server could not find the requested resource".to_owned()));
        }
        if state.broken_lists.contains(&query.resource)
            && (!query.is("watch") || query.is("sendInitialEvents"))
        {
            return Some((500, "InternalError", "etcd is not there".to_owned()));
        }
        match state.lists {
            Listing::RefusesStreams(code) if query.is("sendInitialEvents") => {
                Some((code, "", "sendInitialEvents: Forbidden: feature is off".to_owned()))
            }
            _ => None,
        }
    }

    fn list(&self, query: &Query) -> Answer {
        let state = self.lock();
        let matching: Vec<_> =
            state.objects.iter().filter(|(place, object)| query.covers(place, Some(object))).collect();
        let begin: usize = query.number("continue").unwrap_or(0);
        let limit: usize = query.number("limit").unwrap_or(usize::MAX);
        let items: Vec<_> =
            matching.iter().skip(begin).take(limit).map(|(_, object)| (*object).clone()).collect();
        let end = begin + items.len();
        let rest = if end < matching.len() { json!(end.to_string()) } else { Value::Null };
        let metadata = json!({ "resourceVersion": state.version.to_string(), "continue": rest });
        let list = json!({ "metadata": metadata, "items": items });
        whole(list.to_string())
    }

    fn watch(&self, query: Query) -> Answer {
        let mut state = self.lock();
        state.watches.begun += 1;
        let id = state.watches.begun;
        let mut first = Vec::new();
        let from = if query.is("sendInitialEvents") {
            let all = state.objects.iter().filter(|(place, object)| query.covers(place, Some(object)));
            first.extend(all.map(|(_, object)| json!({ "type": "ADDED", "object": object })));
            let annotations = json!({ "k8s.io/initial-events-end": "true" });
            let metadata =
                json!({ "resourceVersion": state.version.to_string(), "annotations": annotations });
            let bookmark = json!({ "kind": "X", "apiVersion": "v1", "metadata": metadata });
            let end = json!({ "type": "BOOKMARK", "object": bookmark });
            first.extend((state.lists != Listing::NeverComplete).then_some(end));
            state.version
        } else {
            query.number("resourceVersion").unwrap_or(0)
        };
        if from < state.history.oldest {
            let gone = json!({ "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old" });
            first.push(json!({ "type": "ERROR", "object": gone }));
        }
        drop(state);
        let body = stream::iter(first).chain(self.events(query, from, id));
        let lines = body.map(|event| Ok::<_, Infallible>(Frame::data(Bytes::from(format!("{event}\n")))));
        Response::new(StreamBody::new(lines).boxed_unsync())
    }

    fn events(&self, query: Query, from: u64, id: u64) -> impl Stream<Item = Value> + Send + use<> {
        let start = (self.clone(), self.bell.subscribe(), query, from);
        stream::unfold(start, move |(server, mut bell, query, mut from)| async move {
            loop {
                bell.borrow_and_update();
                let next = {
                    let state = server.lock();
                    if id <= state.watches.closed {
                        return None;
                    }
                    let silent = id <= state.watches.stalled || state.line == Network::Silent;
                    if state.line == Network::Silent {
                        // What was sent into the black hole is lost, and with it the connection.
                        from = u64::MAX;
                    }
                    state.history.events.iter().find(|event| event.version > from && !silent).cloned()
                };
                match next {
                    Some(event) => {
                        from = event.version;
                        if let Some(value) = query.show(&event) {
                            return Some((value, (server, bell, query, from)));
                        }
                    }
                    None => bell.changed().await.ok()?,
                }
            }
        })
    }
}

impl Query {
    fn read(path: &str, query: &str) -> Self {
        let parts: Vec<_> = path.split('/').collect();
        let namespaced =
            parts.iter().position(|part| *part == "namespaces").filter(|at| at + 2 < parts.len());
        let namespace = namespaced.map_or(String::new(), |at| parts[at + 1].to_owned());
        let resource = parts.last().copied().unwrap_or_default().to_owned();
        let decoded = |text: &str| text.replace("%3D", "=").replace("%2F", "/");
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let parameters = pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect();
        Self { resource, namespace, parameters }
    }

    fn is(&self, name: &str) -> bool {
        self.parameters.get(name).is_some_and(|value| value == "true")
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.parameters.get(name)?.parse().ok()
    }

    fn covers(&self, (resource, namespace, name): &Place, object: Option<&Value>) -> bool {
        let Some(object) = object else { return false };
        let named =
            self.parameters.get("fieldSelector").is_none_or(|it| *it == format!("metadata.name={name}"));
        let labelled = self.parameters.get("labelSelector").is_none_or(|selector| {
            let (key, value) = selector.split_once('=').unwrap();
            object["metadata"]["labels"][key] == *value
        });
        *resource == self.resource
            && (self.namespace.is_empty() || *namespace == self.namespace)
            && named
            && labelled
    }

    /// What the watch sees of an event: an object that leaves its selection is deleted for it.
    fn show(&self, event: &Event) -> Option<Value> {
        let before = self.covers(&event.place, event.before.as_ref());
        let after = self.covers(&event.place, event.after.as_ref());
        let (kind, object) = match (before, after) {
            (false, false) => return None,
            (false, true) => ("ADDED", event.after.clone()),
            (true, true) => ("MODIFIED", event.after.clone()),
            (true, false) => ("DELETED", event.after.clone().or(event.before.clone())),
        };
        let mut object = object?;
        object["metadata"]["resourceVersion"] = json!(event.version.to_string());
        Some(json!({ "type": kind, "object": object }))
    }
}

fn place(resource: &str, object: &Value) -> Place {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (resource.to_owned(), text("namespace"), text("name"))
}

fn whole(text: String) -> Answer {
    Response::new(Full::new(Bytes::from(text)).boxed_unsync())
}

fn status(code: u16, reason: &str, message: &str) -> Answer {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    let mut response = whole(body.to_string());
    *response.status_mut() = hyper::StatusCode::from_u16(code).unwrap();
    response
}
