//! Exchanges of one client connection over one connection to an endpoint, both of which carry several at a time: a second
//! implementation of the sides, scripted and in memory. Whatever the order in which their pieces come, no byte of one
//! exchange is found in another, each gets one answer, and every count comes to rest.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use fairway_connection::sides::{
    AnswerPlan, Arrival, BodyStep, Channel, Downstream, Failure, HeadRead, Hop, Persistence, Reply,
    RequestPlan, Share, Spoken, Upgrade, Upstream,
};
use fairway_http::{BodySize, Head, HeadLimits, Known};
use fairway_net::transport::{Secured, Transport, UpstreamStream};
use fairway_net::wire::Workspace;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::{spawn_local, yield_now};

use super::{ClientSide, Request, exchange};
use crate::listener::ListenerId;
use crate::network::Network;
use crate::options::Limits;
use crate::peer::{Peer, Scheme, Sender};
use crate::testing::{at_rest, endpoint, on_stage, worker_over};
use crate::worker::Worker;

/// What one end tells the other about one exchange.
#[derive(Clone, Debug)]
enum Message {
    /// Start line and fields.
    Head(Head),
    Data(Vec<u8>),
    End,
    /// Nothing more comes, and what came is not whole.
    Reset,
}

/// A connection without bytes.
#[derive(Default)]
struct Line {
    /// What the proxy said, with the number of the exchange's part.
    said: Vec<(u32, Message)>,
    parts: BTreeMap<u32, Inbox>,
    /// Parts that may be open at a time.
    most: usize,
}

/// What was said to the proxy in one part and not read yet.
#[derive(Default)]
struct Inbox {
    messages: VecDeque<Message>,
    reader: Option<Waker>,
    /// The other end takes nothing for now.
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
    fn new(most: usize) -> SharedLine {
        Rc::new(RefCell::new(Self { most, ..Self::default() }))
    }

    /// Says something to the proxy.
    fn say(&mut self, part: u32, message: Message) {
        let inbox = self.parts.get_mut(&part).unwrap();
        if let (Message::Reset, PartState::Open) = (&message, inbox.state) {
            inbox.state = PartState::Reset;
        }
        inbox.messages.push_back(message);
        inbox.reader.take().into_iter().for_each(Waker::wake);
    }

    /// Stops taking what the proxy sends in a part, or goes on.
    fn pause(&mut self, part: u32, paused: bool) {
        let inbox = self.parts.get_mut(&part).unwrap();
        inbox.paused = paused;
        inbox.writer.take().into_iter().for_each(Waker::wake);
    }

    fn open_parts(&self) -> usize {
        self.parts.values().filter(|inbox| inbox.state != PartState::Dropped).count()
    }

    /// What the proxy said in one part.
    fn said_in(&self, part: u32) -> Said {
        let mut said = Said::default();
        for (_, message) in self.said.iter().filter(|(number, _)| *number == part) {
            match message {
                Message::Head(head) => said.heads.push(head.clone()),
                Message::Data(data) => said.data.extend_from_slice(data),
                Message::End => said.ends += 1,
                Message::Reset => said.resets += 1,
            }
        }
        said
    }

    /// The numbers of parts in the order in which their data was said.
    fn order_of_data(&self) -> Vec<u32> {
        let data = self.said.iter().filter(|(_, message)| matches!(message, Message::Data(_)));
        data.map(|(part, _)| *part).collect()
    }
}

#[derive(Default)]
struct Said {
    heads: Vec<Head>,
    data: Vec<u8>,
    ends: usize,
    resets: usize,
}

/// The proxy's end of one exchange's part of a line; number 0 is an endpoint's line itself, as the
/// pool keeps it.
struct Part {
    line: SharedLine,
    number: u32,
    /// The body that comes is whole.
    whole: bool,
    /// The body that is sent is.
    finished: bool,
    heard: u64,
    sent: u64,
    /// Bytes since the other end stopped taking them.
    queued: usize,
}

