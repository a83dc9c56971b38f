//! A new process replaces a running one: no request fails, and if the new process fails, the old one keeps serving.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fairway_proxy::handover::{HandoverSocket, Predecessor};
use fairway_testkit::backend::{Backend, BackendResponse};
use fairway_testkit::client::{Client, Request};
use fairway_testkit::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use fairway_testkit::process::Fairway;
use fairway_testkit::proof::fleet::Fleet;
use fairway_testkit::proof::site::{Endpoint, Scheme, Site};
use fairway_testkit::proof::traffic::{Load, Progress, send};
use fairway_testkit::wait::{WAIT_TIMEOUT, eventually, free_address};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

const BINARY: &str = env!("CARGO_BIN_EXE_fairway");

/// The message of a process that serves in place of another one.
const REPLACED: &str = "accepting connections in place of this process";

fn binary() -> &'static Path {
    Path::new(BINARY)
}

/// A directory for the upgrade socket.
struct Meeting(TempDir);

impl Meeting {
    fn new() -> Self {
        let directory = TempDir::with_prefix("fairway-upgrade-").unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).unwrap();
        Self(directory)
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("socket")
    }

    /// The flags of a process that serves `manifests`.
    fn flags(&self, manifests: &Path, workers: usize) -> Vec<String> {
        let (socket, manifests) = (self.socket(), manifests.display());
        let flags = format!(
            "--manifests {manifests} --workers {workers} --drain-delay 1 --access-log off --upgrade-socket {}",
            socket.display()
        );
        flags.split(' ').map(str::to_owned).collect()
    }
}

/// Starts a process that replaces `old`.
fn successor(old: &Fairway, flags: &[String], additional_flags: &[&str]) -> Fairway {
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(additional_flags.iter().copied()).collect();
    old.start_successor(binary(), &flags)
}

async fn first(flags: &[String]) -> Fairway {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Fairway::start_with(binary(), &flags).until_ready().await
}

/// Requests that continue until they are stopped.
struct Traffic {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: Vec<JoinHandle<BTreeMap<String, u64>>>,
}

impl Traffic {
    /// A share of the requests of each client uses new connections.
    fn start(endpoints: Vec<(Endpoint, f64)>) -> Self {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let client = |(endpoint, fresh)| {
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            tokio::spawn(async move {
                let mut failed = BTreeMap::<String, u64>::new();
                let load = Load { requests: 400, connections: 2, posts: 0.3, fresh };
                while !stop.load(Ordering::Relaxed) {
                    let tally = send(&load, &endpoint, &Progress::default()).await;
                    for outcomes in [tally.gets, tally.posts] {
                        answered.fetch_add(outcomes.answered, Ordering::Relaxed);
                        outcomes
                            .failed
                            .into_iter()
                            .for_each(|(what, count)| *failed.entry(what).or_default() += count);
                    }
                }
                failed
            })
        };
        let clients = endpoints.into_iter().map(client).collect();
        Self { stop, answered, clients }
    }

    /// Waits until many more requests have got a response.
    async fn until_more(&self) {
        let before = self.answered.load(Ordering::Relaxed);
        let has_answered_more = || async { self.answered.load(Ordering::Relaxed) > before + 2_000 };
        eventually("requests are answered", WAIT_TIMEOUT, has_answered_more).await;
    }

