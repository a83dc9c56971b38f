//! An API server for tests and benchmarks: it gives, lists and watches the objects that it has, in pages and as streams, and takes
//! new ones, updates and merge patches. Without Roles everybody may do everything. Knows no rule of any kind of object.

mod access;
mod request;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::io::{AsyncWriteExt, BufReader, BufWriter};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use access::Access;
use request::{Asked, Target};

const GATEWAYS: &str = "gateway.networking.k8s.io";
/// The end of the objects with which a watch begins (KEP-3157).
const COMPLETE: &str = "k8s.io/initial-events-end";
/// Events that a watch may be behind.
const BEHIND: usize = 65_536;

/// A running API server. It ends with this value.
#[derive(Debug)]
pub struct ApiServer {
    shared: Arc<Shared>,
    kubeconfig: NamedTempFile,
    _connections: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    objects: Mutex<Objects>,
    access: Mutex<Access>,
    /// Whether the CRDs of Gateway API are installed.
    has_gateways: AtomicBool,
    /// What changed: the resource and the event.
    events: broadcast::Sender<(String, Arc<str>)>,
}

#[derive(Debug, Default)]
struct Objects {
    /// By resource, then by namespace and name.
    all: BTreeMap<String, BTreeMap<String, Arc<str>>>,
    revision: u64,
}

/// A status line and a body.
type Answer = (&'static str, String);

impl ApiServer {
    /// Starts on a free port of the loopback address.
    ///
    /// # Panics
    ///
    /// When it cannot listen, or no file can be written.
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let events = broadcast::channel(BEHIND).0;
        let (objects, access, has_gateways) = (Mutex::default(), Mutex::default(), AtomicBool::new(true));
        let shared = Arc::new(Shared { objects, access, has_gateways, events });
        let kubeconfig = NamedTempFile::with_prefix("fairway-").expect("a temporary file");
        std::fs::write(kubeconfig.path(), configuration(address).to_string()).expect("the file is there");
        let mut connections = JoinSet::new();
        connections.spawn(accept(listener, shared.clone()));
        Self { shared, kubeconfig, _connections: connections }
    }

    /// A kubeconfig that leads here.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// Puts an object of a resource (`httproutes`) in the place of the one with its name; watches hear of it.
    pub fn put(&self, resource: &str, object: Value) {
        self.shared.store(&mut self.shared.lock(), resource, object);
    }

    /// The objects of a resource, in all namespaces.
    ///
    /// # Panics
    ///
    /// Never: they were written here.
    #[must_use]
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        let all = self.shared.lock().named(resource, None);
        all.iter().map(|text| serde_json::from_str(text).expect("it was written here")).collect()
    }

    /// From now on it is a cluster without the CRDs of Gateway API.
    pub fn leave_out_gateway_api(&self) {
        self.shared.has_gateways.store(false, Ordering::Relaxed);
    }

    /// Permits what a Role or a ClusterRole allows. From the first one on everything else is refused.
    ///
    /// # Panics
    ///
    /// When it has no rules.
    pub fn grant(&self, role: &Value) {
        self.shared.access().grant(role);
    }

    /// What was refused so far, as in `cannot patch resource "ingresses/status" in API group "networking.k8s.io"`.
    #[must_use]
    pub fn refused(&self) -> Vec<String> {
        self.shared.access().refused()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn access(&self) -> MutexGuard<'_, Access> {
        self.access.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores an object with the next revision, and gives its text.
    fn store(&self, objects: &mut Objects, resource: &str, mut object: Value) -> Arc<str> {
        objects.revision += 1;
        let revision = objects.revision.to_string();
        let name = key(&object);
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = json!(revision);
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(format!("{resource}/{name}"));
        }
        let text: Arc<str> = object.to_string().into();
        let before = objects.all.entry(resource.to_owned()).or_default().insert(name, text.clone());
        let change = if before.is_some() { "MODIFIED" } else { "ADDED" };
        // Nobody watches before the first connection.
        _ = self.events.send((resource.to_owned(), event(change, &text)));
        text
    }
}

impl Objects {
    /// Those of a resource, all of them or the one of a name.
    fn named(&self, resource: &str, name: Option<&str>) -> Vec<Arc<str>> {
        let all = self.all.get(resource).into_iter().flatten();
        let wanted = |key: &str| name.is_none_or(|name| key.rsplit('/').next() == Some(name));
        all.filter(|(key, _)| wanted(key)).map(|(_, text)| text.clone()).collect()
    }
}

