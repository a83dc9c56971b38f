//! The server: its objects, its faults and its responses, as controlled and inspected by tests.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::watch as channel;

use super::discovery::{self, Definition};
use super::faults::{self, Failure, Fault, Listing, Network};
use super::objects::{ObjectPath, Selection};
use super::request::{ApiRequest, Target};
use super::responses::{self, Page};
use super::state::ServerState;
use super::watch::Watch;

/// A response to a client.
pub enum ApiResponse {
    /// Sends the whole body in one piece.
    Page(Page),
    /// The lines of a watch, with status 200.
    Watch(Watch),
}

/// The server. A clone is the same one.
#[derive(Clone)]
pub struct ApiServer {
    state: Arc<Mutex<ServerState>>,
    /// Rung after every change of the state.
    bell: channel::Sender<u64>,
}

impl Default for ApiServer {
    fn default() -> Self {
        Self::new()
    }
}

impl ApiServer {
    /// A server without objects and without the CRDs of the Gateway API.
    pub fn new() -> Self {
        Self { state: Arc::new(Mutex::new(ServerState::new())), bell: channel::channel(0).0 }
    }

    /// Puts an object of a resource (`httproutes`) in the place of the one with its name; watches hear of it.
    pub fn put(&self, resource: &str, object: Value) {
        self.change(|state| drop(state.objects.store(ObjectPath::from_object(resource, &object), object)));
    }

    /// Stores an object at a path, which gives the namespace and name.
    pub fn put_at(&self, path: &str, object: Value) {
        self.change(|state| drop(state.objects.store(object_path(path), object)));
    }

