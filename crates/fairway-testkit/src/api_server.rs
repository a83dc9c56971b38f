//! An API server for tests and benchmarks: it lists and watches the objects that it is given, in pages and as streams, and takes
//! no request that writes. Knows no rule of any kind.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

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
    /// What changed: the resource and the event.
    events: broadcast::Sender<(String, Arc<str>)>,
}

#[derive(Debug, Default)]
struct Objects {
    /// By resource, then by namespace and name.
    all: BTreeMap<String, BTreeMap<String, Arc<str>>>,
    revision: u64,
}

/// What is asked for.
struct Asked {
    path: String,
    query: BTreeMap<String, String>,
}

impl ApiServer {
    /// Starts on a free port of the loopback address.
    ///
    /// # Panics
    ///
    /// When it cannot listen, or no file can be written.
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared { objects: Mutex::default(), events: broadcast::channel(BEHIND).0 });
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
    pub fn put(&self, resource: &str, mut object: Value) {
        let mut objects = self.shared.lock();
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
        _ = self.shared.events.send((resource.to_owned(), event(change, &text)));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Objects {
    /// Those of a resource, all of them or the one of a name.
    fn named(&self, resource: &str, fields: Option<&String>) -> Vec<Arc<str>> {
        let all = self.all.get(resource).into_iter().flatten();
        let name = fields.and_then(|fields| fields.strip_prefix("metadata.name="));
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
    let (mut lines, mut write) = (BufReader::new(read).lines(), BufWriter::with_capacity(1 << 16, write));
    while let Some(first) = lines.next_line().await? {
        while lines.next_line().await?.is_some_and(|line| !line.is_empty()) {}
        let asked = Asked::read(&first);
        if asked.query.contains_key("watch") {
            return watch(&asked, shared, &mut write).await;
        }
        let (status, body) = answer(&asked, shared);
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

impl Asked {
    /// Of the first line of a request.
    fn read(line: &str) -> Self {
        let target = line.split(' ').nth(1).unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let decoded = |text: &str| text.replace("%3D", "=").replace("%2F", "/");
        let query = pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect();
        Self { path: path.to_owned(), query }
    }

    fn resource(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.query.get(name)?.parse().ok()
    }
}

fn answer(asked: &Asked, shared: &Shared) -> (&'static str, String) {
    match asked.path.trim_start_matches('/').split('/').collect::<Vec<_>>().as_slice() {
        ["version"] => {
            ("200 OK", json!({ "major": "1", "minor": "36", "gitVersion": "v1.36.0" }).to_string())
        }
        ["readyz" | "livez" | "healthz"] => ("200 OK", "\"ok\"".to_owned()),
        ["apis", group] if *group == GATEWAYS => {
            let version = json!({ "groupVersion": format!("{GATEWAYS}/v1"), "version": "v1" });
            let group = json!({
                "kind": "APIGroup", "apiVersion": "v1", "name": GATEWAYS,
                "versions": [version], "preferredVersion": version,
            });
            ("200 OK", group.to_string())
        }
        ["apis", group, "v1"] if *group == GATEWAYS => ("200 OK", resources().to_string()),
        [.., "v1", _] | [.., "namespaces", _, _] => ("200 OK", list(asked, shared)),
        _ => ("404 Not Found", json!({ "kind": "Status", "status": "Failure", "code": 404 }).to_string()),
    }
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
fn list(asked: &Asked, shared: &Shared) -> String {
    let objects = shared.lock();
    let all = objects.named(asked.resource(), asked.query.get("fieldSelector"));
    let from = asked.number("continue").unwrap_or(0).min(all.len());
    let to = asked.number("limit").map_or(all.len(), |limit| (from + limit).min(all.len()));
    let rest = if to < all.len() { to.to_string() } else { String::new() };
    let metadata = json!({ "resourceVersion": objects.revision.to_string(), "continue": rest });
    format!("{{\"metadata\":{metadata},\"items\":[{}]}}", all[from..to].join(","))
}

async fn watch(asked: &Asked, shared: &Shared, write: &mut BufWriter<OwnedWriteHalf>) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    write.write_all(head.as_bytes()).await?;
    let resource = asked.resource();
    // What changes from here on is heard; what was there by then is in the list.
    let (mut events, all, revision) = {
        let objects = shared.lock();
        let all = objects.named(resource, asked.query.get("fieldSelector"));
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
        let config: Value =
            serde_json::from_slice(&std::fs::read(server.kubeconfig()).unwrap()).expect("JSON");
        let address = config["clusters"][0]["cluster"]["server"].as_str().unwrap();
        let mut stream = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.unwrap();
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
}