    /// The number of responses, and the failures.
    async fn end(self) -> (u64, BTreeMap<String, u64>) {
        self.stop.store(true, Ordering::Relaxed);
        let mut failed = BTreeMap::new();
        for client in self.clients {
            for (what, count) in client.await.unwrap() {
                *failed.entry(what).or_default() += count;
            }
        }
        (self.answered.load(Ordering::Relaxed), failed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrades_under_load_lose_no_request_whatever_the_number_of_workers() {
    let (site, meeting) = (Site::new(), Meeting::new());
    let mut fleet = Fleet::new(binary(), &site.numbers());
    fleet.grow(2).await;
    site.list(&fleet.addresses());
    let mut current = first(&meeting.flags(site.manifests().path(), 2)).await;
    let endpoints = [(Scheme::Plain, 0.02), (Scheme::Plain, 1.0), (Scheme::Tls, 0.02), (Scheme::Tls, 0.5)];
    let endpoint = |(scheme, fresh)| (site.endpoint(&current, scheme), fresh);
    let traffic = Traffic::start(endpoints.into_iter().map(endpoint).collect());
    traffic.until_more().await;
    for workers in [1, 3, 2] {
        let next = successor(&current, &meeting.flags(site.manifests().path(), workers), &[]);
        next.line_with(REPLACED).await;
        traffic.until_more().await;
        assert!(current.program().exit_within(WAIT_TIMEOUT).await.success(), "{:#?}", current.lines());
        traffic.until_more().await;
        assert_eq!(next.admin("/readyz").await.unwrap().status, 200);
        current = next;
    }
    let (answered, failed) = traffic.end().await;
    println!("{answered} requests through 3 upgrades, failed: {failed:?}");
    assert_eq!(failed, BTreeMap::new(), "of {answered}");
}

/// A site whose backend responds when it is released.
async fn held_site() -> (Manifests, Backend) {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("fairway", "fairway.dev/ingress-controller"));
    let backend = Backend::http(|request| match request.target.as_str() {
        "/held" => BackendResponse::ok("late").hold(),
        _ => BackendResponse::ok("fine"),
    })
    .await;
    manifests.put("service.yaml", service_with_endpoints("shop", "web", 80, &[backend.address()]));
    let ingress = Ingress::new("shop", "web").class(Some("fairway")).route("a.test", "/", ("web", 80));
    manifests.put("ingress.yaml", ingress.yaml());
    (manifests, backend)
}

async fn fine(address: SocketAddr) -> bool {
    let Ok(mut client) = Client::connect(address).await else { return false };
    client
        .exchange(&Request::get("a.test", "/").close())
        .await
        .is_ok_and(|response| response.text() == "fine")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_under_way_ends_in_the_old_process_while_the_new_one_serves() {
    let ((manifests, backend), meeting) = (held_site().await, Meeting::new());
    let flags = meeting.flags(manifests.path(), 1);
    let mut old = first(&flags).await;
    let mut client = Client::connect(old.http).await.unwrap();
    client.send(Request::get("a.test", "/held").bytes()).await.unwrap();
    backend.wait_until("the request is there", |backend| backend.waiting_count() == 1).await;
    // A connection to the admin server that has received its response.
    let mut probe = Client::connect(old.admin).await.unwrap();
    assert_eq!(probe.exchange(&Request::get("a", "/readyz")).await.unwrap().status, 200);
    let new = successor(&old, &flags, &[]);
    new.line_with(REPLACED).await;
    old.line_with("has replaced this one").await;
    assert!(fine(new.http).await && old.program().is_running());
    // Requests to this address reach the new process.
    probe.expect_closed().await;
    assert_eq!(new.admin("/readyz").await.unwrap().status, 200);
    backend.release();
    let response = client.read_response().await.unwrap();
    assert_eq!((response.status, response.text().as_str()), (200, "late"));
    assert_eq!(response.header("connection"), Some("close"));
    assert!(old.program().exit_within(WAIT_TIMEOUT).await.success());
    assert!(fine(new.http).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_process_keeps_serving_if_the_new_one_fails() {
    let ((manifests, _backend), meeting) = (held_site().await, Meeting::new());
    let flags = meeting.flags(manifests.path(), 2);
    let mut old = first(&flags).await;
    let none = meeting.flags(&manifests.path().join("none"), 2);
    let bound = TcpListener::bind("127.0.0.1:0").unwrap();
    let in_use = bound.local_addr().unwrap().to_string();
    for (flags, more, part) in [
        (&none, vec![], "--manifests"),
        (&flags, vec!["--probe", &in_use], "--probe"),
        (&flags, vec!["--max-head-bytes", "4096"], "--max-request-line-bytes"),
        (&flags, vec!["--http", &in_use], "--http"),
    ] {
        // If a flag can be given only once, the last one wins: this replaces the addresses of --http.
        let mut new = successor(&old, flags, &more);
        assert_eq!(new.program().exit_within(WAIT_TIMEOUT).await.code(), Some(2), "{:#?}", new.lines());
        new.line_with(part).await;
        assert!(fine(old.http).await && old.program().is_running());
    }
    // Another process that gets the sockets but exits before it is ready.
    let rendezvous = HandoverSocket::at(&meeting.socket()).unwrap();
    let request_sockets = || Predecessor::request_sockets(&rendezvous).unwrap().unwrap();
    let (predecessor, sockets) = tokio::task::block_in_place(request_sockets);
    assert_eq!(u32::try_from(predecessor.id()).unwrap(), old.program().id());
    assert_eq!(
        sockets.len(),
        2 + 2 + 1,
        "the sockets of HTTP and HTTPS for each worker and of the admin server"
    );
    drop((predecessor, sockets));
    old.line_with("did not become ready").await;
    for _ in 0..20 {
        assert!(fine(old.http).await);
    }
    assert_eq!(old.admin("/readyz").await.unwrap().status, 200);
    // The next one succeeds.
    let new = successor(&old, &flags, &[]);
    new.line_with(REPLACED).await;
    assert!(old.program().exit_within(WAIT_TIMEOUT).await.success());
    assert!(fine(new.http).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_process_can_be_replaced_by_a_new_one() {
    let ((manifests, backend), meeting) = (held_site().await, Meeting::new());
    let flags = meeting.flags(manifests.path(), 1);
    let mut old = first(&flags).await;
    let mut client = Client::connect(old.http).await.unwrap();
    client.send(Request::get("a.test", "/held").bytes()).await.unwrap();
    backend.wait_until("the request is there", |backend| backend.waiting_count() == 1).await;
    old.program().terminate().unwrap();
    old.line_with("draining").await;
    let mut refused = successor(&old, &flags, &[]);
    assert_eq!(refused.program().exit_within(WAIT_TIMEOUT).await.code(), Some(2));
    refused.line_with("the running process refuses: it is stopping").await;
    backend.release();
    assert_eq!(client.read_response().await.unwrap().status, 200);
    assert!(old.program().exit_within(WAIT_TIMEOUT).await.success());
    // It has left its socket file behind, without a listener.
    assert!(meeting.socket().exists());
    let new = successor(&old, &flags, &[]).until_ready().await;
    assert!(fine(new.http).await);
}

/// `fairway run` with a socket as its descriptor 3, as systemd passes it. Started through sh, to which Rust can pass sockets as
/// standard input.
fn activated(socket: TcpListener, count: &str, flags: &[String], notify: Option<&Path>) -> Child {
    let script = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=$0; exec \"$@\"";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, count, BINARY, "run"]).args(flags);
    if let Some(path) = notify {
        command.env("NOTIFY_SOCKET", path);
    }
    command.stdin(OwnedFd::from(socket)).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().unwrap()
}

fn addresses(http: SocketAddr) -> Vec<String> {
    let [https, admin] = [(); 2].map(|()| free_address());
    let flags = format!("--http {http} --https {https} --admin {admin}");
    flags.split(' ').map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_of_the_service_manager_are_used_in_place_of_binding() {
    let ((manifests, _backend), meeting) = (held_site().await, Meeting::new());
    let socket = TcpListener::bind(free_address()).unwrap();
    let http = socket.local_addr().unwrap();
    // The socket already listens, so connections wait until the process accepts them.
    let waiting = tokio::spawn(async move { fine(http).await });
    let notifications = UnixDatagram::bind(meeting.0.path().join("notify")).unwrap();
    notifications.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
    let flags = [addresses(http), meeting.flags(manifests.path(), 3)].concat();
    let mut process = activated(socket, "1", &flags, Some(&meeting.0.path().join("notify")));
    let message = tokio::task::block_in_place(|| {
        let mut message = [0; 64];
        let length = notifications.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    });
    assert_eq!(message, "READY=1\n");
    assert!(waiting.await.unwrap());
    for _ in 0..20 {
        assert!(fine(http).await);
    }
    assert!(process.try_wait().unwrap().is_none());
    process.kill().await.unwrap();
    let gone = || async { Client::connect(http).await.is_err() };
    eventually("nobody listens any more", WAIT_TIMEOUT, gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_of_the_service_manager_that_no_flag_names_is_an_error() {
    let (manifests, _backend) = held_site().await;
    let meeting = Meeting::new();
    let flags = [addresses(free_address()), meeting.flags(manifests.path(), 1)].concat();
    let socket = || TcpListener::bind("127.0.0.1:0").unwrap();
    for (count, part) in
        [("1", "but none of --http"), ("2", "service manager"), ("x", "LISTEN_FDS is not a number")]
    {
        let process = activated(socket(), count, &flags, None);
        let output =
            tokio::time::timeout(Duration::from_secs(60), process.wait_with_output()).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(part), "{count}: {text}");
    }
}