fn key(object: &Value) -> String {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

fn event(change: &str, object: &str) -> Arc<str> {
    format!("{{\"type\":\"{change}\",\"object\":{object}}}\n").into()
}

/// A kubeconfig without credentials.
fn configuration(address: SocketAddr) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{ "name": "test", "cluster": { "server": format!("http://{address}") } }],
        "users": [{ "name": "test", "user": {} }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
    })
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        // Whoever asks may leave at any time.
        connections.spawn(async move { _ = serve(stream, &shared).await });
    }
}

/// One request after the other; a watch is the last.
async fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let (read, write) = stream.into_split();
    let (mut read, mut write) = (BufReader::new(read), BufWriter::with_capacity(1 << 16, write));
    while let Some(asked) = Asked::read(&mut read).await? {
        let target = Target::of(&asked.path);
        let refusal = target.as_ref().and_then(|target| shared.access().refusal(&asked, target));
        let (status, body) = match (refusal, target) {
            (Some(refusal), _) => failure("403 Forbidden", "Forbidden", &refusal),
            (None, Some(target)) if asked.query.contains_key("watch") => {
                return watch(&asked, &target, shared, &mut write).await;
            }
            (None, Some(target)) => answer(&asked, &target, shared),
            (None, None) => page(&asked.path, shared.has_gateways.load(Ordering::Relaxed)),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        write.write_all(head.as_bytes()).await?;
        write.write_all(body.as_bytes()).await?;
        write.flush().await?;
    }
    Ok(())
}

/// What is no object and no collection.
fn page(path: &str, has_gateways: bool) -> Answer {
    match path.trim_start_matches('/').split('/').collect::<Vec<_>>().as_slice() {
        ["version"] => {
            ("200 OK", json!({ "major": "1", "minor": "36", "gitVersion": "v1.36.0" }).to_string())
        }
        ["readyz" | "livez" | "healthz"] => ("200 OK", "\"ok\"".to_owned()),
        ["apis", group] if has_gateways && *group == GATEWAYS => {
            let version = json!({ "groupVersion": format!("{GATEWAYS}/v1"), "version": "v1" });
            let group = json!({
                "kind": "APIGroup", "apiVersion": "v1", "name": GATEWAYS,
                "versions": [version], "preferredVersion": version,
            });
            ("200 OK", group.to_string())
        }
        ["apis", group, "v1"] if has_gateways && *group == GATEWAYS => ("200 OK", resources().to_string()),
        _ => failure("404 Not Found", "NotFound", "no such page"),
    }
}

fn answer(asked: &Asked, target: &Target<'_>, shared: &Shared) -> Answer {
    let objects = &mut *shared.lock();
    let Some(name) = target.name else {
        return match &*asked.method {
            "GET" => ("200 OK", list(asked, target.resource, objects)),
            "POST" => create(asked, target, shared, objects),
            _ => not_allowed(),
        };
    };
    let key = format!("{}/{name}", target.namespace.unwrap_or_default());
    let Some(found) = objects.all.get(target.resource).and_then(|all| all.get(&key)).cloned() else {
        return failure("404 Not Found", "NotFound", &key);
    };
    let mut object: Value = serde_json::from_str(&found).expect("it was written here");
    let based_on = asked.body.pointer("/metadata/resourceVersion");
    let is_late = based_on.is_some_and(|version| *version != object["metadata"]["resourceVersion"]);
    match (&*asked.method, target.part) {
        ("GET", None) => return ("200 OK", found.to_string()),
        ("PUT" | "PATCH", _) if is_late => {
            return failure("409 Conflict", "Conflict", "it was changed in between");
        }
        ("PUT", Some(part)) => object[part] = asked.body[part].clone(),
        ("PUT", None) => object = asked.body.clone(),
        ("PATCH", Some(part)) => merge(&mut object[part], &asked.body[part]),
        ("PATCH", None) => merge(&mut object, &asked.body),
        _ => return not_allowed(),
    }
    ("200 OK", shared.store(objects, target.resource, object).to_string())
}

fn create(asked: &Asked, target: &Target<'_>, shared: &Shared, objects: &mut Objects) -> Answer {
    let mut object = asked.body.clone();
    if let Some(namespace) = target.namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    let key = key(&object);
    if objects.all.get(target.resource).is_some_and(|all| all.contains_key(&key)) {
        return failure("409 Conflict", "AlreadyExists", &key);
    }
    ("201 Created", shared.store(objects, target.resource, object).to_string())
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
        match into.as_object_mut() {
            Some(into) if value.is_null() => _ = into.remove(name),
            _ => merge(&mut into[name], value),
        }
    }
}

fn not_allowed() -> Answer {
    failure("405 Method Not Allowed", "MethodNotAllowed", "this server does not do that")
}

fn failure(status: &'static str, reason: &str, message: &str) -> Answer {
    let code: u16 = status[..3].parse().expect("a status line begins with its code");
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code
    });
    (status, body.to_string())
}

