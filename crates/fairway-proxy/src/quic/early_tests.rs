//! Early data over real sockets: which requests are served before the handshake completes, which wait, and what
//! happens to replays.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use fairway_model::{AccessList, Config, Forwarding, Guard, Listener, Phases};
use quinn_proto::ConnectionHandle;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::UdpSocket;

use super::testing::{Client, Process, TEST_TIMEOUT, client_tls, config, wait_until};
use crate::testing::{OK_RESPONSE, ScriptedConnect, TestWorker, config_with_phases, run_local};

const CONNECTIONS_METRIC: &str = "fairway_http3_early_data_connections_total";
const SERVED_METRIC: &str = "fairway_http3_early_data_requests_total";
const DELAYED_METRIC: &str = "fairway_http3_early_data_delayed_requests_total";
const FULL_HANDSHAKES_METRIC: &str = "fairway_tls_handshakes_full_total";

const TOO_EARLY_RESPONSE: &[u8] = b"HTTP/1.1 425 Too Early\r\nContent-Length: 0\r\n\r\n";

/// Request heads received by endpoints, in lower case.
#[derive(Clone, Default)]
struct ReceivedHeads(Rc<RefCell<Vec<String>>>);

impl ReceivedHeads {
    /// Endpoints that send this response to every request.
    fn answering(&self, response: &'static [u8]) -> impl Fn(SocketAddr) -> ScriptedConnect + Clone + 'static {
        let heads = self.clone();
        move |_| {
            let heads = heads.clone();
            ScriptedConnect::served_by(move |stream| heads.serve(stream, response))
        }
    }

    async fn serve(self, mut stream: DuplexStream, response: &'static [u8]) {
        let mut head = Vec::new();
        while let Ok(byte) = stream.read_u8().await {
            head.push(byte);
            if head.ends_with(b"\r\n\r\n") {
                let request = String::from_utf8(std::mem::take(&mut head)).unwrap();
                // The end of an empty chunked body looks like a head.
                if request != "0\r\n\r\n" {
                    self.0.borrow_mut().push(request.to_ascii_lowercase());
                    stream.write_all(response).await.unwrap();
                }
            }
        }
    }

    /// Whether each request was marked as early data.
    fn early_flags(&self) -> Vec<bool> {
        self.0.borrow().iter().map(|head| head.contains("\r\nearly-data: 1\r\n")).collect()
    }
}

/// A listener for `a.test` with early data, and a rule with these guards.
fn taking_early_data(guards: Vec<Guard>) -> Config {
    with_guards(guards, |listener| listener.clients.early_data = Some(true))
}

fn with_guards(guards: Vec<Guard>, edit: impl Fn(&mut Listener)) -> Config {
    let mut config = config(&["a.test"], edit);
    config.hosts = config_with_phases(1, vec![Phases { guards, ..Phases::default() }]).hosts;
    config
}

fn loopback_only() -> Guard {
    Guard::Access(AccessList { deny: Vec::new(), allow: vec!["127.0.0.0/8".parse().unwrap()] })
}

async fn client() -> Client {
    let mut tls = client_tls(&["h3"]);
    tls.enable_early_data = true;
    Client::new(tls).await
}

/// Starts a connection with early data, after one that obtained the session. Nothing is sent yet.
async fn connect_early(client: &mut Client, to: SocketAddr) -> ConnectionHandle {
    for _ in 0..10 {
        let handle = client.connect(to, "a.test");
        if client.connections[&handle].quic.has_0rtt() {
            return handle;
        }
        assert_eq!(client.finish_handshake(handle).await, None);
        let number = client.request(handle, "a.test");
        assert_eq!(client.response_status(handle, number).await, 200);
    }
    panic!("no session for early data");
}

fn send_request(client: &mut Client, handle: ConnectionHandle, method: &str, ends: bool) -> u64 {
    let connection = client.connections.get_mut(&handle).unwrap();
    let pseudo = [(":method", method), (":scheme", "https"), (":authority", "a.test"), (":path", "/")];
    connection.conversation.request(&mut connection.quic, &pseudo, &[], ends)
}

/// Sink for datagrams the server must not get.
async fn nowhere() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[tokio::test]
async fn a_safe_request_is_served_before_the_handshake_is_complete() {
    run_local(async {
        let heads = ReceivedHeads::default();
        let process =
            Process::start_with_script(1, &taking_early_data(Vec::new()), heads.answering(OK_RESPONSE)).await;
        let mut client = client().await;
        for method in ["GET", "HEAD", "OPTIONS"] {
            let handle = connect_early(&mut client, process.addresses[0]).await;
            heads.0.borrow_mut().clear();
            let served = process.metric_value(0, SERVED_METRIC);
            let number = send_request(&mut client, handle, method, true);
            client.send().await;
            // Nothing the client sends from now on arrives, so that its handshake does not complete.
            let (_socket, lost) = nowhere().await;
            client.sink_address.set(Some(lost));
            assert_eq!(client.response_status(handle, number).await, 200);
            assert_eq!(heads.early_flags(), [true], "{method}");
            assert_eq!(process.metric_value(0, SERVED_METRIC), served + 1);
            client.sink_address.set(None);
            let number = client.request(handle, "a.test");
            assert_eq!(client.response_status(handle, number).await, 200);
            assert!(client.connections[&handle].quic.accepted_0rtt());
            assert_eq!(heads.early_flags(), [true, false], "the handshake is complete");
        }
        assert_eq!(
            (process.metric_value(0, CONNECTIONS_METRIC), process.metric_value(0, DELAYED_METRIC)),
            (3, 0)
        );
    })
    .await;
}

#[tokio::test]
async fn all_other_requests_wait_for_the_handshake() {
    run_local(async {
        let guarded = || vec![loopback_only()];
        for (method, ends, guards) in
            [("POST", true, Vec::new()), ("GET", false, Vec::new()), ("GET", true, guarded())]
        {
            let heads = ReceivedHeads::default();
            let process =
                Process::start_with_script(1, &taking_early_data(guards), heads.answering(OK_RESPONSE)).await;
            let mut client = client().await;
            let handle = connect_early(&mut client, process.addresses[0]).await;
            heads.0.borrow_mut().clear();
            let number = send_request(&mut client, handle, method, ends);
            client.send().await;
            let (_socket, lost) = nowhere().await;
            client.sink_address.set(Some(lost));
            client.run_until(|_| process.metric_value(0, DELAYED_METRIC) == 1).await;
            assert_eq!(heads.early_flags(), [false; 0], "{method} waits");
            client.sink_address.set(None);
            client.connections.get_mut(&handle).unwrap().conversation.send(number, b"", true);
            assert_eq!(client.response_status(handle, number).await, 200);
            assert_eq!(heads.early_flags(), [false], "{method}");
            assert_eq!(
                (process.metric_value(0, CONNECTIONS_METRIC), process.metric_value(0, SERVED_METRIC)),
                (1, 0)
            );
        }
    })
    .await;
}

#[tokio::test]
async fn replayed_early_data_is_not_served_early() {
    run_local(async {
        let (heard, elsewhere) = (ReceivedHeads::default(), ReceivedHeads::default());
        let process =
            Process::start_with_script(2, &taking_early_data(Vec::new()), heard.answering(OK_RESPONSE)).await;
        let other =
            Process::start_with_script(1, &taking_early_data(Vec::new()), elsewhere.answering(OK_RESPONSE))
                .await;
        let mut client = client().await;
        let handle = connect_early(&mut client, process.addresses[0]).await;
        heard.0.borrow_mut().clear();
        let (tap, address) = nowhere().await;
        client.sink_address.set(Some(address));
        send_request(&mut client, handle, "GET", true);
        client.send().await;
        let mut flight = vec![0; 2048];
        let length = tap.recv(&mut flight).await.unwrap();
        flight.truncate(length);

        // The first to arrive is served, whoever sends it.
        tap.send_to(&flight, process.addresses[0]).await.unwrap();
        wait_until(|| heard.early_flags() == [true]).await;
        // Replays reach the same worker, another one, and another process.
        for to in [process.addresses[0], process.addresses[1], other.addresses[0]] {
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            socket.send_to(&flight, to).await.unwrap();
            if to == process.addresses[0] {
                // It belongs to the open connection but comes from another address, without effect.
                continue;
            }
            let mut response = vec![0; 2048];
            tokio::time::timeout(TEST_TIMEOUT, socket.recv(&mut response)).await.unwrap().unwrap();
        }
        assert_eq!(
            (process.metric_value(0, CONNECTIONS_METRIC), process.metric_value(1, CONNECTIONS_METRIC)),
            (1, 0)
        );
        assert_eq!((process.metric_value(1, SERVED_METRIC), process.metric_value(1, DELAYED_METRIC)), (0, 0));
        assert_eq!((other.metric_value(0, CONNECTIONS_METRIC), other.metric_value(0, SERVED_METRIC)), (0, 0));
        assert_eq!((heard.early_flags(), elsewhere.early_flags()), (vec![true], Vec::new()));
    })
    .await;
}

#[tokio::test]
async fn other_addresses_processes_and_listeners_accept_no_early_data() {
    run_local(async {
        for what in ["address", "process", "listener"] {
            let heads = ReceivedHeads::default();
            let taking = taking_early_data(Vec::new());
            let mut process = Process::start_with_script(1, &taking, heads.answering(OK_RESPONSE)).await;
            let mut client = client().await;
            // The session is for this connection, which is not used.
            let unused = connect_early(&mut client, process.addresses[0]).await;
            client.connections.remove(&unused);
            let full = process.metric_value(0, FULL_HANDSHAKES_METRIC);
            let (other, to) = match what {
                "process" => {
                    let other = Process::start_with_script(
                        1,
                        &taking_early_data(Vec::new()),
                        heads.answering(OK_RESPONSE),
                    )
                    .await;
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
            heads.0.borrow_mut().clear();
            client.request(handle, "a.test");
            assert_eq!(client.finish_handshake(handle).await, None, "{what}");
            assert!(!client.connections[&handle].quic.accepted_0rtt(), "{what}");
            let number = client.request(handle, "a.test");
            assert_eq!(client.response_status(handle, number).await, 200, "{what}");
            assert_eq!(heads.early_flags(), [false], "{what}: nothing was served before");
            let handshakes = other.as_ref().unwrap_or(&process);
            assert!(
                handshakes.metric_value(0, FULL_HANDSHAKES_METRIC) > if other.is_some() { 0 } else { full },
                "{what}"
            );
            assert_eq!(handshakes.metric_value(0, SERVED_METRIC), 0, "{what}");
        }
    })
    .await;
}

#[tokio::test]
async fn sessions_allow_no_early_data_unless_configured() {
    run_local(async {
        let process = Process::start(1, &with_guards(Vec::new(), |_| {})).await;
        let mut client = client().await;
        for _ in 0..5 {
            let handle = client.connect(process.addresses[0], "a.test");
            assert!(!client.connections[&handle].quic.has_0rtt());
            assert_eq!(client.finish_handshake(handle).await, None);
            let number = client.request(handle, "a.test");
            assert_eq!(client.response_status(handle, number).await, 200);
        }
        assert!(process.metric_value(0, "fairway_tls_handshakes_resumed_total") > 0);
    })
    .await;
}

#[tokio::test]
async fn an_endless_handshake_times_out_with_its_waiting_requests() {
    run_local(async {
        let heads = ReceivedHeads::default();
        let config = with_guards(Vec::new(), |listener| {
            listener.clients.early_data = Some(true);
            listener.clients.handshake_timeout = Some(Duration::from_secs(1));
        });
        let process = Process::start_with_script(1, &config, heads.answering(OK_RESPONSE)).await;
        let mut client = client().await;
        let handle = connect_early(&mut client, process.addresses[0]).await;
        heads.0.borrow_mut().clear();
        send_request(&mut client, handle, "POST", true);
        client.send().await;
        let given_up = "fairway_refused_connections_total{reason=\"handshake_timeout\"}";
        wait_until(|| process.metric_value(0, DELAYED_METRIC) == 1).await;
        assert_eq!(process.metric_value(0, given_up), 0);
        wait_until(|| process.metric_value(0, given_up) == 1).await;
        wait_until(|| process.metric_value(0, "fairway_http3_streams_open") == 0).await;
        assert_eq!(heads.early_flags(), [false; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_425_is_forwarded_to_the_client_and_not_retried() {
    run_local(async {
        let heads = ReceivedHeads::default();
        let retried = Phases::from(Forwarding { retry_statuses: vec![425], ..Forwarding::default() });
        let stage = TestWorker::with_phases(2, vec![retried], heads.answering(TOO_EARLY_RESPONSE));
        let mut client = stage.client();
        let response = client.request(b"GET / HTTP/1.1\r\nHost: a\r\nEarly-Data: 1\r\n\r\n").await;
        assert_eq!(response.unwrap().status, 425);
        assert_eq!(heads.early_flags(), [true], "that of a proxy in front is passed on");
    })
    .await;
}