impl Part {
    fn new(line: &SharedLine, number: u32) -> Self {
        line.borrow_mut().parts.insert(number, Inbox::default());
        Self { line: Rc::clone(line), number, whole: false, finished: false, heard: 0, sent: 0, queued: 0 }
    }

    fn tell(&mut self, message: Message) {
        let mut line = self.line.borrow_mut();
        line.said.push((self.number, message));
    }

    /// The next message, or `Pending` with the waker kept.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Message> {
        let mut line = self.line.borrow_mut();
        let inbox = line.parts.get_mut(&self.number).unwrap();
        match inbox.messages.front() {
            // It stays, so that whoever looks next sees it too.
            Some(Message::Reset) => Poll::Ready(Message::Reset),
            Some(_) => {
                self.heard += 1;
                Poll::Ready(inbox.messages.pop_front().unwrap())
            }
            None => {
                inbox.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !(self.whole && self.finished) && self.number > 0 {
            self.tell(Message::Reset);
        }
        self.line.borrow_mut().parts.get_mut(&self.number).unwrap().state = PartState::Dropped;
    }
}

impl Channel for Part {
    fn poll_body<F>(&mut self, cx: &mut Context<'_>, _: usize, mut sink: F) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        if self.whole {
            return Poll::Ready(Ok(BodyStep::End));
        }
        self.poll_next(cx).map(|message| match message {
            Message::Data(data) => sink(cx, &data).map(|()| BodyStep::More),
            Message::End => {
                self.whole = true;
                Ok(BodyStep::End)
            }
            Message::Head(_) | Message::Reset => Err(Failure::Closed),
        })
    }

    fn send_data(&mut self, _: &mut Context<'_>, data: &[u8]) -> Result<(), Failure> {
        if !data.is_empty() {
            self.sent += data.len() as u64;
            self.queued += data.len();
            self.tell(Message::Data(data.to_vec()));
        }
        Ok(())
    }

    fn finish<'a>(&mut self, _: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Failure> {
        self.finished = true;
        self.tell(Message::End);
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
        (self.whole, self.finished) = (false, false);
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(self.finish(std::iter::empty()))
    }
}

impl Downstream for Part {
    fn peer(&self) -> Option<IpAddr> {
        None
    }

    fn send_interim(&mut self, interim: &Head) {
        self.tell(Message::Head(interim.clone()));
    }

    fn send_head(&mut self, answer: &mut Head, plan: &AnswerPlan) -> Persistence {
        self.sent += 1;
        self.tell(Message::Head(answer.clone()));
        plan.persistence
    }

    fn unread(&self) -> Option<u64> {
        self.whole.then_some(0)
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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

impl Upstream for Part {
    fn send_request(&mut self, request: &Head, plan: &RequestPlan<'_>) {
        let mut head = request.clone();
        head.append(b"X-Target", plan.target);
        self.sent += 1;
        self.tell(Message::Head(head));
    }

    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        answer: &mut Head,
        _: &HeadLimits,
    ) -> Poll<HeadRead<Reply>> {
        self.poll_next(cx).map(|message| match message {
            Message::Head(head) => {
                *answer = head;
                HeadRead::Whole(Reply { body: BodySize::Unknown, upgrade: Upgrade::None })
            }
            _ => HeadRead::Cut,
        })
    }

    fn received(&self) -> u64 {
        self.heard
    }

    fn is_reusable(&self) -> bool {
        self.whole && self.finished
    }

    fn owes_acknowledgement(&self) -> Option<std::time::Duration> {
        None
    }

    fn watch_closely(&self) {}
}

impl Hop for Part {
    fn is_quiet(&mut self) -> bool {
        true
    }

    fn rest(&mut self) {}

    fn share(&mut self) -> Share<Self> {
        let (open, next, most) = {
            let line = self.line.borrow();
            // The line itself is one of them.
            (line.open_parts() - 1, u32::try_from(line.parts.len()).unwrap(), line.most)
        };
        if open < most { Share::Part(Self::new(&self.line, next)) } else { Share::Full }
    }
}

/// A stream of bytes through which nothing goes: it stands for the line in whose place it is.
struct Plug(SharedLine);

impl AsyncRead for Plug {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Plug {
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

impl Transport for Plug {
    fn peer(&self) -> Option<IpAddr> {
        None
    }

