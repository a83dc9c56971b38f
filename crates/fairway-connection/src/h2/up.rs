//! One stream as the endpoint's side of an exchange, and the connection itself as the pool keeps it.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_http::{BodySize, Head, HeadLimits, Known, Method, Version};
use fairway_http2::Note;
use fairway_http2::fields::{Connect, Limits};
use fairway_net::clock::Instant;
use fairway_net::transport::Transport;
use fairway_net::wire::{Wire, Workspace};

use super::carried::Fate;
use super::link::{Link, LinkState};
use super::stream::{Arrival, Follow};
use crate::outgoing::follow;
use crate::sides::{BodyStep, Channel, Failure, HeadRead, Hop, Reply, RequestPlan, Share, Upgrade, Upstream};
use crate::trailers::Trailers;
use crate::websocket;

/// A connection to an endpoint that carries several exchanges, or one exchange's stream of it.
pub struct H2Up<S: Transport> {
    link: Rc<Link<S>>,
    role: Role,
    trailers: Option<Trailers>,
    asked: Asked,
}

/// What the request was, as far as its answer depends on it.
enum Asked {
    Other,
    /// HEAD: the answer has no body.
    Head,
    /// CONNECT for a WebSocket; with what proves to the client that its key was understood.
    Tunnel(String),
    /// The same, which waits for the endpoint to say whether it understands it.
    Later(Box<Handshake>),
}

/// A request for a tunnel.
struct Handshake {
    request: Head,
    target: Vec<u8>,
}

/// What of a connection it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The connection, as its pool keeps it.
    Whole,
    /// The stream in this slot.
    Stream(usize),
}

impl<S: Transport> H2Up<S> {
    /// A new connection, on which heads may be so large.
    pub fn begin(wire: Wire<S>, workspace: &Rc<Workspace>, heads: HeadLimits) -> Self {
        let limits = Limits { list_bytes: heads.head_bytes, fields: u32::from(heads.fields) };
        Self::of(Link::begin(wire, workspace, limits), Role::Whole)
    }

    fn of(link: Rc<Link<S>>, role: Role) -> Self {
        Self { link, role, trailers: None, asked: Asked::Other }
    }

    fn slot(&self) -> usize {
        match self.role {
            Role::Stream(slot) => slot,
            Role::Whole => unreachable!("only parts of it are lent"),
        }
    }

    fn scheme(&self) -> &'static [u8] {
        if self.link.is_secure { b"https" } else { b"http" }
    }

    /// Keeps a request for a tunnel until the endpoint's SETTINGS are known: whether it understands it, nobody knows before
    /// (RFC 8441 §3).
    fn ask_later(&mut self, request: &Head, target: &[u8]) {
        self.asked = Asked::Later(Box::new(Handshake { request: request.clone(), target: target.to_vec() }));
        self.link.act(self.slot(), |carried, _| {
            carried.stream.begin(0, Arrival::Coming);
            carried.stream.head_left(0, Follow::Tunnel);
        });
    }

    /// Sends what waits for the endpoint's SETTINGS once they are there; `false` where they do not allow it.
    fn asks_now(&mut self) -> bool {
        let Asked::Later(handshake) = &self.asked else { return true };
        match self.link.core.borrow().codec.takes_extended_connect() {
            None => return true,
            Some(false) => return false,
            Some(true) => {}
        }
        let Handshake { request, target } = &**handshake;
        let connect = Connect { protocol: b"websocket", scheme: self.scheme(), path: target };
        self.link.open(self.slot(), Follow::Tunnel, |codec| codec.send_connect(request, &connect));
        let key = request.first(Known::SecWebsocketKey).unwrap_or_default();
        self.asked = Asked::Tunnel(websocket::accept(key));
        true
    }

    /// What the exchange's body is, as far as the head tells. A head that ends the stream says so to HTTP/1 clients, too.
    fn body(&self, answer: &mut Head, end: bool, length: Option<u64>) -> BodySize {
        if matches!(self.asked, Asked::Head) || matches!(answer.status(), 204 | 304) {
            return BodySize::None;
        }
        match (end, length) {
            (true, None) => {
                answer.append(b"Content-Length", b"0");
                BodySize::None
            }
            (true, Some(_)) => BodySize::None,
            (false, Some(length)) => BodySize::Exact(length),
            (false, None) => BodySize::Unknown,
        }
    }
}

impl<S: Transport> Drop for H2Up<S> {
    fn drop(&mut self) {
        match self.role {
            Role::Whole => self.link.retire(),
            Role::Stream(slot) => self.link.give_back(slot),
        }
    }
}

