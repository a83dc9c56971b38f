//! Exchanges of one client connection over one connection to an endpoint, both of which carry several at a time: a second,
//! scripted in-memory implementation of both sides. In whatever order pieces arrive, no byte of one exchange appears in
//! another, each gets one response, and every count returns to zero.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use fairway_connection::sides::{
    BodyStep, Channel, Downstream, Failure, HeadRead, Hop, HopProtocol, Persistence, RequestMeta,
    RequestPlan, ResponseMeta, ResponsePlan, Share, Upgrade, Upstream,
};
use fairway_http::{BodySize, Head, HeadLimits, Known};
use fairway_net::transport::{MaybeTls, Transport, UpstreamStream};
use fairway_net::wire::Workspace;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::{spawn_local, yield_now};

use super::{ClientSide, Request, exchange};
use crate::listener::ListenerId;
use crate::network::Network;
use crate::options::Limits;
use crate::peer::{Peer, Scheme, Sender};
use crate::testing::{check_worker_idle, endpoint, run_local, worker_over};
use crate::worker::Worker;

/// A message from one end to the other about one exchange.
#[derive(Clone, Debug)]
enum Message {
    Head(Head),
    Data(Vec<u8>),
    End,
    Reset,
}

#[derive(Default)]
struct Line {
    /// What the proxy sent, with the part number of the exchange.
    sent_messages: Vec<(u32, Message)>,
    parts: BTreeMap<u32, Inbox>,
    /// The maximum number of open parts.
    max_parts: usize,
}

/// Messages to the proxy in one part that were not read yet.
#[derive(Default)]
struct Inbox {
    messages: VecDeque<Message>,
    reader: Option<Waker>,
    /// The other end reads nothing for now.
    paused: bool,
    writer: Option<Waker>,
    state: PartState,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum PartState {
    #[default]
    Open,
    /// The other end has reset it.
    Reset,
    /// The proxy has dropped its end.
    Dropped,
}

type SharedLine = Rc<RefCell<Line>>;

impl Line {
    fn new(limit: usize) -> SharedLine {
        Rc::new(RefCell::new(Self { max_parts: limit, ..Self::default() }))
    }

    fn send(&mut self, part: u32, message: Message) {
        let inbox = self.parts.get_mut(&part).unwrap();
        if let (Message::Reset, PartState::Open) = (&message, inbox.state) {
            inbox.state = PartState::Reset;
        }
        inbox.messages.push_back(message);
        inbox.reader.take().into_iter().for_each(Waker::wake);
    }

    /// Stops or resumes reading what the proxy sends in a part.
    fn pause(&mut self, part: u32, paused: bool) {
        let inbox = self.parts.get_mut(&part).unwrap();
        inbox.paused = paused;
        inbox.writer.take().into_iter().for_each(Waker::wake);
    }

    fn open_parts(&self) -> usize {
        self.parts.values().filter(|inbox| inbox.state != PartState::Dropped).count()
    }

    fn messages_of(&self, part: u32) -> SentMessages {
        let mut sent_messages = SentMessages::default();
        for (_, message) in self.sent_messages.iter().filter(|(number, _)| *number == part) {
            match message {
                Message::Head(head) => sent_messages.heads.push(head.clone()),
                Message::Data(data) => sent_messages.data.extend_from_slice(data),
                Message::End => sent_messages.ends += 1,
                Message::Reset => sent_messages.resets += 1,
            }
        }
        sent_messages
    }

    /// The part numbers in the order in which their data was sent.
    fn order_of_data(&self) -> Vec<u32> {
        let data = self.sent_messages.iter().filter(|(_, message)| matches!(message, Message::Data(_)));
        data.map(|(part, _)| *part).collect()
    }
}

#[derive(Default)]
struct SentMessages {
    heads: Vec<Head>,
    data: Vec<u8>,
    ends: usize,
    resets: usize,
}

/// The proxy's end of one part of a line; number 0 is the line to an endpoint itself, as the pool keeps it.
struct LinePart {
    line: SharedLine,
    number: u32,
    ended: bool,
    finished: bool,
    received: u64,
    sent: u64,
    /// Bytes queued since the other end stopped reading.
    queued: usize,
}

impl LinePart {
    fn new(line: &SharedLine, number: u32) -> Self {
        line.borrow_mut().parts.insert(number, Inbox::default());
        Self { line: Rc::clone(line), number, ended: false, finished: false, received: 0, sent: 0, queued: 0 }
    }

