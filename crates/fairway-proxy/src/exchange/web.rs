//! gRPC-Web towards the client, gRPC towards the endpoint (docs/design/0027-grpc-and-grpc-web.md): heads here, the answer's
//! body through an [`Outlet`]; the request's is decoded where it is read (`request::body`).

use std::task::{Context, Poll, ready};

use fairway_connection::sides::{Channel, Failure, Reply};
use fairway_http::grpc::{Decoder, Dialect, Encoder, trailer_line, with_dialect};
use fairway_http::{BodySize, Known, Method, Version};

use super::environment::{Environment, Exchange};
use crate::body_steps::BodySteps;
use crate::buffers::Buffers;
use crate::fault::Fault;
use crate::grpc::{code_of, dialect_of, fields, status_of, write_trailers};
use crate::network::Network;

/// What says how a call ended. In the head of an answer without messages it is in the place of trailers.
const STATUS: [&[u8]; 3] = [b"grpc-status", b"grpc-message", b"grpc-status-details-bin"];

/// Whether the endpoint shall see gRPC in place of the client's gRPC-Web.
fn is_translated<N: Network>(env: &Environment<'_, N>) -> bool {
    let is_web = env.intake.dialect.is_web() && env.intake.method == Method::Post;
    is_web && env.rule().steps().forwarding.grpc_web
}

/// Makes the head and the body of a call what the endpoint shall see.
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
            body.meet(BodySteps::of(Decoder::default()));
            request.remove_known(Known::ContentLength);
        }
    } else if env.intake.dialect != Dialect::Native {
        return;
    }
    // Servers of gRPC find out with it whether a proxy loses trailers.
    request.append_known(Known::Te, |value| value.extend_from_slice(b"trailers"));
}

/// Looks at the answer to a call, and makes it what its client shall see. The encoder, if any, is for its body.
#[inline(never)]
pub(super) fn begin_answer<N: Network, D>(
    exchange: &mut Exchange<'_, '_, N, D>,
    reply: &mut Reply,
) -> Option<Box<Encoder>> {
    let Exchange { env, buffers, record, .. } = exchange;
    let Buffers { answer, text, .. } = &mut **buffers;
    record.call.status = status_of(answer.fields().map(|field| (field.name, field.value)));
    if !is_translated(env) || dialect_of(answer) != Dialect::Native {
        return None;
    }
    let to = record.call.dialect;
    let content_type = with_dialect(answer.first(Known::ContentType).unwrap_or_default(), to);
    answer.set(b"Content-Type", &content_type);
    answer.remove_known(Known::ContentLength);
    reply.body = BodySize::Unknown;
    text.clear();
    for name in STATUS {
        answer.all_named(name).for_each(|value| trailer_line(name, value, text));
        answer.remove(name);
    }
    Some(Box::new(Encoder::new(to == Dialect::WebText)))
}

/// The client's side of an answer's body, which may meet steps and be encoded on its way there.
pub(super) struct Outlet<'a, D> {
    pub(super) down: &'a mut D,
    pub(super) steps: Option<&'a mut BodySteps>,
    pub(super) encoder: Option<&'a mut Encoder>,
    /// Trailers of the encoded body that are known already.
    pub(super) lines: &'a mut Vec<u8>,
    /// Bytes that were handed to the client's side.
    pub(super) moved: &'a mut u64,
}

impl<D: Channel> Outlet<'_, D> {
    /// Ready with how many bytes of the endpoint's there is room for.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Failure>> {
        let room = ready!(self.down.poll_room(cx))?;
        let room = self.encoder.as_ref().map_or(room, |encoder| encoder.room(room));
        Poll::Ready(Ok(self.steps.as_ref().map_or(room, |steps| steps.takes(room))))
    }

    /// Takes what the endpoint sent. A client that takes no more has refused it.
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

    /// The endpoint has sent all that there is for now.
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
            // What followed would be taken for the rest of a message.
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

    /// Ends the body of a call, of which more was to come, with the status of what went wrong. Says whether that could be done:
    /// over HTTP/1 nobody would look for it behind an answer that breaks off.
    pub(super) fn end_early(
        &mut self,
        cx: &mut Context<'_>,
        dialect: Dialect,
        version: Version,
        fault: Fault,
    ) -> bool {
        let has_place = self.encoder.is_some() || (dialect == Dialect::Native && version.has_streams());
        let is_to_be_told = matches!(
            fault,
            Fault::DeadlineExceeded
                | Fault::UpstreamTruncated
                | Fault::UpstreamTimeout
                | Fault::UpstreamMalformed(_)
        );
        if !has_place || !is_to_be_told {
            return false;
        }
        let said = fields(code_of(fault), fault.label().as_bytes());
        let trailers = said.iter().map(|(name, value)| (name.as_bytes(), &value[..]));
        self.finish(cx, trailers).is_ok()
    }
}
