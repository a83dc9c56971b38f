//! One stream of a shared connection as the upstream side of an exchange, and the connection as the pool keeps it.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_http::{BodySize, Head, HeadLimits, Known, Method, Version};
use fairway_http2::PeerEvent;
use fairway_http2::fields::{Connect, Limits};
use fairway_net::clock::Instant;
use fairway_net::transport::Transport;
use fairway_net::wire::{Wire, Workspace};

use super::link::{Link, LinkState};
use super::stream::{Following, ReceiveState};
use super::stream_slots::StreamState;
use crate::outgoing::following;
use crate::sides::{
    BodyStep, Channel, Failure, HeadRead, Hop, RequestPlan, ResponseMeta, Share, Upgrade, Upstream,
};
use crate::trailers::Trailers;
use crate::websocket;

/// A shared connection to an endpoint, or one exchange's stream on it.
pub struct H2Upstream<S: Transport> {
    link: Rc<Link<S>>,
    role: HopRole,
    trailers: Option<Trailers>,
    request: RequestKind,
}

/// What the response's interpretation depends on.
enum RequestKind {
    Other,
    /// HEAD: the response has no body.
    Head,
    /// CONNECT for a WebSocket, with the `Sec-WebSocket-Accept` value for the client.
    Tunnel(String),
    /// The same, waiting for the endpoint's SETTINGS.
    DeferredTunnel(Box<TunnelRequest>),
}

/// The request for a tunnel.
struct TunnelRequest {
    request: Head,
    target: Vec<u8>,
}

/// Whether this is the connection or one of its streams.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HopRole {
    /// The connection, as its pool keeps it.
    Connection,
    /// The stream in this slot.
    Stream(usize),
}

impl<S: Transport> H2Upstream<S> {
    /// A new connection whose heads are limited to `heads`.
    pub fn new(wire: Wire<S>, workspace: &Rc<Workspace>, heads: HeadLimits) -> Self {
        let limits = Limits { list_bytes: heads.head_bytes, fields: u32::from(heads.fields) };
        Self::with_role(Link::spawn(wire, workspace, limits), HopRole::Connection)
    }

    fn with_role(link: Rc<Link<S>>, role: HopRole) -> Self {
        Self { link, role, trailers: None, request: RequestKind::Other }
    }

    fn slot(&self) -> usize {
        match self.role {
            HopRole::Stream(slot) => slot,
            HopRole::Connection => unreachable!("only streams are lent"),
        }
    }

    fn scheme(&self) -> &'static [u8] {
        if self.link.is_secure { b"https" } else { b"http" }
    }

    /// Keeps a tunnel request until the endpoint's SETTINGS say whether it supports extended CONNECT (RFC 8441 §3).
    fn defer_tunnel(&mut self, request: &Head, target: &[u8]) {
        self.request = RequestKind::DeferredTunnel(Box::new(TunnelRequest {
            request: request.clone(),
            target: target.to_vec(),
        }));
        self.link.with_stream(self.slot(), |carried, _| {
            carried.stream.open(0, ReceiveState::Receiving);
            carried.stream.head_sent(0, Following::Tunnel);
        });
    }

    /// Sends the deferred request once the SETTINGS are known; `false` if they do not allow it.
    fn send_deferred(&mut self) -> bool {
        let RequestKind::DeferredTunnel(handshake) = &self.request else { return true };
        match self.link.core.borrow().codec.supports_extended_connect() {
            None => return true,
            Some(false) => return false,
            Some(true) => {}
        }
        let TunnelRequest { request, target } = &**handshake;
        let connect = Connect { protocol: b"websocket", scheme: self.scheme(), path: target };
        self.link.open(self.slot(), Following::Tunnel, |codec| codec.send_connect(request, &connect));
        let key = request.first(Known::SecWebsocketKey).unwrap_or_default();
        self.request = RequestKind::Tunnel(websocket::accept(key));
        true
    }

    /// The size of the response body. A head that ends the stream gets a length of 0 for HTTP/1 clients.
    fn response_body(&self, response: &mut Head, end: bool, length: Option<u64>) -> BodySize {
        if matches!(self.request, RequestKind::Head) || matches!(response.status(), 204 | 304) {
            return BodySize::None;
        }
        match (end, length) {
            (true, None) => {
                response.append(b"Content-Length", b"0");
                BodySize::None
            }
            (true, Some(_)) => BodySize::None,
            (false, Some(length)) => BodySize::Exact(length),
            (false, None) => BodySize::Unknown,
        }
    }
}