/// The kinds of the Gateway API that there may be objects of.
fn resources() -> Value {
    let kinds = [("gatewayclasses", "GatewayClass"), ("gateways", "Gateway"), ("httproutes", "HTTPRoute")];
    let resource = |(name, kind): (&str, &str)| {
        let namespaced = name != "gatewayclasses";
        json!({ "name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["list", "watch"] })
    };
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GATEWAYS}/v1"),
        "resources": kinds.map(resource),
    })
}

/// A page of a list.
fn list(asked: &Asked, resource: &str, objects: &Objects) -> String {
    let all = objects.named(resource, asked.selected_name());
    let from = asked.number("continue").unwrap_or(0).min(all.len());
    let to = asked.number("limit").map_or(all.len(), |limit| (from + limit).min(all.len()));
    let rest = if to < all.len() { to.to_string() } else { String::new() };
    let metadata = json!({ "resourceVersion": objects.revision.to_string(), "continue": rest });
    format!("{{\"metadata\":{metadata},\"items\":[{}]}}", all[from..to].join(","))
}

async fn watch(
    asked: &Asked,
    target: &Target<'_>,
    shared: &Shared,
    write: &mut BufWriter<OwnedWriteHalf>,
) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    write.write_all(head.as_bytes()).await?;
    let resource = target.resource;
    // What changes from here on is heard; what was there by then is in the list.
    let (mut events, all, revision) = {
        let objects = shared.lock();
        let all = objects.named(resource, asked.selected_name());
        (shared.events.subscribe(), all, objects.revision)
    };
    if asked.query.contains_key("sendInitialEvents") {
        for object in all {
            chunk(write, &event("ADDED", &object)).await?;
        }
        let metadata =
            json!({ "resourceVersion": revision.to_string(), "annotations": { COMPLETE: "true" } });
        chunk(write, &event("BOOKMARK", &json!({ "metadata": metadata }).to_string())).await?;
    } else if let Some(listed) = asked.number("resourceVersion") {
        // What changed after the list, before this watch.
        for object in all.iter().filter(|object| revision_of(object) > listed) {
            chunk(write, &event("MODIFIED", object)).await?;
        }
    }
    write.flush().await?;
    // A watch that is too far behind ends, and its client begins anew.
    while let Ok((of, event)) = events.recv().await {
        if of == resource {
            chunk(write, &event).await?;
            write.flush().await?;
        }
    }
    Ok(())
}

/// The revision at which an object was put.
fn revision_of(object: &str) -> usize {
    let object: Value = serde_json::from_str(object).expect("it was written here");
    let revision = object["metadata"]["resourceVersion"].as_str();
    revision.and_then(|revision| revision.parse().ok()).expect("each object has one")
}

