//! Sessions over loopback, with scripted routing.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::UdpSocket as Blocking;

use fairway_net::proxy_header::parse;
use tokio::task::{LocalSet, spawn_local};

use super::*;

/// Routes as scripted and records events.
#[derive(Default)]
struct ScriptedForward {
    /// Endpoints of sessions in order; the last one repeats.
    endpoints: RefCell<VecDeque<SocketAddr>>,
    introduce: Option<Addresses>,
    responses: Option<NonZeroU32>,
    events: RefCell<Vec<String>>,
    /// The only endpoint sessions may keep, if set.
    only_valid_endpoint: Cell<Option<SocketAddr>>,
    releases_address: Cell<bool>,
}

impl ScriptedForward {
    fn log_event(&self, event: impl Into<String>) {
        self.events.borrow_mut().push(event.into());
    }

    fn endpoint(&self) -> Option<SocketAddr> {
        let mut endpoints = self.endpoints.borrow_mut();
        if endpoints.len() > 1 { endpoints.pop_front() } else { endpoints.front().copied() }
    }
}

impl Forward for Rc<ScriptedForward> {
    type Route = SocketAddr;

    fn start_session(
        &self,
        _client: SocketAddr,
        datagram: &[u8],
    ) -> Result<NewSession<SocketAddr>, &'static str> {
        let endpoint = self.endpoint().ok_or("no_endpoint")?;
        let skip = if datagram.starts_with(b"skip ") { 5 } else { 0 };
        Ok(NewSession {
            route: endpoint,
            endpoint,
            proxy_header: self.introduce,
            skip,
            responses: self.responses,
        })
    }

    fn session_started(&self, _held: &SocketAddr) {
        self.log_event("begun");
    }

    fn is_still_valid(&self, address: &SocketAddr) -> bool {
        self.only_valid_endpoint.get().is_none_or(|only| only == *address)
    }

    fn first_response(&self, _held: &SocketAddr, _took: Duration) {
        self.log_event("answered");
    }

    fn endpoint_unreachable(&self, _held: &SocketAddr, error: &io::Error) -> &'static str {
        self.log_event(format!("unreachable: {:?}", error.kind()));
        "connect_failed"
    }

    fn session_ended(&self, _held: SocketAddr, over: SessionSummary) {
        self.log_event(format!("ended: {:?} {} {}", over.end, over.received, over.sent));
    }

    fn idle_timeout(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn must_release_address(&self) -> bool {
        self.releases_address.get()
    }

    fn record(&self, fate: DatagramOutcome) {
        if let DatagramOutcome::Dropped(reason) = fate {
            self.log_event(format!("dropped: {reason}"));
        }
    }
}

fn socket() -> UdpSocket {
    bound("127.0.0.1:0")
}

fn bound(address: &str) -> UdpSocket {
    let socket = Blocking::bind(address).unwrap();
    socket.set_nonblocking(true).unwrap();
    UdpSocket::from_std(socket).unwrap()
}

/// Addresses for the PROXY protocol header.
fn addresses() -> Addresses {
    Addresses { source: "192.0.2.7:5555".parse().unwrap(), destination: "192.0.2.1:53".parse().unwrap() }
}

/// An endpoint that echoes with its name as prefix.
fn spawn_echo(name: &'static str) -> SocketAddr {
    let socket = socket();
    let address = socket.local_addr().unwrap();
    spawn_local(async move {
        let mut bytes = vec![0; 65_536];
        loop {
            let (count, from) = socket.recv_from(&mut bytes).await.unwrap();
            let response = [name.as_bytes(), &bytes[..count]].concat();
            socket.send_to(&response, from).await.unwrap();
        }
    });
    address
}

