//! Sessions over loopback, with a stand-in for who decides.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::UdpSocket as Blocking;

use fairway_net::proxy_header::parse;
use tokio::task::{LocalSet, spawn_local};

use super::*;

/// Decides as it was told, and remembers what it is told.
#[derive(Default)]
struct Stub {
    /// The endpoints that sessions get, one after the other; the last one stays.
    endpoints: RefCell<VecDeque<SocketAddr>>,
    introduce: Option<Addresses>,
    responses: Option<NonZeroU32>,
    told: RefCell<Vec<String>>,
    /// The only endpoint that sessions may keep.
    only: Cell<Option<SocketAddr>>,
    yields: Cell<bool>,
}

impl Stub {
    fn tell(&self, what: impl Into<String>) {
        self.told.borrow_mut().push(what.into());
    }

    fn endpoint(&self) -> Option<SocketAddr> {
        let mut endpoints = self.endpoints.borrow_mut();
        if endpoints.len() > 1 { endpoints.pop_front() } else { endpoints.front().copied() }
    }
}

impl Forward for Rc<Stub> {
    type Held = SocketAddr;

    fn begin(&self, _client: SocketAddr, datagram: &[u8]) -> Result<Beginning<SocketAddr>, &'static str> {
        let endpoint = self.endpoint().ok_or("no_endpoint")?;
        let skip = if datagram.starts_with(b"skip ") { 5 } else { 0 };
        Ok(Beginning { held: endpoint, endpoint, introduce: self.introduce, skip, responses: self.responses })
    }

    fn begun(&self, _held: &SocketAddr) {
        self.tell("begun");
    }

    fn stays(&self, held: &SocketAddr) -> bool {
        self.only.get().is_none_or(|only| only == *held)
    }

    fn answered(&self, _held: &SocketAddr, _took: Duration) {
        self.tell("answered");
    }

    fn unreachable(&self, _held: &SocketAddr, error: &io::Error) -> &'static str {
        self.tell(format!("unreachable: {:?}", error.kind()));
        "connect_failed"
    }

    fn ended(&self, _held: SocketAddr, over: Over) {
        self.tell(format!("ended: {:?} {} {}", over.end, over.received, over.sent));
    }

    fn idle(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn yields(&self) -> bool {
        self.yields.get()
    }

    fn note(&self, fate: Fate) {
        if let Fate::Dropped(reason) = fate {
            self.tell(format!("dropped: {reason}"));
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

/// What endpoints are told of clients.
fn addresses() -> Addresses {
    Addresses { source: "192.0.2.7:5555".parse().unwrap(), destination: "192.0.2.1:53".parse().unwrap() }
}

/// An endpoint that answers with what it got, its name in front.
fn echoing(name: &'static str) -> SocketAddr {
    let socket = socket();
    let address = socket.local_addr().unwrap();
    spawn_local(async move {
        let mut bytes = vec![0; 65_536];
        loop {
            let (count, from) = socket.recv_from(&mut bytes).await.unwrap();
            let answer = [name.as_bytes(), &bytes[..count]].concat();
            socket.send_to(&answer, from).await.unwrap();
        }
    });
    address
}

/// An address at which nobody is.
fn nobody() -> SocketAddr {
    Blocking::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A listener over these endpoints.
fn listener(stub: Stub) -> (SocketAddr, Rc<Stub>, Datagrams<Rc<Stub>>) {
    listener_at("127.0.0.1:0", stub)
}

fn listener_at(address: &str, stub: Stub) -> (SocketAddr, Rc<Stub>, Datagrams<Rc<Stub>>) {
    let (socket, stub) = (bound(address), Rc::new(stub));
    let address = socket.local_addr().unwrap();
    (address, Rc::clone(&stub), Datagrams::new(socket, stub, &Rc::new(Workspace::new())))
}

/// The same, and it serves.
fn serving(stub: Stub) -> (SocketAddr, Rc<Stub>) {
    serving_at("127.0.0.1:0", stub)
}

fn serving_at(address: &str, stub: Stub) -> (SocketAddr, Rc<Stub>) {
    let (address, stub, mut datagrams) = listener_at(address, stub);
    spawn_local(async move { datagrams.serve().await });
    (address, stub)
}

fn over(endpoints: impl IntoIterator<Item = SocketAddr>) -> Stub {
    Stub { endpoints: RefCell::new(endpoints.into_iter().collect()), ..Stub::default() }
}

async fn ask(client: &UdpSocket, to: SocketAddr, what: &[u8]) -> Vec<u8> {
    client.send_to(what, to).await.unwrap();
    let mut answer = vec![0; 65_536];
    let (count, from) = client.recv_from(&mut answer).await.unwrap();
    assert_eq!(from, to, "answers come from the listener");
    answer.truncate(count);
    answer
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not come true");
}

async fn on_one_thread(test: impl Future<Output = ()>) {
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn each_client_has_a_session_and_gets_its_own_answers() {
    on_one_thread(async {
        let (address, stub) = serving(over([echoing("a:")]));
        let (one, other) = (socket(), socket());
        assert_eq!(ask(&one, address, b"1").await, b"a:1");
        assert_eq!(ask(&other, address, b"2").await, b"a:2");
        assert_eq!(ask(&one, address, b"").await, b"a:", "an empty datagram is one");
        let large = vec![7; 60_000];
        assert_eq!(ask(&one, address, &large).await, [b"a:", &large[..]].concat());
        assert_eq!(*stub.told.borrow(), ["begun", "answered", "begun", "answered"]);
    })
    .await;
}

#[tokio::test]
async fn a_session_is_over_when_all_its_answers_have_come() {
    on_one_thread(async {
        let (address, stub) = serving(Stub { responses: NonZeroU32::new(1), ..over([echoing("")]) });
        let client = socket();
        for _ in 0..2 {
            assert_eq!(ask(&client, address, b"x").await, b"x");
            until("the session is over", || {
                stub.told.borrow().last().is_some_and(|it| it == "ended: Answered 1 1")
            })
            .await;
        }
        assert_eq!(*stub.told.borrow(), ["begun", "answered", "ended: Answered 1 1"].repeat(2));
    })
    .await;
}

#[tokio::test]
async fn a_session_waits_for_the_answers_of_every_datagram() {
    on_one_thread(async {
        let twice = socket();
        let endpoint = twice.local_addr().unwrap();
        let (address, stub) = serving(Stub { responses: NonZeroU32::new(2), ..over([endpoint]) });
        let client = socket();
        client.send_to(b"1", address).await.unwrap();
        client.send_to(b"2", address).await.unwrap();
        let mut bytes = [0; 9];
        let (_, proxy) = twice.recv_from(&mut bytes).await.unwrap();
        twice.recv_from(&mut bytes).await.unwrap();
        for answer in 1..=4 {
            twice.send_to(b"a", proxy).await.unwrap();
            client.recv_from(&mut bytes).await.unwrap();
            let is_over =
                || stub.told.borrow().last().is_some_and(|told| told.starts_with("ended: Answered 2 4"));
            match answer {
                4 => until("the session is over", is_over).await,
                _ => assert!(!is_over(), "{answer}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_that_refuses_is_left_with_the_next_datagram() {
    on_one_thread(async {
        let (address, stub) = serving(over([nobody(), echoing("b:")]));
        let client = socket();
        client.send_to(b"lost", address).await.unwrap();
        let refused = || stub.told.borrow().iter().any(|told| told.starts_with("ended: Unreachable"));
        until("the refusal is noticed", refused).await;
        assert_eq!(ask(&client, address, b"again").await, b"b:again");
        let told = ["begun", "unreachable: ConnectionRefused", "ended: Unreachable 4 0", "begun", "answered"];
        assert_eq!(*stub.told.borrow(), told);
    })
    .await;
}

#[tokio::test]
async fn a_session_moves_from_an_endpoint_that_has_left() {
    on_one_thread(async {
        let (first, second) = (echoing("1:"), echoing("2:"));
        let (address, stub) = serving(over([first, second]));
        let client = socket();
        assert_eq!(ask(&client, address, b"x").await, b"1:x");
        stub.only.set(Some(second));
        assert_eq!(ask(&client, address, b"y").await, b"2:y");
        assert_eq!(stub.told.borrow()[2..], ["ended: Left 1 3", "begun", "answered"]);
    })
    .await;
}

#[tokio::test]
async fn the_first_datagram_of_a_session_says_who_the_client_is() {
    on_one_thread(async {
        let (address, _stub) = serving(Stub { introduce: Some(addresses()), ..over([echoing("")]) });
        let client = socket();
        let answer = ask(&client, address, b"skip first").await;
        let header = parse(&answer).unwrap().unwrap();
        assert_eq!((header.client, header.rest), (Some(addresses().source), b"first".to_vec()));
        assert_eq!(ask(&client, address, b"skip second").await, b"skip second", "said once");
    })
    .await;
}

#[tokio::test]
async fn a_session_begins_with_a_datagram_that_goes_out_since_it_alone_says_who_the_client_is() {
    on_one_thread(async {
        let (address, stub) = serving(Stub { introduce: Some(addresses()), ..over([echoing("")]) });
        let client = socket();
        // The longest one over IPv4: none with a header in front.
        client.send_to(&[7; 65_507], address).await.unwrap();
        until("it is dropped", || !stub.told.borrow().is_empty()).await;
        assert_eq!(*stub.told.borrow(), ["dropped: too_large"]);
        let header = parse(&ask(&client, address, b"shorter").await).unwrap().unwrap();
        assert_eq!((header.client, header.rest), (Some(addresses().source), b"shorter".to_vec()));
    })
    .await;
}

#[tokio::test]
async fn the_next_endpoint_gets_the_first_datagram_as_it_came() {
    on_one_thread(async {
        // Nobody may send there without asking for it (`SO_BROADCAST`).
        let out_of_reach = "255.255.255.255:9".parse().unwrap();
        let (address, stub) =
            serving(Stub { introduce: Some(addresses()), ..over([out_of_reach, echoing("")]) });
        let answer = ask(&socket(), address, b"skip first").await;
        let header = parse(&answer).unwrap().unwrap();
        assert_eq!((header.client, header.rest), (Some(addresses().source), b"first".to_vec()));
        assert!(stub.told.borrow()[0].starts_with("unreachable"), "{:?}", stub.told.borrow());
    })
    .await;
}

#[tokio::test]
async fn a_session_waits_for_no_answer_to_what_was_dropped() {
    on_one_thread(async {
        let endpoint = socket();
        let stub = Stub { responses: NonZeroU32::new(1), ..over([endpoint.local_addr().unwrap()]) };
        let (address, stub) = serving_at("[::1]:0", stub);
        let (client, mut bytes) = (bound("[::1]:0"), [0; 9]);
        client.send_to(b"1", address).await.unwrap();
        let (_, proxy) = endpoint.recv_from(&mut bytes).await.unwrap();
        // Longer than any datagram over IPv4.
        client.send_to(&[7; 65_520], address).await.unwrap();
        until("it is dropped", || stub.told.borrow().iter().any(|it| it == "dropped: too_large")).await;
        endpoint.send_to(b"a", proxy).await.unwrap();
        let is_over = || stub.told.borrow().last().is_some_and(|told| told == "ended: Answered 65521 1");
        until("the session is over", is_over).await;
    })
    .await;
}

/// Polls `future`, and counts how often.
async fn counted<T>(polls: &Cell<u32>, future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        polls.set(polls.get() + 1);
        future.as_mut().poll(cx)
    })
    .await
}

/// A session of `client` that nothing receives for.
fn unattended(shared: &Shared<Rc<Stub>>, client: SocketAddr, to: SocketAddr) -> Rc<Session<SocketAddr>> {
    let make = |key| {
        Rc::new(Session {
            key,
            client: client.into(),
            socket: connect(to).unwrap(),
            held: RefCell::new(Some(to)),
            began: Instant::now(),
            received: Cell::new(0),
            sent: Cell::new(0),
            asked: Cell::new(0),
            answers: Cell::new(0),
            responses: None,
            task: RefCell::new(None),
        })
    };
    let mut sessions = shared.sessions.borrow_mut();
    assert!(sessions.begin(client, Instant::now(), make).is_ok());
    Rc::clone(sessions.find(&client).unwrap().1)
}

#[tokio::test]
async fn who_waits_for_answers_or_a_refusal_is_woken_by_these_alone() {
    on_one_thread(async {
        let (endpoint, client) = (socket(), socket());
        let (_, stub, datagrams) = listener(over([]));
        let shared = Rc::clone(&datagrams.shared);
        let session = unattended(&shared, client.local_addr().unwrap(), endpoint.local_addr().unwrap());
        let (proxy, mut bytes) = (session.socket.local_addr().unwrap(), [0; 9]);
        // By hand: one look for each answer, and the next one finds nothing, however often it is asked.
        for _ in 0..3 {
            endpoint.send_to(b"answer", proxy).await.unwrap();
            let looked = session.next_answers(&shared).await;
            assert_eq!(looked.err().map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
            let mut waiting = std::pin::pin!(session.next_answers(&shared));
            for _ in 0..3 {
                tokio::task::yield_now().await;
                let looked = std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await;
                assert!(looked.is_pending(), "a wait that does not wait");
            }
            client.recv_from(&mut bytes).await.unwrap();
        }
        // By its task: one poll to begin with, one for each answer, and one for the end of the endpoint.
        let polls = Rc::new(Cell::new(0));
        let (counting, answering) = (Rc::clone(&polls), answer(Rc::clone(&shared), Rc::clone(&session)));
        let task = spawn_local(async move { counted(&counting, answering).await });
        for answers in 1..=3 {
            tokio::task::yield_now().await;
            endpoint.send_to(b"answer", proxy).await.unwrap();
            client.recv_from(&mut bytes).await.unwrap();
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            assert_eq!(polls.get(), 1 + answers);
        }
        drop(endpoint);
        SockRef::from(&session.socket).send(b"lost").unwrap();
        task.await.unwrap();
        assert_eq!(polls.get(), 5);
        let told = ["answered", "unreachable: ConnectionRefused", "ended: Unreachable 0 36"];
        assert_eq!(*stub.told.borrow(), told);
    })
    .await;
}

#[tokio::test]
async fn a_datagram_without_a_session_is_dropped_for_a_reason() {
    on_one_thread(async {
        let (address, stub) = serving(over([]));
        socket().send_to(b"x", address).await.unwrap();
        until("it is dropped", || !stub.told.borrow().is_empty()).await;
        assert_eq!(*stub.told.borrow(), ["dropped: no_endpoint"]);
    })
    .await;
}

#[tokio::test]
async fn a_session_in_which_nothing_moves_ends_after_its_time() {
    on_one_thread(async {
        let (address, stub) = serving(over([echoing("")]));
        let client = socket();
        assert_eq!(ask(&client, address, b"x").await, b"x");
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(stub.told.borrow().len(), 2, "not yet");
        tokio::time::advance(Duration::from_secs(2)).await;
        while stub.told.borrow().len() < 3 {
            tokio::task::yield_now().await;
        }
        assert_eq!(stub.told.borrow()[2], "ended: Idle 1 1");
    })
    .await;
}

#[tokio::test]
async fn a_socket_that_is_left_serves_its_sessions_to_their_end() {
    on_one_thread(async {
        let (address, stub, mut datagrams) = listener(over([echoing("")]));
        let client = socket();
        tokio::select! {
            () = datagrams.serve() => {}
            answer = ask(&client, address, b"x") => assert_eq!(answer, b"x"),
        }
        let leaving = spawn_local(datagrams.leave(Duration::from_secs(2)));
        assert_eq!(ask(&client, address, b"still").await, b"still");
        assert!(!leaving.is_finished());
        leaving.await.unwrap();
        assert_eq!(stub.told.borrow()[2..], ["ended: Drained 6 6"]);
        let (_, _, none) = listener(over([]));
        none.leave(Duration::MAX).await;
    })
    .await;
}

#[tokio::test]
async fn sessions_give_way_to_who_waits_for_their_address() {
    on_one_thread(async {
        let (address, stub, mut datagrams) = listener(over([echoing("")]));
        let client = socket();
        tokio::select! {
            () = datagrams.serve() => {}
            answer = ask(&client, address, b"x") => assert_eq!(answer, b"x"),
        }
        stub.yields.set(true);
        datagrams.leave(Duration::MAX).await;
        assert_eq!(stub.told.borrow()[2..], ["ended: Drained 1 1"]);
        until("its socket is closed", || Blocking::bind(address).is_ok()).await;
    })
    .await;
}
