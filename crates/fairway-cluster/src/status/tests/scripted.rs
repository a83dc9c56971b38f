//! An API server in memory: objects by path, versions, merge patches, watches, and failures on demand.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use fairway_objects::object::ObjectKey;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

/// The server. A clone is the same one.
#[derive(Clone)]
pub(crate) struct ApiServer {
    state: Arc<Mutex<State>>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    log: Vec<Asked>,
    refused: Vec<(Method, &'static str)>,
    /// Requests that find the object changed, and how many more do.
    overtaken: Vec<(Method, &'static str, u32)>,
    terminating: Vec<&'static str>,
    reach: Reach,
    watches: Vec<Watching>,
    /// Every event so far: lists and the watches after them are two requests.
    history: Vec<(u64, String, Bytes)>,
}

/// The path and the labels of a watch, and where its events go.
type Watching = (String, Labels, mpsc::UnboundedSender<Bytes>);

/// Labels that objects must have; without a value any is good.
type Labels = Vec<(String, Option<String>)>;

/// Whether requests are answered.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    #[default]
    Answers,
    Silent,
}

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Value,
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

impl ApiServer {
    pub(crate) fn new() -> Self {
        Self { state: Arc::default(), changes: watch::Sender::default() }
    }

    /// A client, whose requests get lost once it is cut off.
    pub(crate) fn client(&self, cut: Arc<AtomicBool>) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, cut) = (server.clone(), cut.clone());
            async move {
                if cut.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(server.answer(request).await)
            }
        });
        Client::new(service, "default")
    }

    /// Counts what changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn put(&self, path: &str, object: Value) {
        self.lock().store(path, object);
        self.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn remove(&self, path: &str) {
        self.lock().delete(path);
        self.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn object(&self, path: &str) -> Option<Value> {
        self.lock().objects.get(path).cloned()
    }

    /// The objects below a path.
    pub(crate) fn below(&self, path: &str) -> Vec<Value> {
        self.lock().below(path)
    }

    /// Refuses `method` on paths that contain `part`.
    pub(crate) fn refuse(&self, method: Method, part: &'static str) {
        self.lock().refused.push((method, part));
    }

    /// The next `times` of `method` on paths that contain `part` come too late.
    pub(crate) fn overtake(&self, method: Method, part: &'static str, times: u32) {
        self.lock().overtaken.push((method, part, times));
    }

    /// Nothing can be made on paths that contain `part` any more.
    pub(crate) fn terminate(&self, part: &'static str) {
        self.lock().terminating.push(part);
    }

    pub(crate) fn permit_all(&self) {
        self.lock().refused.clear();
    }

    pub(crate) fn reach(&self, reach: Reach) {
        self.lock().reach = reach;
    }

    /// The requests so far whose path contains `part`.
    pub(crate) fn asked(&self, method: &Method, part: &str) -> usize {
        self.lock().log.iter().filter(|asked| asked.method == method && asked.path.contains(part)).count()
    }

    /// The writes of status so far.
    pub(crate) fn status_writes(&self) -> usize {
        self.lock().log.iter().filter(|asked| asked.path.ends_with("/status")).count()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn answer(&self, request: Request<Body>) -> Answer {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        // What is asked while the server is silent gets no answer, also not later.
        let silent = self.lock().reach == Reach::Silent;
        if silent {
            std::future::pending::<()>().await;
        }
        let (path, query) = (head.uri.path().to_owned(), head.uri.query().unwrap_or_default().to_owned());
        let before = self.lock().version;
        let asked = Asked { method: head.method, path, body };
        let answer = self.lock().answer(&asked, &query);
        if self.lock().version != before {
            self.changes.send_modify(|count| *count += 1);
        }
        answer
    }
}

impl State {
    fn answer(&mut self, asked: &Asked, query: &str) -> Answer {
        self.log.push(asked.clone());
        let Asked { method, path, body } = asked;
        if self.refused.iter().any(|(refused, part)| refused == method && path.contains(part)) {
            return failure(StatusCode::FORBIDDEN, "Forbidden");
        }
        let too_late = |(late, part, times): &&mut (Method, &str, u32)| {
            late == method && path.contains(*part) && *times > 0
        };
        if let Some((_, _, times)) = self.overtaken.iter_mut().find(too_late) {
            *times -= 1;
            return failure(StatusCode::CONFLICT, "Conflict");
        }
        if method == Method::POST && self.terminating.iter().any(|part| path.contains(part)) {
            return terminating();
        }
        let object = path.strip_suffix("/status").unwrap_or(path);
        match method.as_str() {
            "GET" if query.contains("watch=true") => self.watch(path, query),
            "GET" => match self.objects.get(object) {
                Some(found) => success(found),
                None if is_collection(path) => self.list(path, query),
                None => failure(StatusCode::NOT_FOUND, "NotFound"),
            },
            "POST" => {
                let name = body.pointer("/metadata/name").and_then(Value::as_str).unwrap();
                let object = format!("{path}/{name}");
                if self.objects.contains_key(&object) {
                    return failure(StatusCode::CONFLICT, "AlreadyExists");
                }
                let mut body = body.clone();
                if body["metadata"]["uid"].is_null() {
                    body["metadata"]["uid"] = json!(format!("uid-{name}"));
                }
                body["metadata"]["namespace"] = json!(path.split('/').rev().nth(1));
                success(&self.store(&object, body))
            }
            "DELETE" => match self.delete(object) {
                Some(gone) => success(&gone),
                None => failure(StatusCode::NOT_FOUND, "NotFound"),
            },
            "PUT" | "PATCH" => self.write(method, object, asked),
            other => panic!("{other} {path} is not scripted"),
        }
    }

    fn write(&mut self, method: &Method, object: &str, asked: &Asked) -> Answer {
        let Some(mut found) = self.objects.get(object).cloned() else {
            return failure(StatusCode::NOT_FOUND, "NotFound");
        };
        let based_on = asked.body.pointer("/metadata/resourceVersion");
        if based_on.is_some() && based_on != found.pointer("/metadata/resourceVersion") {
            return failure(StatusCode::CONFLICT, "Conflict");
        }
        let is_status = asked.path.ends_with("/status");
        match (method, is_status) {
            (&Method::PUT, true) => found["status"] = asked.body["status"].clone(),
            (&Method::PUT, false) => found = asked.body.clone(),
            _ => merge(&mut found, &asked.body),
        }
        if is_status {
            manage(&mut found, "fairway");
        }
        success(&self.store(object, found))
    }

    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let kind = if self.objects.contains_key(path) { "MODIFIED" } else { "ADDED" };
        self.tell(path, kind, &object);
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn delete(&mut self, path: &str) -> Option<Value> {
        let mut gone = self.objects.remove(path)?;
        self.version += 1;
        gone["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.tell(path, "DELETED", &gone);
        Some(gone)
    }

    fn tell(&mut self, path: &str, kind: &str, object: &Value) {
        let event = Bytes::from(format!("{}\n", json!({ "type": kind, "object": object })));
        self.watches.retain(|(below, labels, sender)| {
            !is_below(path, below) || !has(object, labels) || sender.send(event.clone()).is_ok()
        });
        self.history.push((self.version, path.to_owned(), event));
    }

    fn below(&self, path: &str) -> Vec<Value> {
        self.objects
            .iter()
            .filter(|(object, _)| is_below(object, path))
            .map(|(_, object)| object.clone())
            .collect()
    }

    fn list(&self, path: &str, query: &str) -> Answer {
        let labels = labels(query);
        let items: Vec<_> = self.below(path).into_iter().filter(|object| has(object, &labels)).collect();
        let metadata = json!({ "resourceVersion": self.version.to_string() });
        success(&json!({ "kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items }))
    }

    fn watch(&mut self, path: &str, query: &str) -> Answer {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let from = query.split('&').find_map(|part| part.strip_prefix("resourceVersion="));
        let from = from.and_then(|version| version.parse().ok()).unwrap_or(self.version);
        let labels = labels(query);
        let missed =
            self.history.iter().filter(|(version, object, _)| *version > from && is_below(object, path));
        for (_, _, event) in missed {
            let value: Value = serde_json::from_slice(event).unwrap();
            if has(&value["object"], &labels) {
                sender.send(event.clone()).unwrap();
            }
        }
        self.watches.push((path.to_owned(), labels, sender));
        let frames = futures_util::stream::poll_fn(move |context| {
            receiver.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
        });
        Response::new(StreamBody::new(frames).boxed())
    }
}

/// The path of an Ingress.
pub(crate) fn ingress_path(key: &ObjectKey) -> String {
    format!("/apis/networking.k8s.io/v1/namespaces/{}/ingresses/{}", key.namespace, key.name)
}

/// Notes who wrote the status.
pub(crate) fn manage(object: &mut Value, manager: &str) {
    object["metadata"]["managedFields"] = json!([{
        "manager": manager, "operation": "Update", "subresource": "status",
        "time": "2026-01-01T00:00:00Z", "fieldsV1": { "f:status": { "f:loadBalancer": {} } }
    }]);
}

fn is_collection(path: &str) -> bool {
    ["pods", "services", "ingresses", "events", "leases", "configmaps", "endpointslices"]
        .iter()
        .any(|kind| path.ends_with(&format!("/{kind}")))
}

/// Whether an object is in a collection, be it of a namespace or of all.
fn is_below(object: &str, path: &str) -> bool {
    let within = object.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    let (root, resource) = path.rsplit_once('/').unwrap_or_default();
    let mut parts = object.strip_prefix(root).unwrap_or_default().rsplit('/');
    let everywhere = parts.nth(1) == Some(resource) && parts.nth(1) == Some("namespaces");
    within || everywhere
}

fn labels(query: &str) -> Labels {
    let selector = query.split('&').find_map(|part| part.strip_prefix("labelSelector="));
    let selector = selector.unwrap_or_default().replace("%3D", "=").replace("%2F", "/").replace("%2C", ",");
    let one = |part: &str| match part.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (part.to_owned(), None),
    };
    selector.split(',').filter(|part| !part.is_empty()).map(one).collect()
}

fn has(object: &Value, labels: &Labels) -> bool {
    labels.iter().all(|(name, value)| {
        let found = object["metadata"]["labels"][name].as_str();
        found.is_some() && (value.is_none() || found == value.as_deref())
    })
}

/// RFC 7396.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut into[name], value);
        }
    }
}

fn success(object: &Value) -> Answer {
    Response::new(Full::from(object.to_string()).boxed())
}

fn terminating() -> Answer {
    let mut answer = success(&json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "scripted: the namespace is being terminated",
        "details": { "causes": [{ "reason": "NamespaceTerminating", "message": "", "field": "metadata.namespace" }] }
    }));
    *answer.status_mut() = StatusCode::FORBIDDEN;
    answer
}

fn failure(status: StatusCode, reason: &str) -> Answer {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": format!("scripted: {reason}"), "code": status.as_u16()
    });
    let mut answer = success(&body);
    *answer.status_mut() = status;
    answer
}