/// An address without a socket.
fn unused_address() -> SocketAddr {
    Blocking::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A listener with this routing.
fn listener(stub: ScriptedForward) -> (SocketAddr, Rc<ScriptedForward>, Datagrams<Rc<ScriptedForward>>) {
    listener_at("127.0.0.1:0", stub)
}

fn listener_at(
    address: &str,
    stub: ScriptedForward,
) -> (SocketAddr, Rc<ScriptedForward>, Datagrams<Rc<ScriptedForward>>) {
    let (socket, stub) = (bound(address), Rc::new(stub));
    let address = socket.local_addr().unwrap();
    (address, Rc::clone(&stub), Datagrams::new(socket, stub, &Rc::new(Workspace::new())))
}

/// A listener with this routing, being served.
fn serve(stub: ScriptedForward) -> (SocketAddr, Rc<ScriptedForward>) {
    serve_at("127.0.0.1:0", stub)
}

fn serve_at(address: &str, stub: ScriptedForward) -> (SocketAddr, Rc<ScriptedForward>) {
    let (address, stub, mut datagrams) = listener_at(address, stub);
    spawn_local(async move { datagrams.serve().await });
    (address, stub)
}

fn forward_to(endpoints: impl IntoIterator<Item = SocketAddr>) -> ScriptedForward {
    ScriptedForward { endpoints: RefCell::new(endpoints.into_iter().collect()), ..ScriptedForward::default() }
}

async fn request(client: &UdpSocket, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    client.send_to(payload, to).await.unwrap();
    let mut response = vec![0; 65_536];
    let (count, from) = client.recv_from(&mut response).await.unwrap();
    assert_eq!(from, to, "responses come from the listener");
    response.truncate(count);
    response
}

async fn wait_until(expectation: &str, is_so: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{expectation} did not come true");
}

async fn run_local(test: impl Future<Output = ()>) {
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn each_client_has_a_session_and_gets_its_own_responses() {
    run_local(async {
        let (address, stub) = serve(forward_to([spawn_echo("a:")]));
        let (one, other) = (socket(), socket());
        assert_eq!(request(&one, address, b"1").await, b"a:1");
        assert_eq!(request(&other, address, b"2").await, b"a:2");
        assert_eq!(request(&one, address, b"").await, b"a:", "an empty datagram is one");
        let large = vec![7; 60_000];
        assert_eq!(request(&one, address, &large).await, [b"a:", &large[..]].concat());
        assert_eq!(*stub.events.borrow(), ["begun", "answered", "begun", "answered"]);
    })
    .await;
}

#[tokio::test]
async fn a_session_ends_when_all_its_responses_have_arrived() {
    run_local(async {
        let (address, stub) =
            serve(ScriptedForward { responses: NonZeroU32::new(1), ..forward_to([spawn_echo("")]) });
        let client = socket();
        for _ in 0..2 {
            assert_eq!(request(&client, address, b"x").await, b"x");
            wait_until("the session is over", || {
                stub.events.borrow().last().is_some_and(|it| it == "ended: Answered 1 1")
            })
            .await;
        }
        assert_eq!(*stub.events.borrow(), ["begun", "answered", "ended: Answered 1 1"].repeat(2));
    })
    .await;
}

#[tokio::test]
async fn a_session_waits_for_the_responses_to_every_datagram() {
    run_local(async {
        let twice = socket();
        let endpoint = twice.local_addr().unwrap();
        let (address, stub) =
            serve(ScriptedForward { responses: NonZeroU32::new(2), ..forward_to([endpoint]) });
        let client = socket();
        client.send_to(b"1", address).await.unwrap();
        client.send_to(b"2", address).await.unwrap();
        let mut bytes = [0; 9];
        let (_, proxy) = twice.recv_from(&mut bytes).await.unwrap();
        twice.recv_from(&mut bytes).await.unwrap();
        for response in 1..=4 {
            twice.send_to(b"a", proxy).await.unwrap();
            client.recv_from(&mut bytes).await.unwrap();
            let is_over =
                || stub.events.borrow().last().is_some_and(|told| told.starts_with("ended: Answered 2 4"));
            match response {
                4 => wait_until("the session is over", is_over).await,
                _ => assert!(!is_over(), "{response}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_refusing_endpoint_is_replaced_at_the_next_datagram() {
    run_local(async {
        let (address, stub) = serve(forward_to([unused_address(), spawn_echo("b:")]));
        let client = socket();
        client.send_to(b"lost", address).await.unwrap();
        let refused = || stub.events.borrow().iter().any(|told| told.starts_with("ended: Unreachable"));
        wait_until("the refusal is noticed", refused).await;
        assert_eq!(request(&client, address, b"again").await, b"b:again");
        let events =
            ["begun", "unreachable: ConnectionRefused", "ended: Unreachable 4 0", "begun", "answered"];
        assert_eq!(*stub.events.borrow(), events);
    })
    .await;
}

#[tokio::test]
async fn a_session_moves_off_a_removed_endpoint() {
    run_local(async {
        let (first, second) = (spawn_echo("1:"), spawn_echo("2:"));
        let (address, stub) = serve(forward_to([first, second]));
        let client = socket();
        assert_eq!(request(&client, address, b"x").await, b"1:x");
        stub.only_valid_endpoint.set(Some(second));
        assert_eq!(request(&client, address, b"y").await, b"2:y");
        assert_eq!(stub.events.borrow()[2..], ["ended: EndpointLeft 1 3", "begun", "answered"]);
    })
    .await;
}

#[tokio::test]
async fn the_first_datagram_of_a_session_has_the_proxy_header() {
    run_local(async {
        let (address, _stub) =
            serve(ScriptedForward { introduce: Some(addresses()), ..forward_to([spawn_echo("")]) });
        let client = socket();
        let response = request(&client, address, b"skip first").await;
        let header = parse(&response).unwrap().unwrap();
        assert_eq!((header.client, header.remaining), (Some(addresses().source), b"first".to_vec()));
        assert_eq!(request(&client, address, b"skip second").await, b"skip second", "said once");
    })
    .await;
}

#[tokio::test]
async fn a_session_starts_only_with_a_datagram_that_was_sent() {
    run_local(async {
        let (address, stub) =
            serve(ScriptedForward { introduce: Some(addresses()), ..forward_to([spawn_echo("")]) });
        let client = socket();
        // The longest datagram over IPv4, so that no header fits in front.
        client.send_to(&[7; 65_507], address).await.unwrap();
        wait_until("it is dropped", || !stub.events.borrow().is_empty()).await;
        assert_eq!(*stub.events.borrow(), ["dropped: too_large"]);
        let header = parse(&request(&client, address, b"shorter").await).unwrap().unwrap();
        assert_eq!((header.client, header.remaining), (Some(addresses().source), b"shorter".to_vec()));
    })
    .await;
}

#[tokio::test]
async fn the_next_endpoint_gets_the_first_datagram_unchanged() {
    run_local(async {
        // Sending there requires `SO_BROADCAST`.
        let out_of_reach = "255.255.255.255:9".parse().unwrap();
        let (address, stub) = serve(ScriptedForward {
            introduce: Some(addresses()),
            ..forward_to([out_of_reach, spawn_echo("")])
        });
        let response = request(&socket(), address, b"skip first").await;
        let header = parse(&response).unwrap().unwrap();
        assert_eq!((header.client, header.remaining), (Some(addresses().source), b"first".to_vec()));
        assert!(stub.events.borrow()[0].starts_with("unreachable"), "{:?}", stub.events.borrow());
    })
    .await;
}

#[tokio::test]
async fn a_session_expects_no_response_to_dropped_datagrams() {
    run_local(async {
        let endpoint = socket();
        let stub =
            ScriptedForward { responses: NonZeroU32::new(1), ..forward_to([endpoint.local_addr().unwrap()]) };
        let (address, stub) = serve_at("[::1]:0", stub);
        let (client, mut bytes) = (bound("[::1]:0"), [0; 9]);
        client.send_to(b"1", address).await.unwrap();
        let (_, proxy) = endpoint.recv_from(&mut bytes).await.unwrap();
        // Longer than any datagram over IPv4.
        client.send_to(&[7; 65_520], address).await.unwrap();
        wait_until("it is dropped", || stub.events.borrow().iter().any(|it| it == "dropped: too_large"))
            .await;
        endpoint.send_to(b"a", proxy).await.unwrap();
        let is_over = || stub.events.borrow().last().is_some_and(|told| told == "ended: Answered 65521 1");
        wait_until("the session is over", is_over).await;
    })
    .await;
}

/// Polls `future`, counting the polls.
async fn counted<T>(polls: &Cell<u32>, future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        polls.set(polls.get() + 1);
        future.as_mut().poll(cx)
    })
    .await
}

/// A session of `client` without a receiving task.
fn unattended(
    shared: &Forwarding<Rc<ScriptedForward>>,
    client: SocketAddr,
    to: SocketAddr,
) -> Rc<Session<SocketAddr>> {
    let make = |key| {
        Rc::new(Session {
            key,
            client: client.into(),
            socket: connect(to).unwrap(),
            route: RefCell::new(Some(to)),
            started_at: Instant::now(),
            received: Cell::new(0),
            sent: Cell::new(0),
            requests: Cell::new(0),
            responses_received: Cell::new(0),
            responses_per_request: None,
            task: RefCell::new(None),
        })
    };
    let mut sessions = shared.sessions.borrow_mut();
    assert!(sessions.start(client, Instant::now(), make).is_ok());
    Rc::clone(sessions.find(&client).unwrap().1)
}

#[tokio::test]
async fn a_session_is_woken_only_by_responses_and_refusals() {
    run_local(async {
        let (endpoint, client) = (socket(), socket());
        let (_, stub, datagrams) = listener(forward_to([]));
        let shared = Rc::clone(&datagrams.forwarding);
        let session = unattended(&shared, client.local_addr().unwrap(), endpoint.local_addr().unwrap());
        let (proxy, mut bytes) = (session.socket.local_addr().unwrap(), [0; 9]);
        // Polled by hand: one poll for each response; the next one finds nothing, however often it is repeated.
        for _ in 0..3 {
            endpoint.send_to(b"answer", proxy).await.unwrap();
            let looked = session.next_responses(&shared).await;
            assert_eq!(looked.err().map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
            let mut waiting = std::pin::pin!(session.next_responses(&shared));
            for _ in 0..3 {
                tokio::task::yield_now().await;
                let looked = std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await;
                assert!(looked.is_pending(), "a wait that does not wait");
            }
            client.recv_from(&mut bytes).await.unwrap();
        }
        // Polled by its task: once to start, once for each response, and once for the end of the endpoint.
        let polls = Rc::new(Cell::new(0));
        let (counting, answering) =
            (Rc::clone(&polls), relay_responses(Rc::clone(&shared), Rc::clone(&session)));
        let task = spawn_local(async move { counted(&counting, answering).await });
        for responses in 1..=3 {
            tokio::task::yield_now().await;
            endpoint.send_to(b"answer", proxy).await.unwrap();
            client.recv_from(&mut bytes).await.unwrap();
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            assert_eq!(polls.get(), 1 + responses);
        }
        drop(endpoint);
        SockRef::from(&session.socket).send(b"lost").unwrap();
        task.await.unwrap();
        assert_eq!(polls.get(), 5);
        let events = ["answered", "unreachable: ConnectionRefused", "ended: Unreachable 0 36"];
        assert_eq!(*stub.events.borrow(), events);
    })
    .await;
}

#[tokio::test]
async fn a_datagram_without_a_session_is_dropped_for_a_reason() {
    run_local(async {
        let (address, stub) = serve(forward_to([]));
        socket().send_to(b"x", address).await.unwrap();
        wait_until("it is dropped", || !stub.events.borrow().is_empty()).await;
        assert_eq!(*stub.events.borrow(), ["dropped: no_endpoint"]);
    })
    .await;
}

#[tokio::test]
async fn an_idle_session_ends_after_its_timeout() {
    run_local(async {
        let (address, stub) = serve(forward_to([spawn_echo("")]));
        let client = socket();
        assert_eq!(request(&client, address, b"x").await, b"x");
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(stub.events.borrow().len(), 2, "not yet");
        tokio::time::advance(Duration::from_secs(2)).await;
        while stub.events.borrow().len() < 3 {
            tokio::task::yield_now().await;
        }
        assert_eq!(stub.events.borrow()[2], "ended: Idle 1 1");
    })
    .await;
}

#[tokio::test]
async fn a_draining_socket_serves_its_sessions_to_their_end() {
    run_local(async {
        let (address, stub, mut datagrams) = listener(forward_to([spawn_echo("")]));
        let client = socket();
        tokio::select! {
            () = datagrams.serve() => {}
            response = request(&client, address, b"x") => assert_eq!(response, b"x"),
        }
        let leaving = spawn_local(datagrams.drain(Duration::from_secs(2)));
        assert_eq!(request(&client, address, b"still").await, b"still");
        assert!(!leaving.is_finished());
        leaving.await.unwrap();
        assert_eq!(stub.events.borrow()[2..], ["ended: Drained 6 6"]);
        let (_, _, none) = listener(forward_to([]));
        none.drain(Duration::MAX).await;
    })
    .await;
}

#[tokio::test]
async fn sessions_end_when_their_address_is_needed() {
    run_local(async {
        let (address, stub, mut datagrams) = listener(forward_to([spawn_echo("")]));
        let client = socket();
        tokio::select! {
            () = datagrams.serve() => {}
            response = request(&client, address, b"x") => assert_eq!(response, b"x"),
        }
        stub.releases_address.set(true);
        datagrams.drain(Duration::MAX).await;
        assert_eq!(stub.events.borrow()[2..], ["ended: Drained 1 1"]);
        wait_until("its socket is closed", || Blocking::bind(address).is_ok()).await;
    })
    .await;
}