    fn push_sent(&mut self, message: Message) {
        let mut line = self.line.borrow_mut();
        line.sent_messages.push((self.number, message));
    }

    /// The next message, or `Pending` with the waker kept.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Message> {
        let mut line = self.line.borrow_mut();
        let inbox = line.parts.get_mut(&self.number).unwrap();
        match inbox.messages.front() {
            // It stays queued, so that the next poll sees it too.
            Some(Message::Reset) => Poll::Ready(Message::Reset),
            Some(_) => {
                self.received += 1;
                Poll::Ready(inbox.messages.pop_front().unwrap())
            }
            None => {
                inbox.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for LinePart {
    fn drop(&mut self) {
        if !(self.ended && self.finished) && self.number > 0 {
            self.push_sent(Message::Reset);
        }
        self.line.borrow_mut().parts.get_mut(&self.number).unwrap().state = PartState::Dropped;
    }
}

impl Channel for LinePart {
    fn poll_body<F>(&mut self, cx: &mut Context<'_>, _: usize, mut sink: F) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        if self.ended {
            return Poll::Ready(Ok(BodyStep::End));
        }
        self.poll_next(cx).map(|message| match message {
            Message::Data(data) => sink(cx, &data).map(|()| BodyStep::More),
            Message::End => {
                self.ended = true;
                Ok(BodyStep::End)
            }
            Message::Head(_) | Message::Reset => Err(Failure::Closed),
        })
    }

    fn send_data(&mut self, _: &mut Context<'_>, data: &[u8]) -> Result<(), Failure> {
        if !data.is_empty() {
            self.sent += data.len() as u64;
            self.queued += data.len();
            self.push_sent(Message::Data(data.to_vec()));
        }
        Ok(())
    }

    fn finish<'a>(&mut self, _: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Failure> {
        self.finished = true;
        self.push_sent(Message::End);
        Ok(())
    }

    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        std::iter::empty()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let mut line = self.line.borrow_mut();
        let inbox = line.parts.get_mut(&self.number).unwrap();
        if inbox.paused {
            inbox.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.queued = 0;
        Poll::Ready(Ok(()))
    }

    fn queued(&self) -> usize {
        self.queued
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn open_tunnel(&mut self) {
        (self.ended, self.finished) = (false, false);
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(self.finish(std::iter::empty()))
    }
}

impl Downstream for LinePart {
    fn peer(&self) -> Option<IpAddr> {
        None
    }

    fn send_interim(&mut self, interim: &Head) {
        self.push_sent(Message::Head(interim.clone()));
    }

    fn send_head(&mut self, response: &mut Head, plan: &ResponsePlan) -> Persistence {
        self.sent += 1;
        self.push_sent(Message::Head(response.clone()));
        plan.persistence
    }

    fn unread_body(&self) -> Option<u64> {
        self.ended.then_some(0)
    }

    fn poll_client_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut line = self.line.borrow_mut();
        let inbox = line.parts.get_mut(&self.number).unwrap();
        if inbox.messages.iter().any(|message| matches!(message, Message::Reset)) {
            return Poll::Ready(());
        }
        inbox.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn abort(&mut self) {
        self.finished = false;
    }
}

impl Upstream for LinePart {
    fn send_request(&mut self, request: &Head, plan: &RequestPlan<'_>) {
        let mut head = request.clone();
        head.append(b"X-Target", plan.target);
        self.sent += 1;
        self.push_sent(Message::Head(head));
    }

    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Head,
        _: &HeadLimits,
    ) -> Poll<HeadRead<ResponseMeta>> {
        self.poll_next(cx).map(|message| match message {
            Message::Head(head) => {
                *response = head;
                HeadRead::Whole(ResponseMeta { body: BodySize::Unknown, upgrade: Upgrade::None })
            }
            _ => HeadRead::Cut,
        })
    }

    fn received(&self) -> u64 {
        self.received
    }

    fn is_reusable(&self) -> bool {
        self.ended && self.finished
    }

    fn unacknowledged_for(&self) -> Option<std::time::Duration> {
        None
    }

    fn shorten_keepalive(&self) {}
}

impl Hop for LinePart {
    fn is_reusable_now(&mut self) -> bool {
        true
    }