    fn abort(&mut self) {}
}

/// A network whose connections are lines.
struct LineNetwork {
    /// Those that were made.
    lines: Rc<RefCell<Vec<SharedLine>>>,
    /// Exchanges that one carries at a time.
    most: usize,
}

impl Network for LineNetwork {
    type Stream = Plug;
    type Hop = Part;

    async fn connect(&self, _: SocketAddr) -> io::Result<Plug> {
        let line = Line::new(self.most);
        self.lines.borrow_mut().push(Rc::clone(&line));
        Ok(Plug(line))
    }

    fn hop(&self, stream: UpstreamStream<Plug>, _: Spoken, _: &Rc<Workspace>, _: HeadLimits) -> Part {
        match stream {
            Secured::Plain(Plug(line)) => Part::new(&line, 0),
            Secured::Tls(_) => unreachable!("the backend is in the clear"),
        }
    }
}

/// A client's connection to a worker, and what the worker has towards its endpoint.
struct Pair {
    worker: Rc<Worker<LineNetwork>>,
    client: SharedLine,
    endpoints: Rc<RefCell<Vec<SharedLine>>>,
    /// Requests so far.
    begun: u32,
}

impl Pair {
    /// Whose connections to the endpoint carry `most` exchanges each.
    fn new(most: usize) -> Self {
        let endpoints = Rc::default();
        let network = LineNetwork { lines: Rc::clone(&endpoints), most };
        let worker = worker_over(network, Limits::default(), 1, |_, _| {});
        Self { worker, client: Line::new(usize::MAX), endpoints, begun: 0 }
    }

    /// The client begins an exchange; gives its number, which is its target too.
    fn begin(&mut self, method: &str, body: BodySize) -> u32 {
        self.begun += 1;
        let number = self.begun;
        let mut down = Part::new(&self.client, number);
        down.whole = body == BodySize::None;
        let listener = ListenerId { slot: 0, generation: 1 };
        let peer = Peer {
            listener,
            scheme: Scheme::Http,
            client: endpoint(9999).ip(),
            sender: Sender::Client,
            facts: None,
        };
        let side = Box::new(ClientSide::new(down, peer));
        let mut buffers = self.worker.lend_buffers();
        buffers.request.start_request(method.as_bytes(), format!("/{number}").as_bytes());
        buffers.request.append(b"Host", b"a");
        let arrival = Arrival {
            head_bytes: 100,
            body: Ok(body),
            expects_continue: Ok(false),
            persistence: Persistence::KeepAlive,
            upgrade: Upgrade::None,
        };
        let worker = Rc::clone(&self.worker);
        let request = Request { worker, client_side: side, buffers, arrival: Ok(arrival) };
        let frames = self.worker.reuse.frames.of(exchange::<LineNetwork, Part>);
        spawn_local(async move {
            let _ = frames.run(|| exchange(request)).await;
        });
        number
    }

    /// Where the exchange is on its way to the endpoint: the line and the part of its last attempt.
    fn forwarded(&self, number: u32) -> Option<(SharedLine, u32)> {
        let target = format!("/{number}");
        let endpoints = self.endpoints.borrow();
        let parts = endpoints.iter().flat_map(|line| {
            let said = line.borrow().said.clone();
            let heads = said.into_iter().filter_map(|(part, message)| match message {
                Message::Head(head) => Some((part, head)),
                _ => None,
            });
            heads.map(|(part, head)| (Rc::clone(line), part, head)).collect::<Vec<_>>()
        });
        let found = parts.filter(|(_, _, head)| head.named(b"X-Target") == Some(target.as_bytes()));
        found.last().map(|(line, part, _)| (line, part))
    }

    /// What the client got.
    fn answer(&self, number: u32) -> Said {
        self.client.borrow().said_in(number)
    }

    /// The client says something in an exchange.
    fn client_says(&self, number: u32, message: Message) {
        self.client.borrow_mut().say(number, message);
    }