async fn chunk(write: &mut BufWriter<OwnedWriteHalf>, text: &str) -> io::Result<()> {
    write.write_all(format!("{:x}\r\n", text.len()).as_bytes()).await?;
    write.write_all(text.as_bytes()).await?;
    write.write_all(b"\r\n").await
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    fn object(name: &str, value: u32) -> Value {
        json!({ "metadata": { "namespace": "shop", "name": name }, "value": value })
    }

    async fn asked(server: &ApiServer, target: &str, until: &str) -> String {
        sent(server, &format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n"), until).await
    }

    async fn written(server: &ApiServer, method: &str, target: &str, body: &Value) -> String {
        let body = body.to_string();
        let head = format!("{method} {target} HTTP/1.1\r\nhost: a\r\nContent-Length: {}\r\n\r\n", body.len());
        sent(server, &(head + &body), "}").await
    }

    async fn sent(server: &ApiServer, request: &str, until: &str) -> String {
        let config: Value =
            serde_json::from_slice(&std::fs::read(server.kubeconfig()).unwrap()).expect("JSON");
        let address = config["clusters"][0]["cluster"]["server"].as_str().unwrap();
        let mut stream = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        while !text.contains(until) {
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).await.unwrap();
            assert!(count > 0, "it ended before {until:?}: {text}");
            text += std::str::from_utf8(&bytes[..count]).unwrap();
        }
        text
    }

    #[tokio::test]
    async fn lists_come_in_pages() {
        let server = ApiServer::start().await;
        for (name, value) in [("a", 1), ("b", 2), ("c", 3), ("b", 4)] {
            server.put("things", object(name, value));
        }
        let first = asked(&server, "/api/v1/things?limit=2", "]}").await;
        assert!(first.contains("\"continue\":\"2\"") && first.contains("\"value\":4"), "{first}");
        let rest = asked(&server, "/api/v1/things?limit=2&continue=2", "]}").await;
        assert!(rest.contains("\"continue\":\"\"") && rest.contains("\"name\":\"c\""), "{rest}");
        let one =
            asked(&server, "/api/v1/namespaces/shop/things?fieldSelector=metadata.name%3Da", "]}").await;
        assert!(one.contains("\"name\":\"a\"") && !one.contains("\"name\":\"b\""), "{one}");
    }

    #[tokio::test]
    async fn a_watch_has_what_changed_after_its_list() {
        let server = ApiServer::start().await;
        for (name, value) in [("old", 1), ("late", 2)] {
            server.put("things", object(name, value));
        }
        let text = asked(&server, "/api/v1/things?watch=true&resourceVersion=1", "\"value\":2").await;
        assert!(!text.contains("\"value\":1"), "{text}");
    }

    #[tokio::test]
    async fn a_watch_has_what_is_there_and_what_comes() {
        let server = ApiServer::start().await;
        server.put("things", object("a", 1));
        let watching = asked(&server, "/api/v1/things?watch=true&sendInitialEvents=true", "\"value\":7");
        let changing = async {
            // Until the watch is there, the change is part of what it begins with.
            server.put("things", object("a", 7));
        };
        let (seen, ()) = tokio::join!(watching, changing);
        assert!(seen.contains("\"type\":\"ADDED\"") || seen.contains("\"type\":\"MODIFIED\""), "{seen}");
    }

    #[tokio::test]
    async fn objects_are_made_replaced_and_patched_at_the_version_that_they_have() {
        let (server, path) = (ApiServer::start().await, "/apis/x/v1/namespaces/shop/things");
        let (one, status) = (format!("{path}/a"), format!("{path}/a/status"));
        let made = written(&server, "POST", path, &object("a", 1)).await;
        assert!(made.starts_with("HTTP/1.1 201"), "{made}");
        let again = written(&server, "POST", path, &object("a", 1)).await;
        assert!(again.contains("AlreadyExists"), "{again}");
        let late = json!({ "metadata": { "resourceVersion": "7" }, "status": 2 });
        assert!(written(&server, "PUT", &status, &late).await.starts_with("HTTP/1.1 409"));
        let current =
            json!({ "metadata": { "resourceVersion": "1" }, "value": 9, "status": { "a": 2, "b": 3 } });
        assert!(written(&server, "PUT", &status, &current).await.starts_with("HTTP/1.1 200"));
        let patch = json!({ "status": { "a": null } });
        assert!(written(&server, "PATCH", &status, &patch).await.starts_with("HTTP/1.1 200"));
        let found = &server.objects("things")[0];
        assert_eq!((&found["value"], &found["status"]), (&json!(1), &json!({ "b": 3 })));
        assert!(asked(&server, &one, "}").await.starts_with("HTTP/1.1 200"));
        assert!(asked(&server, &format!("{path}/b"), "}").await.starts_with("HTTP/1.1 404"));
    }

    #[tokio::test]
    async fn from_the_first_role_on_only_what_roles_allow_is_permitted() {
        let server = ApiServer::start().await;
        server.put("things", object("a", 1));
        let rules = json!([
            { "apiGroups": ["x"], "resources": ["things"], "verbs": ["list", "watch"] },
            { "apiGroups": ["x"], "resources": ["things"], "resourceNames": ["a"], "verbs": ["get"] },
            { "apiGroups": ["x"], "resources": ["things/status"], "verbs": ["update"] },
        ]);
        server.grant(&json!({ "kind": "Role", "metadata": { "namespace": "shop" }, "rules": rules }));
        let path = "/apis/x/v1/namespaces/shop/things";
        let (one, status) = (format!("{path}/a"), format!("{path}/a/status"));
        for allowed in [path, &one, "/version"] {
            assert!(asked(&server, allowed, "}").await.starts_with("HTTP/1.1 200"), "{allowed}");
        }
        assert!(written(&server, "PUT", &status, &json!({ "status": 1 })).await.starts_with("HTTP/1.1 200"));
        assert_eq!(server.refused(), [""; 0]);
        let refusals = [
            (
                "PATCH",
                &*status,
                "cannot patch resource \"things/status\" in API group \"x\" in the namespace \"shop\"",
            ),
            ("PUT", &one, "cannot update resource \"things\" in API group \"x\" in the namespace \"shop\""),
            ("GET", "/apis/x/v1/things", "cannot list resource \"things\" in API group \"x\""),
            (
                "GET",
                &format!("{path}/b"),
                "cannot get resource \"things\" in API group \"x\" in the namespace \"shop\"",
            ),
        ];
        for (method, path, _) in &refusals {
            assert!(written(&server, method, path, &json!({})).await.starts_with("HTTP/1.1 403"), "{path}");
        }
        assert_eq!(server.refused(), refusals.map(|(_, _, refusal)| refusal));
    }
}