    fn release_buffers(&mut self) {}

    fn try_share(&mut self) -> Share<Self> {
        let (open, next, max) = {
            let line = self.line.borrow();
            // The line itself is one of them.
            (line.open_parts() - 1, u32::try_from(line.parts.len()).unwrap(), line.max_parts)
        };
        if open < max { Share::Part(Self::new(&self.line, next)) } else { Share::Full }
    }
}

/// A placeholder byte stream for a line; no bytes pass through it.
struct PlaceholderStream(SharedLine);

impl AsyncRead for PlaceholderStream {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for PlaceholderStream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Transport for PlaceholderStream {
    fn peer(&self) -> Option<IpAddr> {
        None
    }

    fn abort(&mut self) {}
}

/// A network whose connections are lines.
struct LineNetwork {
    /// The lines created so far.
    lines: Rc<RefCell<Vec<SharedLine>>>,
    /// Exchanges that one line carries at a time.
    max_parts: usize,
}

impl Network for LineNetwork {
    type Stream = PlaceholderStream;
    type Hop = LinePart;

    async fn connect(&self, _: SocketAddr) -> io::Result<PlaceholderStream> {
        let line = Line::new(self.max_parts);
        self.lines.borrow_mut().push(Rc::clone(&line));
        Ok(PlaceholderStream(line))
    }

    fn hop(
        &self,
        stream: UpstreamStream<PlaceholderStream>,
        _: HopProtocol,
        _: &Rc<Workspace>,
        _: HeadLimits,
    ) -> LinePart {
        match stream {
            MaybeTls::Plain(PlaceholderStream(line)) => LinePart::new(&line, 0),
            MaybeTls::Tls(_) => unreachable!("the backend is in the clear"),
        }
    }
}

/// A client's connection to a worker, and the worker's connections to its endpoint.
struct Pair {
    worker: Rc<Worker<LineNetwork>>,
    client: SharedLine,
    endpoints: Rc<RefCell<Vec<SharedLine>>>,
    started: u32,
}

impl Pair {
    /// A pair whose connections to the endpoint carry `limit` exchanges each.
    fn new(limit: usize) -> Self {
        let endpoints = Rc::default();
        let network = LineNetwork { lines: Rc::clone(&endpoints), max_parts: limit };
        let worker = worker_over(network, Limits::default(), 1, |_, _| {});
        Self { worker, client: Line::new(usize::MAX), endpoints, started: 0 }
    }

    /// Starts an exchange; returns its number, which is also its target.
    fn open(&mut self, method: &str, body: BodySize) -> u32 {
        self.started += 1;
        let number = self.started;
        let mut down = LinePart::new(&self.client, number);
        down.ended = body == BodySize::None;
        let listener = ListenerId { slot: 0, generation: 1 };
        let peer = Peer {
            listener,
            scheme: Scheme::Http,
            client: endpoint(9999).ip(),
            sender: Sender::Client,
            details: None,
        };
        let side = Box::new(ClientSide::new(down, peer));
        let mut buffers = self.worker.lend_buffers();
        buffers.request.start_request(method.as_bytes(), format!("/{number}").as_bytes());
        buffers.request.append(b"Host", b"a");
        let arrival = RequestMeta {
            head_bytes: 100,
            body: Ok(body),
            expects_continue: Ok(false),
            persistence: Persistence::KeepAlive,
            upgrade: Upgrade::None,
        };
        let worker = Rc::clone(&self.worker);
        let request = Request { worker, client_side: side, buffers, arrival: Ok(arrival) };
        let frames = self.worker.reuse.frames.pool_for(exchange::<LineNetwork, LinePart>);
        spawn_local(async move {
            let _ = frames.run(|| exchange(request)).await;
        });
        number
    }

    /// The line and part of the exchange's last attempt.
    fn forwarded(&self, number: u32) -> Option<(SharedLine, u32)> {
        let target = format!("/{number}");
        let endpoints = self.endpoints.borrow();
        let parts = endpoints.iter().flat_map(|line| {
            let sent_messages = line.borrow().sent_messages.clone();
            let heads = sent_messages.into_iter().filter_map(|(part, message)| match message {
                Message::Head(head) => Some((part, head)),
                _ => None,
            });
            heads.map(|(part, head)| (Rc::clone(line), part, head)).collect::<Vec<_>>()
        });
        let found = parts.filter(|(_, _, head)| head.named(b"X-Target") == Some(target.as_bytes()));
        found.last().map(|(line, part, _)| (line, part))
    }

