//! Compressed responses and their caching headers: replays the recorded requests (`cases/`) to nginx (gzip) and Caddy (Zstandard)
//! against the real binary. `record` in this folder records the responses again. A case in which Fairway differs on purpose states
//! how and why; the test fails if Fairway behaves in a third way, or if the difference is gone.

mod case;
mod origin;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;

use fairway_testkit::manifests::{Ingress, Manifests, config_map, ingress_class, service_with_endpoints};
use fairway_testkit::{Backend, Client, Fairway, RawResponse, Request, wire};
use flate2::read::MultiGzDecoder;

use case::{Answered, Case, File, Group};
use server::{Running, Server};

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");
const HOST: &str = "a.test";

/// The files of `cases/`, the server that responded, and the minimum number of cases in each.
const SETS: [(&str, Server, usize); 2] =
    [("nginx-gzip", Server::Nginx, 130), ("caddy-zstd", Server::Caddy, 60)];

/// Response headers that are compared.
const COMPARED: [&str; 12] = [
    "accept-ranges",
    "cache-control",
    "content-digest",
    "content-encoding",
    "content-md5",
    "content-range",
    "content-type",
    "digest",
    "etag",
    "last-modified",
    "repr-digest",
    "vary",
];

/// Request headers to the endpoint that are compared, because its response depends on them.
const SEEN: [&str; 5] = ["accept-encoding", "if-match", "if-none-match", "if-range", "range"];

#[tokio::test]
async fn responses_are_compressed_as_by_nginx_and_caddy_or_differ_by_design() {
    let mut wrong = Vec::new();
    for (name, server, min_cases) in SETS {
        let mut file = File::read(name);
        if let Some(program) = server.to_record() {
            for group in &mut file.groups {
                record(group, server, &program).await;
            }
            file.write();
        }
        let count: usize = file.groups.iter().map(|group| group.cases.len()).sum();
        assert!(count >= min_cases, "{name}: {count} cases");
        for group in &file.groups {
            wrong.extend(replay(group).await.into_iter().map(|found| format!("{name}: {found}")));
        }
    }
    assert!(wrong.is_empty(), "{} deviations:\n{}", wrong.len(), wrong.join("\n"));
}

/// Sends the request to the server and records the response.
async fn record(group: &mut Group, server: Server, program: &Path) {
    let backend = origin::start(&group.cases).await;
    let running = Running::start(server, program, &group.keys, backend.address()).await;
    for number in 0..group.cases.len() {
        let answered = send_case(running.address, number, &group.cases[number], &backend).await;
        group.cases[number].recorded = Some(answered);
    }
}

/// Sends the requests to Fairway and returns the deviations from the recording.
async fn replay(group: &Group) -> Vec<String> {
    let backend = origin::start(&group.cases).await;
    let manifests = manifests(&group.keys, backend.address());
    let fairway = Fairway::ready(Path::new(BINARY), manifests.path(), &["--configmap", "a/settings"]).await;
    let mut found = Vec::new();
    for (number, case) in group.cases.iter().enumerate() {
        let now = send_case(fairway.http, number, case, &backend).await;
        found.extend(case.judge(&now).map(|problem| format!("{}: {}: {problem}", group.name, case.about)));
    }
    found
}

fn manifests(keys: &BTreeMap<String, String>, backend: SocketAddr) -> Manifests {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    let ingress = Ingress::new("a", "web").class(Some("fairway")).route(HOST, "/", ("web", 80));
    manifests.put("web.yaml", ingress.yaml());
    manifests.put("service.yaml", service_with_endpoints("a", "web", 80, &[backend]));
    let keys: Vec<_> = keys.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    manifests.put("settings.yaml", config_map("a", "settings", &keys));
    manifests
}

/// One exchange over a new connection.
async fn send_case(address: SocketAddr, number: usize, case: &Case, backend: &Backend) -> Answered {
    let before = backend.request_count();
    let mut client = Client::connect(address).await.unwrap();
    let mut request = Request::new(&case.request.method, &format!("/{number}")).header("Host", HOST);
    for (name, value) in &case.request.headers {
        request = request.header(name, value);
    }
    if case.request.http10 {
        request = request.http10();
    }
    let response = client.exchange(&request.close()).await.ok();
    let received = backend.requests().get(before).map(|request| joined(&request.headers, &SEEN));
    let received = received.unwrap_or_default();
    match response {
        Some(response) => Answered {
            status: response.status,
            headers: joined(&response.headers, &COMPARED),
            framing: framing(&response).to_owned(),
            body: body(&response, case).to_owned(),
            trailers: response.trailers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect(),
            seen: received,
        },
        None => Answered { seen: received, ..Answered::default() },
    }
}

/// The values of these headers, by name. `Vary` is a set.
fn joined(fields: &wire::Fields, names: &[&str]) -> BTreeMap<String, String> {
    let value = |name: &str| {
        let value = wire::values(fields, name).join(", ");
        if name != "vary" {
            return value;
        }
        let names: BTreeSet<_> = value.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let is_there = |name: &&&str| !wire::values(fields, name).is_empty();
    names.iter().filter(is_there).map(|name| ((*name).to_owned(), value(name))).collect()
}

/// How the end of the body is marked.
fn framing(response: &RawResponse) -> &'static str {
    let has_length = response.header("Content-Length").is_some();
    match response.framing {
        _ if response.header("Transfer-Encoding").is_some() => "chunked",
        _ if has_length => "length",
        wire::Framing::Close => "close",
        _ => "none",
    }
}

/// The endpoint's body as the client received it.
fn body(response: &RawResponse, case: &Case) -> &'static str {
    let full_text = origin::text(case.endpoint.body);
    match response.header_values("Content-Encoding").as_slice() {
        _ if response.body.is_empty() => "none",
        ["gzip"] if ungzip(&response.body).as_ref() == Some(&full_text) => "decodes to the endpoint's",
        ["zstd"] if unzstd(&response.body).as_ref() == Some(&full_text) => "decodes to the endpoint's",
        _ if response.body == full_text => "the endpoint's",
        _ if full_text.windows(response.body.len()).any(|part| part == response.body) => {
            "a part of the endpoint's"
        }
        _ => "another",
    }
}

/// The decompressed content, if the body is complete and nothing follows.
fn ungzip(body: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    MultiGzDecoder::new(body).read_to_end(&mut content).ok().map(|_| content)
}

/// The decompressed content of Zstandard.
fn unzstd(body: &[u8]) -> Option<Vec<u8>> {
    let mut content = vec![0; 1 << 20];
    let length = zstd_safe::decompress(&mut content[..], body).ok()?;
    content.truncate(length);
    Some(content)
}