impl<S: Transport> Drop for H2Upstream<S> {
    fn drop(&mut self) {
        match self.role {
            HopRole::Connection => self.link.retire(),
            HopRole::Stream(slot) => self.link.release_slot(slot),
        }
    }
}

impl<S: Transport> Channel for H2Upstream<S> {
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
        let received = self.link.with_stream(slot, |carried, _| {
            carried.register_waker(cx);
            carried.stream.take_inbox()
        });
        let mut inbox = match received {
            Ok(inbox) => inbox,
            Err(None) => return Poll::Pending,
            Err(Some(step)) => {
                if step == Ok(BodyStep::End) {
                    let trailers = self.link.with_stream(slot, |carried, _| carried.stream.take_trailers());
                    self.trailers = self.trailers.take().or(trailers);
                }
                return Poll::Ready(step);
            }
        };
        let count = inbox.pending().len().min(most);
        // Nothing is borrowed while `sink` runs: it may write to a stream as well.
        let sunk = sink(cx, &inbox.pending()[..count]);
        inbox.consume(count);
        self.link.with_stream(slot, |carried, tools| carried.stream.return_inbox(inbox, count, tools));
        Poll::Ready(sunk.map(|()| BodyStep::More))
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        let room = self.link.with_stream(self.slot(), |carried, tools| {
            carried.register_waker(cx);
            carried.stream.room(tools)
        });
        match room {
            Ok(Some(room)) => Poll::Ready(Ok(room)),
            Ok(None) => Poll::Pending,
            Err(failure) => Poll::Ready(Err(failure)),
        }
    }

    fn send_data(&mut self, _: &mut Context<'_>, data: &[u8]) -> Result<(), Failure> {
        self.link.with_stream(self.slot(), |carried, tools| carried.stream.send_data(data, tools))
    }

    fn finish<'a>(&mut self, trailers: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), Failure> {
        self.link.with_stream(self.slot(), |carried, tools| carried.stream.finish(trailers, tools))
    }

    fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.trailers.iter().flat_map(Trailers::iter)
    }

    /// Data in frames counts as sent: the connection's task writes it before it waits.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.link.with_stream(self.slot(), |carried, tools| {
            carried.register_waker(cx);
            if carried.stream.arrival == ReceiveState::Reset {
                return Poll::Ready(Err(Failure::Closed));
            }
            if carried.stream.push(tools) { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
    }

    fn queued(&self) -> usize {
        self.link.core.borrow_mut().slot_mut(self.slot()).stream.queued()
    }

    fn sent(&self) -> u64 {
        let mut core = self.link.core.borrow_mut();
        let carried = core.slot_mut(self.slot());
        // The endpoint did not act on a request that it refused (RFC 9113 §8.7).
        if carried.state == StreamState::Refused { 0 } else { carried.stream.sent() }
    }

    fn open_tunnel(&mut self) {
        self.link.with_stream(self.slot(), |carried, _| carried.stream.open_tunnel());
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.finish(std::iter::empty())?;
        self.poll_flush(cx)
    }
}