    fn response(&self, number: u32) -> SentMessages {
        self.client.borrow().messages_of(number)
    }

    fn client_says(&self, number: u32, message: Message) {
        self.client.borrow_mut().send(number, message);
    }

    /// The endpoint sends a message in the last attempt.
    fn endpoint_says(&self, number: u32, message: Message) {
        let (line, part) = self.forwarded(number).unwrap();
        line.borrow_mut().send(part, message);
    }
}

fn answer_head(number: u32) -> Message {
    let mut head = Head::new();
    head.start_response(200);
    head.append(b"X-Number", number.to_string().as_bytes());
    Message::Head(head)
}

/// Lets all tasks run until nothing changes.
async fn run_ready_tasks() {
    for _ in 0..200 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn answers_of_one_connection_take_turns_and_use_one_connection_to_the_endpoint() {
    run_local(async {
        let mut pair = Pair::new(10);
        let first = pair.open("GET", BodySize::None);
        run_ready_tasks().await;
        // The first one is in progress on a connection with room for the others.
        let (second, third) = (pair.open("POST", BodySize::Unknown), pair.open("GET", BodySize::None));
        run_ready_tasks().await;
        for number in [third, first, second] {
            pair.endpoint_says(number, answer_head(number));
        }
        for round in [b"ab", b"cd"] {
            for number in [first, second, third] {
                pair.endpoint_says(number, Message::Data(round.to_vec()));
                pair.client_says(second, Message::Data(round[..1].to_vec()));
                run_ready_tasks().await;
            }
        }
        pair.client_says(second, Message::End);
        for number in [second, third, first] {
            pair.endpoint_says(number, Message::End);
            run_ready_tasks().await;
            assert_eq!(pair.response(number).data, b"abcd");
            assert_eq!((pair.response(number).heads.len(), pair.response(number).ends), (1, 1));
        }
        assert_eq!(pair.client.borrow().order_of_data(), [first, second, third, first, second, third]);
        let (line, part) = pair.forwarded(second).unwrap();
        assert_eq!(line.borrow().messages_of(part).data, b"aaaccc");
        assert_eq!(pair.endpoints.borrow().len(), 1);
        assert_eq!(check_worker_idle(&pair.worker), Ok(()));
    })
    .await;
}

/// The maximum number of consecutive pieces of one exchange.
fn longest_turn(order: &[u32]) -> usize {
    order.chunk_by(|one, next| one == next).map(<[u32]>::len).max().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn bodies_that_never_pause_take_turns() {
    run_local(async {
        let mut pair = Pair::new(10);
        let both = [pair.open("POST", BodySize::Unknown), pair.open("POST", BodySize::Unknown)];
        run_ready_tasks().await;
        for number in both {
            (0..40).for_each(|_| pair.client_says(number, Message::Data(vec![b'x'; 1024])));
            pair.client_says(number, Message::End);
        }
        run_ready_tasks().await;
        let (line, _) = pair.forwarded(both[0]).unwrap();
        assert!(longest_turn(&line.borrow().order_of_data()) <= 4, "{:?}", line.borrow().order_of_data());
        for number in both {
            pair.endpoint_says(number, answer_head(number));
            (0..40).for_each(|_| pair.endpoint_says(number, Message::Data(vec![b'y'; 1024])));
            pair.endpoint_says(number, Message::End);
        }
        run_ready_tasks().await;
        let order = pair.client.borrow().order_of_data();
        assert!(order.len() == 80 && longest_turn(&order) <= 4, "{order:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stops_reading_one_response_gets_the_others() {
    run_local(async {
        let mut pair = Pair::new(10);
        let (slow, quick) = (pair.open("GET", BodySize::None), pair.open("GET", BodySize::None));
        run_ready_tasks().await;
        for number in [slow, quick] {
            pair.endpoint_says(number, answer_head(number));
        }
        pair.client.borrow_mut().pause(slow, true);
        for _ in 0..100 {
            pair.endpoint_says(slow, Message::Data(vec![b's'; 64 * 1024]));
            pair.endpoint_says(quick, Message::Data(vec![b'q'; 1024]));
        }
        pair.endpoint_says(quick, Message::End);
        run_ready_tasks().await;
        assert_eq!((pair.response(quick).data.len(), pair.response(quick).ends), (100 * 1024, 1));
        let received = pair.response(slow).data.len();
        assert!(received <= 128 * 1024, "{received} bytes were read for a client that takes none");
        pair.client.borrow_mut().pause(slow, false);
        pair.endpoint_says(slow, Message::End);
        run_ready_tasks().await;
        assert_eq!((pair.response(slow).data.len(), pair.response(slow).ends), (100 * 64 * 1024, 1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_exchange_that_its_client_gives_up_is_cancelled_alone() {
    run_local(async {
        let mut pair = Pair::new(10);
        let (gone, other) = (pair.open("GET", BodySize::None), pair.open("GET", BodySize::None));
        run_ready_tasks().await;
        pair.client_says(gone, Message::Reset);
        run_ready_tasks().await;
        let (line, part) = pair.forwarded(gone).unwrap();
        assert_eq!(line.borrow().messages_of(part).resets, 1, "the endpoint is told");
        pair.endpoint_says(other, answer_head(other));
        pair.endpoint_says(other, Message::End);
        run_ready_tasks().await;
        assert_eq!(pair.response(other).ends, 1);
        assert_eq!((pair.response(gone).heads.len(), pair.response(gone).resets), (0, 1));
        assert_eq!(check_worker_idle(&pair.worker), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_full_connection_is_joined_by_a_second_one() {
    run_local(async {
        let mut pair = Pair::new(2);
        for _ in 0..5 {
            pair.open("GET", BodySize::None);
            run_ready_tasks().await;
        }
        let lines = pair.endpoints.borrow().clone();
        let open: Vec<usize> = lines.iter().map(|line| line.borrow().open_parts() - 1).collect();
        assert_eq!(open, [2, 2, 1]);
        for number in 1..=5 {
            pair.endpoint_says(number, answer_head(number));
            pair.endpoint_says(number, Message::End);
        }
        run_ready_tasks().await;
        assert!((1..=5).all(|number| pair.response(number).ends == 1));
        assert_eq!(check_worker_idle(&pair.worker), Ok(()));
    })
    .await;
}

/// What happens to one exchange, step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    Whole,
    ClientLeaves,
    /// Before its head.
    EndpointResets,
    /// Within its body.
    EndpointBreaksOff,
}

/// One exchange of a random play.
struct ScriptedExchange {
    number: u32,
    scenario: Scenario,
    /// Remaining pieces of the request body, and of the response body; the end counts as one.
    request: u32,
    response: u32,
    started: bool,
}

const PIECES: u32 = 4;

impl ScriptedExchange {
    /// A piece that identifies this exchange.
    fn chunk(&self, remaining: u32) -> Vec<u8> {
        format!("<{} {remaining}>", self.number).into_bytes()
    }

    fn body(&self) -> Vec<u8> {
        (1..PIECES).rev().flat_map(|left| self.chunk(left)).collect()
    }

    /// Plays one step of the client; `false` if none is left.
    fn client(&mut self, pair: &Pair) -> bool {
        if self.request == 0 {
            return false;
        }
        self.request -= 1;
        match (self.request, self.scenario) {
            (1, Scenario::ClientLeaves) => {
                self.request = 0;
                pair.client_says(self.number, Message::Reset);
            }
            (0, _) => pair.client_says(self.number, Message::End),
            (left, _) => pair.client_says(self.number, Message::Data(self.chunk(left))),
        }
        true
    }

    /// The same for the endpoint.
    fn endpoint(&mut self, pair: &Pair) -> bool {
        let Some((line, part)) = pair.forwarded(self.number) else { return false };
        if self.response == 0 || line.borrow().parts[&part].state != PartState::Open {
            return false;
        }
        match (self.started, self.scenario) {
            (false, Scenario::EndpointResets) => {
                // Once: the retry gets a response.
                self.scenario = Scenario::Whole;
                pair.endpoint_says(self.number, Message::Reset);
                return true;
            }
            (false, _) => {
                self.started = true;
                pair.endpoint_says(self.number, answer_head(self.number));
                return true;
            }
            (true, _) => {}
        }
        self.response -= 1;
        match (self.response, self.scenario) {
            (1, Scenario::EndpointBreaksOff) => {
                self.response = 0;
                pair.endpoint_says(self.number, Message::Reset);
            }
            (0, _) => pair.endpoint_says(self.number, Message::End),
            (left, _) => pair.endpoint_says(self.number, Message::Data(self.chunk(left))),
        }
        true
    }
}

#[tokio::test(start_paused = true)]
async fn in_any_order_no_byte_of_one_exchange_is_found_in_another() {
    for seed in 0..1_000 {
        run_local(run_seed(seed)).await;
    }
}

async fn run_seed(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut pair = Pair::new(random.usize(1..=8));
    let mut roles = Vec::new();
    for _ in 0..random.u32(2..=6) {
        let fates = [
            Scenario::Whole,
            Scenario::Whole,
            Scenario::ClientLeaves,
            Scenario::EndpointResets,
            Scenario::EndpointBreaksOff,
        ];
        let number = pair.open("PUT", BodySize::Unknown);
        let scenario = *random.choice(&fates).unwrap();
        roles.push(ScriptedExchange { number, scenario, request: PIECES, response: PIECES, started: false });
    }
    loop {
        settle_some(&mut random).await;
        let first = random.usize(..2 * roles.len());
        let moved = (0..2 * roles.len()).any(|turn| {
            let turn = (first + turn) % (2 * roles.len());
            let role = &mut roles[turn / 2];
            if turn.is_multiple_of(2) { role.client(&pair) } else { role.endpoint(&pair) }
        });
        if !moved {
            run_ready_tasks().await;
            // Retries may have made room for more.
            if !roles.iter_mut().any(|role| role.endpoint(&pair)) {
                break;
            }
        }
    }
    for role in &roles {
        check(seed, &pair, role);
    }
    assert_eq!(check_worker_idle(&pair.worker), Ok(()), "seed {seed}");
}

async fn settle_some(random: &mut fastrand::Rng) {
    for _ in 0..random.u32(..4) {
        yield_now().await;
    }
}

fn check(seed: u64, pair: &Pair, role: &ScriptedExchange) {
    let context = format!("seed {seed}, exchange {}, {:?}", role.number, role.scenario);
    let response = pair.response(role.number);
    assert!(
        role.body().starts_with(&response.data),
        "{context}: {:?}",
        String::from_utf8_lossy(&response.data)
    );
    assert!(response.heads.len() <= 1, "{context}: one answer");
    if let Some((line, part)) = pair.forwarded(role.number) {
        let sent = line.borrow().messages_of(part);
        assert!(role.body().starts_with(&sent.data), "{context}: {:?}", String::from_utf8_lossy(&sent.data));
        assert_eq!(sent.heads.len(), 1, "{context}: one request");
    }
    match role.scenario {
        Scenario::Whole | Scenario::EndpointResets => {
            let number = role.number.to_string();
            assert_eq!(response.heads[0].status(), 200, "{context}");
            assert_eq!(response.heads[0].named(b"X-Number"), Some(number.as_bytes()), "{context}");
            assert_eq!(response.heads[0].first(Known::Server), None, "{context}");
            assert_eq!((response.data, response.ends), (role.body(), 1), "{context}");
        }
        Scenario::ClientLeaves => assert!(response.resets == 1 || response.ends == 1, "{context}"),
        Scenario::EndpointBreaksOff => assert_eq!((response.ends, response.resets), (0, 1), "{context}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_never_responds_blocks_only_its_own_exchange() {
    run_local(async {
        let mut pair = Pair::new(10);
        let (silent, other) = (pair.open("GET", BodySize::None), pair.open("GET", BodySize::None));
        run_ready_tasks().await;
        pair.endpoint_says(other, answer_head(other));
        pair.endpoint_says(other, Message::End);
        tokio::time::sleep(std::time::Duration::from_secs(90)).await;
        assert_eq!(pair.response(other).heads[0].status(), 200);
        assert_eq!(pair.response(silent).heads[0].status(), 504);
        let (line, part) = pair.forwarded(silent).unwrap();
        assert_eq!(line.borrow().messages_of(part).resets, 1);
        assert_eq!(check_worker_idle(&pair.worker), Ok(()));
    })
    .await;
}