    /// Removes an object if it exists.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) {
        self.change(|state| drop(state.objects.delete(&ObjectPath::new(resource, namespace, name))));
    }

    /// The same at a path.
    pub fn delete_at(&self, path: &str) {
        self.change(|state| drop(state.objects.delete(&object_path(path))));
    }

    /// The object at a path.
    pub fn object(&self, path: &str) -> Option<Value> {
        self.lock().objects.value(&object_path(path))
    }

    /// The objects of a resource, in all namespaces.
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        self.selected(&Selection::all(resource))
    }

    /// The objects of the collection at a path.
    pub fn below(&self, path: &str) -> Vec<Value> {
        let request = ApiRequest::new("GET", path, Value::Null);
        self.selected(&request.selection(request.target.as_ref().expect("the path of a collection")))
    }

    fn selected(&self, selection: &Selection) -> Vec<Value> {
        let state = self.lock();
        let read = |text: &Arc<str>| serde_json::from_str(text).expect("it was written here");
        state.objects.selected(selection).map(read).collect()
    }

    /// Names of the objects of a resource as `namespace/name@version`.
    pub fn names(&self, resource: &str) -> BTreeSet<String> {
        let name = |object: &Value| {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            format!("{}/{}@{}", text("namespace"), text("name"), text("resourceVersion"))
        };
        self.objects(resource).iter().map(name).collect()
    }

    /// Defines these custom resources of a group.
    pub fn define(&self, group: &'static str, resources: &[Definition]) {
        self.change(|state| state.definitions.of_group(group).extend(resources));
    }

    /// Removes the definition of this custom resource of a group.
    pub fn undefine(&self, group: &'static str, resource: Definition) {
        self.change(|state| state.definitions.of_group(group).remove(&resource));
    }

    /// Removes the definitions of a group's custom resources.
    pub fn undefine_all(&self, group: &'static str) {
        self.change(|state| state.definitions.of_group(group).clear());
    }

    /// The minor version of Kubernetes that it reports.
    pub fn set_minor_version(&self, minor: u32) {
        self.change(|state| state.minor = minor);
    }

    /// Sets how lists are streamed.
    pub fn set_listing(&self, lists: Listing) {
        self.change(|state| state.lists = lists);
    }

    /// Sets the state of the network for requests and watches.
    pub fn set_network(&self, network: Network) {
        self.change(|state| state.network = network);
    }

    /// Lets all these requests fail, until [`Self::heal`].
    pub fn fail(&self, failure: Failure, matches_request: impl Fn(&ApiRequest) -> bool + Send + 'static) {
        self.change(|state| {
            state.faults.push(Fault { failure, applies_to: Box::new(matches_request), times: None });
        });
    }

    /// Lets the next few of these requests fail.
    pub fn fail_times(
        &self,
        times: u32,
        failure: Failure,
        applies_to: impl Fn(&ApiRequest) -> bool + Send + 'static,
    ) {
        self.change(|state| {
            state.faults.push(Fault { failure, applies_to: Box::new(applies_to), times: Some(times) });
        });
    }

    /// Ends all failures of requests.
    pub fn heal(&self) {
        self.change(|state| state.faults.clear());
    }

    /// Closes all watches.
    pub fn close_watches(&self) {
        self.change(|state| state.watches.closed = state.watches.begun);
    }

    /// Closes all watches and expires the versions they know.
    pub fn forget_history(&self) {
        self.change(|state| {
            state.objects.forget_history();
            state.watches.closed = state.watches.begun;
        });
    }

    /// Silences all open watches.
    pub fn stall_watches(&self) {
        self.change(|state| state.watches.stalled = state.watches.begun);
    }

    /// Permits what a Role or a ClusterRole allows. From the first one on everything else is refused.
    pub fn grant(&self, role: &Value) {
        self.lock().access.grant(role);
    }

    /// Requests denied so far, as in `cannot patch resource "ingresses/status" in API group "networking.k8s.io"`.
    pub fn denied_requests(&self) -> Vec<String> {
        self.lock().access.denied_requests()
    }

    /// The number of requests whose path and query contain `part`.
    pub fn requests(&self, part: &str) -> usize {
        self.lock().requests.iter().filter(|(_, uri)| uri.contains(part)).count()
    }

    /// The number of requests with a method whose path contains `part`.
    pub fn request_count(&self, method: &str, part: &str) -> usize {
        let is = |(method_of_request, uri): &&(String, String)| {
            method_of_request == method && path_of(uri).contains(part)
        };
        self.lock().requests.iter().filter(is).count()
    }

    /// The number of requests to status subresources.
    pub fn status_writes(&self) -> usize {
        self.lock().requests.iter().filter(|(_, uri)| path_of(uri).ends_with("/status")).count()
    }

    /// Rings after every change.
    pub fn changes(&self) -> channel::Receiver<u64> {
        self.bell.subscribe()
    }

    /// Handles a request.
    pub async fn request(&self, method: &str, uri: &str, body: &[u8]) -> io::Result<ApiResponse> {
        let request = ApiRequest::new(method, uri, serde_json::from_slice(body).unwrap_or_default());
        let network = {
            let mut state = self.lock();
            state.requests.push((request.method.clone(), request.uri.clone()));
            state.network
        };
        match network {
            Network::Up => {}
            Network::Refusing => return Err(io::Error::other("connection refused")),
            // A request that got lost in a black hole stays lost.
            Network::Silent => std::future::pending::<()>().await,
        }
        let mut state = self.lock();
        let before = state.objects.version();
        let response = self.respond(&request, &mut state);
        let has_changed = state.objects.version() != before;
        drop(state);
        if has_changed {
            self.ring();
        }
        Ok(response)
    }

    fn respond(&self, request: &ApiRequest, state: &mut ServerState) -> ApiResponse {
        let Some(target) = &request.target else {
            return ApiResponse::Page(discovery::page(&request.path, state.minor, &state.definitions));
        };
        if let Some(page) = refusal(request, target, state) {
            return ApiResponse::Page(page);
        }
        if request.is_true("watch") {
            let origin = (self.state.clone(), self.changes());
            return ApiResponse::Watch(Watch::start(origin, request, target, state));
        }
        ApiResponse::Page(responses::page(request, target, &mut state.objects))
    }

    fn change<T>(&self, change: impl FnOnce(&mut ServerState) -> T) -> T {
        let done = change(&mut self.lock());
        self.ring();
        done
    }

    fn ring(&self) {
        self.bell.send_modify(|rings| *rings += 1);
    }

    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The response to a request that is denied.
fn refusal(request: &ApiRequest, target: &Target, state: &mut ServerState) -> Option<Page> {
    if let Some(refusal) = state.access.refusal(request, target) {
        return Some(Page::failure(403, "Forbidden", &refusal));
    }
    if !state.definitions.has(target) {
        return Some(Page::no_such_resource());
    }
    if let Some(page) = faults::page(&mut state.faults, request) {
        return Some(page);
    }
    match state.lists {
        Listing::RefusesStreams(status) if request.is_true("sendInitialEvents") => {
            Some(Page::failure(status, "", "sendInitialEvents: Forbidden: feature is off"))
        }
        _ => None,
    }
}

fn object_path(path: &str) -> ObjectPath {
    Target::from_path(path).and_then(|target| target.object_path()).expect("the path of an object")
}

fn path_of(uri: &str) -> &str {
    uri.split('?').next().unwrap_or_default()
}