impl<S: Transport> Upstream for H2Upstream<S> {
    fn send_request(&mut self, request: &Head, plan: &RequestPlan<'_>) {
        if plan.upgrade == Upgrade::WebSocket {
            return self.defer_tunnel(request, plan.target);
        }
        self.request = if request.method() == Method::Head { RequestKind::Head } else { RequestKind::Other };
        let (scheme, follow) = (self.scheme(), following(plan.body, request.version()));
        let end = follow == Following::Body(Some(0));
        self.link.open(self.slot(), follow, |codec| codec.send_head(request, plan.target, scheme, end));
    }

    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        answer: &mut Head,
        _: &HeadLimits,
    ) -> Poll<HeadRead<ResponseMeta>> {
        if !self.send_deferred() {
            return Poll::Ready(HeadRead::NoUpgrade);
        }
        let state = self.link.core.borrow().state;
        let (facts, fate) = self.link.with_stream(self.slot(), |carried, _| {
            carried.register_waker(cx);
            (carried.take_head(answer), carried.state)
        });
        let Some(facts) = facts else {
            return match (fate, state) {
                (StreamState::Refused, _) => Poll::Ready(HeadRead::Closed),
                (StreamState::Broken, LinkState::Unreachable) => Poll::Ready(HeadRead::Unreachable),
                (StreamState::Broken, _) => Poll::Ready(HeadRead::Cut),
                (StreamState::Unsent | StreamState::UnderWay, _) => Poll::Pending,
            };
        };
        if answer.status() < 200 {
            answer.remove_known(Known::ContentLength);
            return Poll::Ready(HeadRead::Whole(ResponseMeta {
                body: BodySize::None,
                upgrade: Upgrade::None,
            }));
        }
        if let RequestKind::Tunnel(accept) = &self.request
            && answer.status() < 300
        {
            // Map it to HTTP/1. "Any 2xx (Successful) response indicates that the sender ... will switch to tunnel
            // mode", and a length means nothing there (RFC 9110 §9.3.6).
            answer.set_status(101);
            answer.remove_known(Known::ContentLength);
            answer.set(b"Sec-WebSocket-Accept", accept.as_bytes());
            return Poll::Ready(HeadRead::Whole(ResponseMeta {
                body: BodySize::None,
                upgrade: Upgrade::WebSocket,
            }));
        }
        answer.set_version(Version::Http2);
        let body = self.response_body(answer, facts.end, facts.length);
        Poll::Ready(HeadRead::Whole(ResponseMeta { body, upgrade: Upgrade::None }))
    }

    fn received(&self) -> u64 {
        self.link.core.borrow_mut().slot_mut(self.slot()).received
    }

    fn is_reusable(&self) -> bool {
        true
    }

    fn unacknowledged_for(&self) -> Option<Duration> {
        self.link.wire.borrow().stream().owes_acknowledgement()
    }

    fn last_written(&self) -> Option<Instant> {
        Some(self.link.last_written_at.get())
    }

    fn shorten_keepalive(&self) {
        self.link.wire.borrow().stream().watch_closely();
    }
}

impl<S: Transport> Hop for H2Upstream<S> {
    /// Whether neither the endpoint nor the use so far rules out another exchange.
    fn is_reusable_now(&mut self) -> bool {
        !self.link.is_worn_out()
    }

    fn needs_liveness_check(&self, now: Instant) -> bool {
        self.link.needs_liveness_check(now)
    }

    fn poll_alive(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.link.poll_alive(cx, self.slot())
    }

    fn mark_unresponsive(&mut self) {
        self.link.mark_unresponsive();
    }

    fn set_event_observer(&mut self, observer: impl Fn(PeerEvent) + 'static) {
        *self.link.observer.borrow_mut() = Some(Box::new(observer));
    }

    fn release_buffers(&mut self) {}

    fn shared_exchanges(&self) -> usize {
        self.link.slots_in_use()
    }

    fn try_share(&mut self) -> Share<Self> {
        match self.link.reserve_slot() {
            Some(slot) => Share::Part(Self::with_role(Rc::clone(&self.link), HopRole::Stream(slot))),
            None => Share::Full,
        }
    }

    /// GOAWAY names the requests that the endpoint did not act on (RFC 9113 §6.8).
    fn is_safe_for_non_idempotent(&self) -> bool {
        true
    }
}
