//! Early data at real sockets: which requests are served before the handshake is complete, which wait for it, and what becomes of copies.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::{AccessList, Config, Forwarding, Guard, Listener, Phases};
use quinn_proto::ConnectionHandle;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::UdpSocket;

use super::testing::{Client, HANGS, Process, config, offering, until};
use crate::testing::{Meeting, OK, Stage, filtered, on_stage};

const CONNECTIONS: &str = "fairway_http3_early_data_connections_total";
const SERVED: &str = "fairway_http3_early_data_requests_total";
const DELAYED: &str = "fairway_http3_early_data_delayed_requests_total";
const FULL: &str = "fairway_tls_handshakes_full_total";

const TOO_EARLY: &[u8] = b"HTTP/1.1 425 Too Early\r\nContent-Length: 0\r\n\r\n";

/// The heads of the requests that endpoints got, in lower case.
#[derive(Clone, Default)]
struct Heard(Rc<RefCell<Vec<String>>>);

impl Heard {
    /// Endpoints that give this answer to every request.
    fn answering(&self, answer: &'static [u8]) -> impl Fn(SocketAddr) -> Meeting + Clone + 'static {
        let heard = self.clone();
        move |_| {
            let heard = heard.clone();
            Meeting::with(move |stream| heard.serve(stream, answer))
        }
    }

    async fn serve(self, mut stream: DuplexStream, answer: &'static [u8]) {
        let mut head = Vec::new();
        while let Ok(byte) = stream.read_u8().await {
            head.push(byte);
            if head.ends_with(b"\r\n\r\n") {
                let whole = String::from_utf8(std::mem::take(&mut head)).unwrap();
                // The end of an empty body in chunks looks like a head.
                if whole != "0\r\n\r\n" {
                    self.0.borrow_mut().push(whole.to_ascii_lowercase());
                    stream.write_all(answer).await.unwrap();
                }
            }
        }
    }

    /// Whether each of the requests said that it is in early data.
    fn early(&self) -> Vec<bool> {
        self.0.borrow().iter().map(|head| head.contains("\r\nearly-data: 1\r\n")).collect()
    }
}

/// A listener for `a.test` with early data, and a rule with these guards.
fn taking_early_data(guards: Vec<Guard>) -> Config {
    with_guards(guards, |listener| listener.clients.early_data = Some(true))
}

fn with_guards(guards: Vec<Guard>, edit: impl Fn(&mut Listener)) -> Config {
    let mut config = config(&["a.test"], edit);
    config.hosts = filtered(1, vec![Phases { guards, ..Phases::default() }]).hosts;
    config
}

fn loopback_only() -> Guard {
    Guard::Access(AccessList { deny: Vec::new(), allow: vec!["127.0.0.0/8".parse().unwrap()] })
}

async fn client() -> Client {
    let mut tls = offering(&["h3"]);
    tls.enable_early_data = true;
    Client::new(tls).await
}

/// Begins a connection with early data, after one that brings the session for it. Nothing of it is sent yet.
async fn connect_early(client: &mut Client, to: SocketAddr) -> ConnectionHandle {
    for _ in 0..10 {
        let handle = client.connect(to, "a.test");
        if client.connections[&handle].quic.has_0rtt() {
            return handle;
        }
        assert_eq!(client.finish(handle).await, None);
        let number = client.ask(handle, "a.test");
        assert_eq!(client.answered(handle, number).await, 200);
    }
    panic!("no session for early data");
}

fn ask(client: &mut Client, handle: ConnectionHandle, method: &str, ends: bool) -> u64 {
    let connection = client.connections.get_mut(&handle).unwrap();
    let pseudo = [(":method", method), (":scheme", "https"), (":authority", "a.test"), (":path", "/")];
    connection.talk.ask(&mut connection.quic, &pseudo, &[], ends)
}

/// Where datagrams go that the server does not get.
async fn nowhere() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[tokio::test]
async fn a_safe_request_is_answered_before_the_handshake_is_complete() {
    on_stage(async {
        let heard = Heard::default();
        let process = Process::over(1, &taking_early_data(Vec::new()), heard.answering(OK)).await;
        let mut client = client().await;
        for method in ["GET", "HEAD", "OPTIONS"] {
            let handle = connect_early(&mut client, process.addresses[0]).await;
            heard.0.borrow_mut().clear();
            let served = process.value(0, SERVED);
            let number = ask(&mut client, handle, method, true);
            client.send().await;
            // Nothing that the client sends from now on arrives, so that its handshake does not end.
            let (_socket, lost) = nowhere().await;
            client.detour.set(Some(lost));
            assert_eq!(client.answered(handle, number).await, 200);
            assert_eq!(heard.early(), [true], "{method}");
            assert_eq!(process.value(0, SERVED), served + 1);
            client.detour.set(None);
            let number = client.ask(handle, "a.test");
            assert_eq!(client.answered(handle, number).await, 200);
            assert!(client.connections[&handle].quic.accepted_0rtt());
            assert_eq!(heard.early(), [true, false], "the handshake is complete");
        }
        assert_eq!((process.value(0, CONNECTIONS), process.value(0, DELAYED)), (3, 0));
    })
    .await;
}

#[tokio::test]
async fn all_other_requests_wait_for_the_handshake() {
    on_stage(async {
        let guarded = || vec![loopback_only()];
        for (method, ends, guards) in
            [("POST", true, Vec::new()), ("GET", false, Vec::new()), ("GET", true, guarded())]
        {
            let heard = Heard::default();
            let process = Process::over(1, &taking_early_data(guards), heard.answering(OK)).await;
            let mut client = client().await;
            let handle = connect_early(&mut client, process.addresses[0]).await;
            heard.0.borrow_mut().clear();
            let number = ask(&mut client, handle, method, ends);
            client.send().await;
            let (_socket, lost) = nowhere().await;
            client.detour.set(Some(lost));
            client.until(|_| process.value(0, DELAYED) == 1).await;
            assert_eq!(heard.early(), [false; 0], "{method} waits");
            client.detour.set(None);
            client.connections.get_mut(&handle).unwrap().talk.send(number, b"", true);
            assert_eq!(client.answered(handle, number).await, 200);
            assert_eq!(heard.early(), [false], "{method}");
            assert_eq!((process.value(0, CONNECTIONS), process.value(0, SERVED)), (1, 0));
        }
    })
    .await;
}

#[tokio::test]
async fn a_copy_of_early_data_is_not_served_as_such_again() {
    on_stage(async {
        let (heard, elsewhere) = (Heard::default(), Heard::default());
        let process = Process::over(2, &taking_early_data(Vec::new()), heard.answering(OK)).await;
        let other = Process::over(1, &taking_early_data(Vec::new()), elsewhere.answering(OK)).await;
        let mut client = client().await;
        let handle = connect_early(&mut client, process.addresses[0]).await;
        heard.0.borrow_mut().clear();
        let (tap, address) = nowhere().await;
        client.detour.set(Some(address));
        ask(&mut client, handle, "GET", true);
        client.send().await;
        let mut flight = vec![0; 2048];
        let length = tap.recv(&mut flight).await.unwrap();
        flight.truncate(length);

        // The first one to arrive is served, whoever sends it.
        tap.send_to(&flight, process.addresses[0]).await.unwrap();
        until(|| heard.early() == [true]).await;
        // Copies reach the same worker, another one, and another process.
        for to in [process.addresses[0], process.addresses[1], other.addresses[0]] {
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            socket.send_to(&flight, to).await.unwrap();
            if to == process.addresses[0] {
                // It belongs to the connection that is there, from another address, which nobody hears of.
                continue;
            }
            let mut answer = vec![0; 2048];
            tokio::time::timeout(HANGS, socket.recv(&mut answer)).await.unwrap().unwrap();
        }
        assert_eq!((process.value(0, CONNECTIONS), process.value(1, CONNECTIONS)), (1, 0));
        assert_eq!((process.value(1, SERVED), process.value(1, DELAYED)), (0, 0));
        assert_eq!((other.value(0, CONNECTIONS), other.value(0, SERVED)), (0, 0));
        assert_eq!((heard.early(), elsewhere.early()), (vec![true], Vec::new()));
    })
    .await;
}

#[tokio::test]
async fn another_address_another_process_and_a_listener_without_it_accept_no_early_data() {
    on_stage(async {
        for what in ["address", "process", "listener"] {
            let heard = Heard::default();
            let taking = taking_early_data(Vec::new());
            let mut process = Process::over(1, &taking, heard.answering(OK)).await;
            let mut client = client().await;
            // The session is for this connection, which is not used.
            let unused = connect_early(&mut client, process.addresses[0]).await;
            client.connections.remove(&unused);
            let full = process.value(0, FULL);
            let (other, to) = match what {
                "process" => {
                    let other = Process::over(1, &taking_early_data(Vec::new()), heard.answering(OK)).await;
                    let to = other.addresses[0];
                    (Some(other), to)
                }
                _ => (None, process.addresses[0]),
            };
            match what {
                "address" => client.move_to(2).await,
                "listener" => {
                    let mut without = taking.clone();
                    for listener in taking.listeners.values() {
                        let mut listener = (**listener).clone();
                        listener.clients.early_data = None;
                        without.listeners.insert(listener.name.clone(), listener.into());
                    }
                    process.publish(&without);
                }
                _ => {}
            }
            let handle = client.connect(to, "a.test");
            assert!(client.connections[&handle].quic.has_0rtt(), "{what}: the client has one more session");
            heard.0.borrow_mut().clear();
            client.ask(handle, "a.test");
            assert_eq!(client.finish(handle).await, None, "{what}");
            assert!(!client.connections[&handle].quic.accepted_0rtt(), "{what}");
            let number = client.ask(handle, "a.test");
            assert_eq!(client.answered(handle, number).await, 200, "{what}");
            assert_eq!(heard.early(), [false], "{what}: nothing was served before");
            let handshakes = other.as_ref().unwrap_or(&process);
            assert!(handshakes.value(0, FULL) > if other.is_some() { 0 } else { full }, "{what}");
            assert_eq!(handshakes.value(0, SERVED), 0, "{what}");
        }
    })
    .await;
}

#[tokio::test]
async fn sessions_bring_no_early_data_unless_that_is_asked_for() {
    on_stage(async {
        let process = Process::start(1, &with_guards(Vec::new(), |_| {})).await;
        let mut client = client().await;
        for _ in 0..5 {
            let handle = client.connect(process.addresses[0], "a.test");
            assert!(!client.connections[&handle].quic.has_0rtt());
            assert_eq!(client.finish(handle).await, None);
            let number = client.ask(handle, "a.test");
            assert_eq!(client.answered(handle, number).await, 200);
        }
        assert!(process.value(0, "fairway_tls_handshakes_resumed_total") > 0);
    })
    .await;
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_given_up_with_what_waits_for_it() {
    on_stage(async {
        let heard = Heard::default();
        let config = with_guards(Vec::new(), |listener| {
            listener.clients.early_data = Some(true);
            listener.clients.handshake_timeout = Some(Duration::from_secs(1));
        });
        let process = Process::over(1, &config, heard.answering(OK)).await;
        let mut client = client().await;
        let handle = connect_early(&mut client, process.addresses[0]).await;
        heard.0.borrow_mut().clear();
        ask(&mut client, handle, "POST", true);
        client.send().await;
        let given_up = "fairway_refused_connections_total{reason=\"handshake_timeout\"}";
        until(|| process.value(0, DELAYED) == 1).await;
        assert_eq!(process.value(0, given_up), 0);
        until(|| process.value(0, given_up) == 1).await;
        until(|| process.value(0, "fairway_http3_streams_open") == 0).await;
        assert_eq!(heard.early(), [false; 0]);
    })
    .await;
}

#[tokio::test]
async fn too_early_is_for_the_client_and_no_other_endpoint_is_asked() {
    on_stage(async {
        let heard = Heard::default();
        let retried = Phases::from(Forwarding { retry_statuses: vec![425], ..Forwarding::default() });
        let stage = Stage::filtered(2, vec![retried], heard.answering(TOO_EARLY));
        let mut client = stage.client();
        let answer = client.ask(b"GET / HTTP/1.1\r\nHost: a\r\nEarly-Data: 1\r\n\r\n").await;
        assert_eq!(answer.unwrap().status, 425);
        assert_eq!(heard.early(), [true], "that of a proxy in front is passed on");
    })
    .await;
}