    /// The endpoint does, in the last attempt.
    fn endpoint_says(&self, number: u32, message: Message) {
        let (line, part) = self.forwarded(number).unwrap();
        line.borrow_mut().say(part, message);
    }
}

fn answer_head(number: u32) -> Message {
    let mut head = Head::new();
    head.start_response(200);
    head.append(b"X-Number", number.to_string().as_bytes());
    Message::Head(head)
}

/// Lets everything happen that can.
async fn settle() {
    for _ in 0..200 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn answers_of_one_connection_take_turns_and_use_one_connection_to_the_endpoint() {
    on_stage(async {
        let mut pair = Pair::new(10);
        let first = pair.begin("GET", BodySize::None);
        settle().await;
        // The first is under way on a connection that has room for the others.
        let (second, third) = (pair.begin("POST", BodySize::Unknown), pair.begin("GET", BodySize::None));
        settle().await;
        for number in [third, first, second] {
            pair.endpoint_says(number, answer_head(number));
        }
        for round in [b"ab", b"cd"] {
            for number in [first, second, third] {
                pair.endpoint_says(number, Message::Data(round.to_vec()));
                pair.client_says(second, Message::Data(round[..1].to_vec()));
                settle().await;
            }
        }
        pair.client_says(second, Message::End);
        for number in [second, third, first] {
            pair.endpoint_says(number, Message::End);
            settle().await;
            assert_eq!(pair.answer(number).data, b"abcd");
            assert_eq!((pair.answer(number).heads.len(), pair.answer(number).ends), (1, 1));
        }
        assert_eq!(pair.client.borrow().order_of_data(), [first, second, third, first, second, third]);
        let (line, part) = pair.forwarded(second).unwrap();
        assert_eq!(line.borrow().said_in(part).data, b"aaaccc");
        assert_eq!(pair.endpoints.borrow().len(), 1);
        assert_eq!(at_rest(&pair.worker), Ok(()));
    })
    .await;
}

/// The most pieces in a row that are of one exchange.
fn longest_turn(order: &[u32]) -> usize {
    order.chunk_by(|one, next| one == next).map(<[u32]>::len).max().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn bodies_that_never_pause_take_turns() {
    on_stage(async {
        let mut pair = Pair::new(10);
        let both = [pair.begin("POST", BodySize::Unknown), pair.begin("POST", BodySize::Unknown)];
        settle().await;
        for number in both {
            (0..40).for_each(|_| pair.client_says(number, Message::Data(vec![b'x'; 1024])));
            pair.client_says(number, Message::End);
        }
        settle().await;
        let (line, _) = pair.forwarded(both[0]).unwrap();
        assert!(longest_turn(&line.borrow().order_of_data()) <= 4, "{:?}", line.borrow().order_of_data());
        for number in both {
            pair.endpoint_says(number, answer_head(number));
            (0..40).for_each(|_| pair.endpoint_says(number, Message::Data(vec![b'y'; 1024])));
            pair.endpoint_says(number, Message::End);
        }
        settle().await;
        let order = pair.client.borrow().order_of_data();
        assert!(order.len() == 80 && longest_turn(&order) <= 4, "{order:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_no_more_of_one_answer_gets_the_others() {
    on_stage(async {
        let mut pair = Pair::new(10);
        let (slow, quick) = (pair.begin("GET", BodySize::None), pair.begin("GET", BodySize::None));
        settle().await;
        for number in [slow, quick] {
            pair.endpoint_says(number, answer_head(number));
        }
        pair.client.borrow_mut().pause(slow, true);
        for _ in 0..100 {
            pair.endpoint_says(slow, Message::Data(vec![b's'; 64 * 1024]));
            pair.endpoint_says(quick, Message::Data(vec![b'q'; 1024]));
        }
        pair.endpoint_says(quick, Message::End);
        settle().await;
        assert_eq!((pair.answer(quick).data.len(), pair.answer(quick).ends), (100 * 1024, 1));
        let held = pair.answer(slow).data.len();
        assert!(held <= 128 * 1024, "{held} bytes were read for a client that takes none");
        pair.client.borrow_mut().pause(slow, false);
        pair.endpoint_says(slow, Message::End);
        settle().await;
        assert_eq!((pair.answer(slow).data.len(), pair.answer(slow).ends), (100 * 64 * 1024, 1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_exchange_that_its_client_gives_up_is_cancelled_alone() {
    on_stage(async {
        let mut pair = Pair::new(10);
        let (gone, other) = (pair.begin("GET", BodySize::None), pair.begin("GET", BodySize::None));
        settle().await;
        pair.client_says(gone, Message::Reset);
        settle().await;
        let (line, part) = pair.forwarded(gone).unwrap();
        assert_eq!(line.borrow().said_in(part).resets, 1, "the endpoint is told");
        pair.endpoint_says(other, answer_head(other));
        pair.endpoint_says(other, Message::End);
        settle().await;
        assert_eq!(pair.answer(other).ends, 1);
        assert_eq!((pair.answer(gone).heads.len(), pair.answer(gone).resets), (0, 1));
        assert_eq!(at_rest(&pair.worker), Ok(()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_full_connection_gets_a_second_one_beside_it() {
    on_stage(async {
        let mut pair = Pair::new(2);
        for _ in 0..5 {
            pair.begin("GET", BodySize::None);
            settle().await;
        }
        let lines = pair.endpoints.borrow().clone();
        let open: Vec<usize> = lines.iter().map(|line| line.borrow().open_parts() - 1).collect();
        assert_eq!(open, [2, 2, 1]);
        for number in 1..=5 {
            pair.endpoint_says(number, answer_head(number));
            pair.endpoint_says(number, Message::End);
        }
        settle().await;
        assert!((1..=5).all(|number| pair.answer(number).ends == 1));
        assert_eq!(at_rest(&pair.worker), Ok(()));
    })
    .await;
}

/// What happens to one exchange, step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Whole,
    ClientLeaves,
    /// Before its head.
    EndpointResets,
    /// Within its body.
    EndpointBreaksOff,
}

/// One exchange of a random play.
struct Role {
    number: u32,
    fate: Fate,
    /// Pieces of the request's body, and of the answer's, that are still to come; the end counts as one.
    request: u32,
    answer: u32,
    begun: bool,
}

const PIECES: u32 = 4;

impl Role {
    /// The piece that stands for this exchange and no other.
    fn piece(&self, left: u32) -> Vec<u8> {
        format!("<{} {left}>", self.number).into_bytes()
    }

    fn all(&self) -> Vec<u8> {
        (1..PIECES).rev().flat_map(|left| self.piece(left)).collect()
    }

    /// Plays one step of the client's; `false` when it has none left.
    fn client(&mut self, pair: &Pair) -> bool {
        if self.request == 0 {
            return false;
        }
        self.request -= 1;
        match (self.request, self.fate) {
            (1, Fate::ClientLeaves) => {
                self.request = 0;
                pair.client_says(self.number, Message::Reset);
            }
            (0, _) => pair.client_says(self.number, Message::End),
            (left, _) => pair.client_says(self.number, Message::Data(self.piece(left))),
        }
        true
    }

    /// The same of the endpoint's.
    fn endpoint(&mut self, pair: &Pair) -> bool {
        let Some((line, part)) = pair.forwarded(self.number) else { return false };
        if self.answer == 0 || line.borrow().parts[&part].state != PartState::Open {
            return false;
        }
        match (self.begun, self.fate) {
            (false, Fate::EndpointResets) => {
                // Once: what is tried again is answered.
                self.fate = Fate::Whole;
                pair.endpoint_says(self.number, Message::Reset);
                return true;
            }
            (false, _) => {
                self.begun = true;
                pair.endpoint_says(self.number, answer_head(self.number));
                return true;
            }
            (true, _) => {}
        }
        self.answer -= 1;
        match (self.answer, self.fate) {
            (1, Fate::EndpointBreaksOff) => {
                self.answer = 0;
                pair.endpoint_says(self.number, Message::Reset);
            }
            (0, _) => pair.endpoint_says(self.number, Message::End),
            (left, _) => pair.endpoint_says(self.number, Message::Data(self.piece(left))),
        }
        true
    }
}

#[tokio::test(start_paused = true)]
async fn in_any_order_no_byte_of_one_exchange_is_found_in_another() {
    for seed in 0..1_000 {
        on_stage(play(seed)).await;
    }
}

async fn play(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut pair = Pair::new(random.usize(1..=8));
    let mut roles = Vec::new();
    for _ in 0..random.u32(2..=6) {
        let fates =
            [Fate::Whole, Fate::Whole, Fate::ClientLeaves, Fate::EndpointResets, Fate::EndpointBreaksOff];
        let number = pair.begin("PUT", BodySize::Unknown);
        let fate = *random.choice(&fates).unwrap();
        roles.push((fate, Role { number, fate, request: PIECES, answer: PIECES, begun: false }));
    }
    loop {
        settle_some(&mut random).await;
        let first = random.usize(..2 * roles.len());
        let moved = (0..2 * roles.len()).any(|turn| {
            let turn = (first + turn) % (2 * roles.len());
            let role = &mut roles[turn / 2].1;
            if turn.is_multiple_of(2) { role.client(&pair) } else { role.endpoint(&pair) }
        });
        if !moved {
            settle().await;
            // What was tried again may have made room for more.
            if !roles.iter_mut().any(|(_, role)| role.endpoint(&pair)) {
                break;
            }
        }
    }
    for (fate, role) in &roles {
        check(seed, &pair, *fate, role);
    }
    assert_eq!(at_rest(&pair.worker), Ok(()), "seed {seed}");
}

async fn settle_some(random: &mut fastrand::Rng) {
    for _ in 0..random.u32(..4) {
        yield_now().await;
    }
}

fn check(seed: u64, pair: &Pair, fate: Fate, role: &Role) {
    let what = format!("seed {seed}, exchange {}, {fate:?}", role.number);
    let answer = pair.answer(role.number);
    assert!(role.all().starts_with(&answer.data), "{what}: {:?}", String::from_utf8_lossy(&answer.data));
    assert!(answer.heads.len() <= 1, "{what}: one answer");
    if let Some((line, part)) = pair.forwarded(role.number) {
        let asked = line.borrow().said_in(part);
        assert!(role.all().starts_with(&asked.data), "{what}: {:?}", String::from_utf8_lossy(&asked.data));
        assert_eq!(asked.heads.len(), 1, "{what}: one request");
    }
    match fate {
        Fate::Whole | Fate::EndpointResets => {
            let number = role.number.to_string();
            assert_eq!(answer.heads[0].status(), 200, "{what}");
            assert_eq!(answer.heads[0].named(b"X-Number"), Some(number.as_bytes()), "{what}");
            assert_eq!(answer.heads[0].first(Known::Server), None, "{what}");
            assert_eq!((answer.data, answer.ends), (role.all(), 1), "{what}");
        }
        Fate::ClientLeaves => assert!(answer.resets == 1 || answer.ends == 1, "{what}"),
        Fate::EndpointBreaksOff => assert_eq!((answer.ends, answer.resets), (0, 1), "{what}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_never_answers_holds_its_own_exchange_only() {
    on_stage(async {
        let mut pair = Pair::new(10);
        let (silent, other) = (pair.begin("GET", BodySize::None), pair.begin("GET", BodySize::None));
        settle().await;
        pair.endpoint_says(other, answer_head(other));
        pair.endpoint_says(other, Message::End);
        tokio::time::sleep(std::time::Duration::from_secs(90)).await;
        assert_eq!(pair.answer(other).heads[0].status(), 200);
        assert_eq!(pair.answer(silent).heads[0].status(), 504);
        let (line, part) = pair.forwarded(silent).unwrap();
        assert_eq!(line.borrow().said_in(part).resets, 1);
        assert_eq!(at_rest(&pair.worker), Ok(()));
    })
    .await;
}
