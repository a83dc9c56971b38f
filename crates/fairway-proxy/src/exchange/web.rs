//! gRPC-Web on the client's side, gRPC on the endpoint's (docs/design/0027-grpc-and-grpc-web.md). Translates heads, and
//! response bodies through an [`Outlet`]; request bodies are decoded where they are read (`request::body`).

use std::task::{Context, Poll, ready};

use fairway_connection::sides::{Channel, Failure, ResponseMeta};
use fairway_http::grpc::{Decoder, Dialect, Encoder, trailer_line, with_dialect};
use fairway_http::{BodySize, Known, Method, Version};

use super::environment::{Environment, Exchange};
use crate::body_steps::BodySteps;
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::grpc::{dialect_of, status_code, status_fields, status_of, write_trailers};
use crate::network::Network;

/// The headers that carry the status of a call. In a response without messages they are in the head instead of the trailers.
const STATUS_FIELDS: [&[u8]; 3] = [b"grpc-status", b"grpc-message", b"grpc-status-details-bin"];

/// Whether the endpoint gets gRPC instead of the client's gRPC-Web.
fn is_translated<N: Network>(env: &Environment<'_, N>) -> bool {
    let is_web = env.intake.dialect.is_web() && env.intake.method == Method::Post;
    is_web && env.rule().steps().forwarding.grpc_web
}

/// Rewrites the head and the body of a call for the endpoint.
#[inline(never)]
pub(super) fn prepare<N: Network>(env: &Environment<'_, N>, buffers: &mut Buffers) {
    let Buffers { request, body, .. } = buffers;
    if is_translated(env) {
        let content_type = request.first(Known::ContentType).unwrap_or_default();
        let content_type = with_dialect(content_type, Dialect::Native);
        request.set(b"Content-Type", &content_type);
        request.remove(b"Accept");
        request.remove(b"X-Grpc-Web");
        if env.intake.dialect == Dialect::WebText {
            body.add_steps(BodySteps::from_step(Decoder::default()));
            request.remove_known(Known::ContentLength);
        }
    } else if env.intake.dialect != Dialect::Native {
        return;
    }
    // gRPC servers detect with it whether a proxy drops trailers.
    request.append_known(Known::Te, |value| value.extend_from_slice(b"trailers"));
}

/// Reads the status of a call from its response, and rewrites the response for the client. Returns the encoder for its body, if
/// it needs one.
#[inline(never)]
pub(super) fn begin_response<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    reply: &mut ResponseMeta,
) -> Option<Box<Encoder>> {
    let Exchange { env, buffers, record, .. } = exchange;
    let Buffers { response, text, .. } = &mut **buffers;
    record.grpc_call.status = status_of(response.fields().map(|field| (field.name, field.value)));
    if !is_translated(env) || dialect_of(response) != Dialect::Native {
        return None;
    }
    let to = record.grpc_call.dialect;
    let content_type = with_dialect(response.first(Known::ContentType).unwrap_or_default(), to);
    response.set(b"Content-Type", &content_type);
    response.remove_known(Known::ContentLength);
    reply.body = BodySize::Unknown;
    text.clear();
    for name in STATUS_FIELDS {
        response.all_named(name).for_each(|value| trailer_line(name, value, text));
        response.remove(name);
    }
    Some(Box::new(Encoder::new(to == Dialect::WebText)))
}

/// Writes a response body to the client, through its steps and encoder if it has any.
pub(super) struct Outlet<'a, D> {
    pub(super) down: &'a mut D,
    pub(super) steps: Option<&'a mut BodySteps>,
    pub(super) encoder: Option<&'a mut Encoder>,
    /// Trailers to send at the end of the encoded body.
    pub(super) lines: &'a mut Vec<u8>,
    /// Bytes that were passed to the client's side.
    pub(super) moved: &'a mut u64,
}

impl<D: Channel> Outlet<'_, D> {
    /// Ready with the number of bytes that can be read from the endpoint now.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        let room = ready!(self.down.poll_room(cx))?;
        let room = self.encoder.as_ref().map_or(room, |encoder| encoder.room(room));
        Poll::Ready(Ok(self.steps.as_ref().map_or(room, |steps| steps.takes(room))))
    }

    /// Passes on bytes of the endpoint. An error means that the client takes no more.
    pub(super) fn send_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Result<(), Failure> {
        match self.steps.take() {
            None => self.encode(cx, data),
            Some(steps) => {
                let sent = steps.write(data, &mut |data| self.encode(cx, data));
                self.steps = Some(steps);
                sent
            }
        }
    }

    fn encode(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Result<(), Failure> {
        let Self { down, encoder, moved, .. } = self;
        let mut send = |data: &[u8]| {
            **moved += data.len() as u64;
            down.send_data(cx, data)
        };
        match encoder {
            None => send(data),
            Some(encoder) => encoder.write(data, send),
        }
        .map_err(|_| Failure::Refused)
    }

    /// Called when the endpoint has nothing more to send for now: flushes what the steps hold.
    pub(super) fn pause(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let Some(steps) = self.steps.take() else { return Ok(()) };
        let sent = steps.pause(&mut |data| self.encode(cx, data));
        self.steps = Some(steps);
        sent
    }

    /// Ends the body with these trailers.
    pub(super) fn finish<'t>(
        &mut self,
        cx: &mut Context<'_>,
        trailers: impl Iterator<Item = (&'t [u8], &'t [u8])>,
    ) -> Result<(), Failure> {
        if let Some(steps) = self.steps.take() {
            steps.finish(&mut |data| self.encode(cx, data))?;
        }
        let Self { down, encoder, lines, moved, .. } = self;
        let Some(encoder) = encoder else { return down.finish(trailers) };
        if !encoder.is_between_frames() {
            // Trailers here would be read as the rest of a message.
            return Err(Failure::Closed);
        }
        trailers.for_each(|(name, value)| trailer_line(name, value, lines));
        if !lines.is_empty() {
            write_trailers(encoder, lines, |data| {
                **moved += data.len() as u64;
                down.send_data(cx, data)
            })?;
        }
        down.finish(std::iter::empty())
    }

    /// Ends an incomplete response to a call with the gRPC status of the fault. Returns whether that was possible: over HTTP/1
    /// a client does not look for a status after a truncated response.
    pub(super) fn end_early(
        &mut self,
        cx: &mut Context<'_>,
        dialect: Dialect,
        version: Version,
        fault: Fault,
    ) -> bool {
        let has_place = self.encoder.is_some() || (dialect == Dialect::Native && version.has_streams());
        let needs_trailers = matches!(
            fault,
            Fault::DeadlineExceeded
                | Fault::UpstreamTruncated
                | Fault::UpstreamTimeout
                | Fault::UpstreamMalformed(_)
        );
        if !has_place || !needs_trailers {
            return false;
        }
        let status = status_fields(status_code(fault), fault.label().as_bytes());
        let trailers = status.iter().map(|(name, value)| (name.as_bytes(), &value[..]));
        self.finish(cx, trailers).is_ok()
    }
}