impl<S: Transport> Channel for H2Up<S> {
    fn poll_body<F>(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        mut sink: F,
    ) -> Poll<Result<BodyStep, Failure>>
    where
        F: FnMut(&mut Context<'_>, &[u8]) -> Result<(), Failure>,
    {
        let slot = self.slot();
        let taken = self.link.act(slot, |carried, _| {
            carried.waits(cx);
            carried.stream.take_inbox()
        });
        let mut inbox = match taken {
            Ok(inbox) => inbox,
            Err(None) => return Poll::Pending,
            Err(Some(step)) => {
                if step == Ok(BodyStep::End) {
                    let trailers = self.link.act(slot, |carried, _| carried.stream.take_trailers());
                    self.trailers = self.trailers.take().or(trailers);
                }
                return Poll::Ready(step);
            }
        };
        let count = inbox.pending().len().min(most);
        // Nothing is borrowed meanwhile: what it sinks into may be a stream, too.
        let sunk = sink(cx, &inbox.pending()[..count]);
        inbox.consume(count);
        self.link.act(slot, |carried, tools| carried.stream.put_back(inbox, count, tools));
        Poll::Ready(sunk.map(|()| BodyStep::More))
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        let room = self.link.act(self.slot(), |carried, tools| {
            carried.waits(cx);
            carried.stream.room(tools)
        });
        match room {
            Ok(Some(room)) => Poll::Ready(Ok(room)),
            Ok(None) => Poll::Pending,
            Err(failure) => Poll::Ready(Err(failure)),
        }
    }

    fn send_data(&mut self, _: &mut Context<'_>, data: &[u8]) -> Result<(), Failure> {
        self.link.act(self.slot(), |carried, tools| carried.stream.send_data(data, tools))
    }

    fn finish<'a>(&mut self, trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Failure> {
        self.link.act(self.slot(), |carried, tools| carried.stream.finish(trailers, tools))
    }

    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.trailers.iter().flat_map(Trailers::iter)
    }

    /// What is in frames counts as sent: the connection's task writes them before it waits.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.link.act(self.slot(), |carried, tools| {
            carried.waits(cx);
            if carried.stream.arrival == Arrival::Broken {
                return Poll::Ready(Err(Failure::Closed));
            }
            if carried.stream.push(tools) { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
    }

    fn queued(&self) -> usize {
        self.link.core.borrow_mut().carried(self.slot()).stream.queued()
    }

    fn sent(&self) -> u64 {
        let mut core = self.link.core.borrow_mut();
        let carried = core.carried(self.slot());
        // What the endpoint refused it has not acted on (RFC 9113 §8.7).
        if carried.fate == Fate::Refused { 0 } else { carried.stream.sent() }
    }

    fn open_tunnel(&mut self) {
        self.link.act(self.slot(), |carried, _| carried.stream.open_tunnel());
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.finish(std::iter::empty())?;
        self.poll_flush(cx)
    }
}

impl<S: Transport> Upstream for H2Up<S> {
    fn send_request(&mut self, request: &Head, plan: &RequestPlan<'_>) {
        if plan.upgrade == Upgrade::WebSocket {
            return self.ask_later(request, plan.target);
        }
        self.asked = if request.method() == Method::Head { Asked::Head } else { Asked::Other };
        let (scheme, follow) = (self.scheme(), follow(plan.body, request.version()));
        let end = follow == Follow::Body(Some(0));
        self.link.open(self.slot(), follow, |codec| codec.send_head(request, plan.target, scheme, end));
    }

    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        answer: &mut Head,
        _: &HeadLimits,
    ) -> Poll<HeadRead<Reply>> {
        if !self.asks_now() {
            return Poll::Ready(HeadRead::NoUpgrade);
        }
        let state = self.link.core.borrow().state;
        let (facts, fate) = self.link.act(self.slot(), |carried, _| {
            carried.waits(cx);
            (carried.read_head(answer), carried.fate)
        });
        let Some(facts) = facts else {
            return match (fate, state) {
                (Fate::Refused, _) => Poll::Ready(HeadRead::Closed),
                (Fate::Broken, LinkState::Unreachable) => Poll::Ready(HeadRead::Unreachable),
                (Fate::Broken, _) => Poll::Ready(HeadRead::Cut),
                (Fate::Unsent | Fate::UnderWay, _) => Poll::Pending,
            };
        };
        if answer.status() < 200 {
            answer.remove_known(Known::ContentLength);
            return Poll::Ready(HeadRead::Whole(Reply { body: BodySize::None, upgrade: Upgrade::None }));
        }
        if let Asked::Tunnel(accept) = &self.asked
            && answer.status() < 300
        {
            // As HTTP/1 would say it. "Any 2xx (Successful) response indicates that the sender ... will switch to tunnel mode",
            // and a length means nothing there (RFC 9110 §9.3.6).
            answer.set_status(101);
            answer.remove_known(Known::ContentLength);
            answer.set(b"Sec-WebSocket-Accept", accept.as_bytes());
            return Poll::Ready(HeadRead::Whole(Reply { body: BodySize::None, upgrade: Upgrade::WebSocket }));
        }
        answer.set_version(Version::Http2);
        let body = self.body(answer, facts.end, facts.length);
        Poll::Ready(HeadRead::Whole(Reply { body, upgrade: Upgrade::None }))
    }

    fn received(&self) -> u64 {
        self.link.core.borrow_mut().carried(self.slot()).received
    }

    fn is_reusable(&self) -> bool {
        true
    }

    fn owes_acknowledgement(&self) -> Option<Duration> {
        self.link.wire.borrow().stream().owes_acknowledgement()
    }

    fn last_written(&self) -> Option<Instant> {
        Some(self.link.written.get())
    }

    fn watch_closely(&self) {
        self.link.wire.borrow().stream().watch_closely();
    }
}

impl<S: Transport> Hop for H2Up<S> {
    /// Whether neither the endpoint nor its use so far speaks against it.
    fn is_quiet(&mut self) -> bool {
        !self.link.is_spent()
    }

    fn is_silent(&self, now: Instant) -> bool {
        self.link.is_silent(now)
    }

    fn poll_proven(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.link.poll_proven(cx, self.slot())
    }

    fn distrust(&mut self) {
        self.link.distrust();
    }

    fn tell(&mut self, told: impl Fn(Note) + 'static) {
        *self.link.told.borrow_mut() = Some(Box::new(told));
    }

    fn rest(&mut self) {}

    fn parts_lent(&self) -> usize {
        self.link.lent()
    }

    fn share(&mut self) -> Share<Self> {
        match self.link.take_slot() {
            Some(slot) => Share::Part(Self::of(Rc::clone(&self.link), Role::Stream(slot))),
            None => Share::Full,
        }
    }

    /// A request that an endpoint has not acted on when it ends a connection is named by it (RFC 9113 §6.8).
    fn is_proven(&self) -> bool {
        true
    }
}
