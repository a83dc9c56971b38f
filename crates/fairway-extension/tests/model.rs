//! Complete exchanges with a conforming service, with events in random order: the output is the input with the service's changes.
//! If services fail in between, it is that or a failure, never a part of it.

use std::collections::VecDeque;

use fairway_extension::generated::body_mutation::Mutation;
use fairway_extension::generated::processing_request::Request;
use fairway_extension::generated::{CommonResponse, ProcessingRequest, ProcessingResponse};
use fairway_extension::processing::{MAX_HELD_BYTES, Side, StopReason, Trailers};
use fairway_extension::{frame, processing::Processor};
use fairway_model::Extension;
use prost::Message;

use crate::support::*;

/// Exchanges per test.
const EXCHANGES: u64 = 1000;

/// The longest piece that a service sends back, before its change, in bytes.
const MAX_PIECE: usize = 30_000;

/// How a service changes bodies.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    Nothing,
    /// Changes each byte.
    Flip,
    /// Duplicates each byte.
    Double,
}

impl Change {
    fn apply(self, body: &[u8]) -> Vec<u8> {
        match self {
            Change::Nothing => body.to_vec(),
            Change::Flip => body.iter().map(|byte| byte ^ 0xff).collect(),
            Change::Double => body.iter().flat_map(|byte| [*byte, *byte]).collect(),
        }
    }
}

/// A service that responds to everything, with a delay.
struct Service {
    change: Change,
    is_duplex: [bool; 2],
    /// Pieces of a full duplex body that were not sent back, and whether the body ended.
    chunks: [(Vec<u8>, bool); 2],
    responses: VecDeque<ProcessingResponse>,
}

impl Service {
    fn receive(&mut self, message: &[u8]) {
        let request = ProcessingRequest::decode(&message[frame::PREFIX_BYTES..]).unwrap().request.unwrap();
        let (side, body) = match request {
            Request::RequestHeaders(_) => return self.respond(to_headers(Side::Request, unchanged())),
            Request::ResponseHeaders(_) => return self.respond(to_headers(Side::Response, unchanged())),
            Request::RequestTrailers(_) => return self.trailers(Side::Request),
            Request::ResponseTrailers(_) => return self.trailers(Side::Response),
            Request::RequestBody(body) => (Side::Request, body),
            Request::ResponseBody(body) => (Side::Response, body),
        };
        if self.is_duplex[side as usize] {
            let (pieces, is_end) = &mut self.chunks[side as usize];
            pieces.extend_from_slice(&body.body);
            *is_end = body.end_of_stream;
        } else {
            let common = self.changed(&body.body);
            self.respond(to_body(side, common));
        }
    }

    fn changed(&self, body: &[u8]) -> CommonResponse {
        match self.change {
            Change::Nothing => unchanged(),
            change => crate::support::body(Mutation::Body(change.apply(body))),
        }
    }

    fn respond(&mut self, response: ProcessingResponse) {
        self.responses.push_back(response);
    }

    fn trailers(&mut self, side: Side) {
        if self.is_duplex[side as usize] {
            let rest = std::mem::take(&mut self.chunks[side as usize].0);
            for piece in rest.chunks(MAX_PIECE) {
                let chunk = stream(&self.change.apply(piece), false);
                self.respond(to_body(side, chunk));
            }
        }
        self.respond(to_trailers(side, None));
    }

    /// Sends back a part of what it has.
    fn stream(&mut self, side: Side, rng: &mut fastrand::Rng) {
        let (pieces, is_end) = &mut self.chunks[side as usize];
        let rest = pieces.split_off(rng.usize(..=pieces.len().min(MAX_PIECE)));
        let chunk = std::mem::replace(pieces, rest);
        let is_last = *is_end && pieces.is_empty();
        if !chunk.is_empty() || is_last {
            *is_end &= !is_last;
            let chunk = stream(&self.change.apply(&chunk), is_last);
            self.respond(to_body(side, chunk));
        }
    }
}

/// What one direction still has to send.
struct Sender {
    side: Side,
    body: Vec<u8>,
    sent: usize,
    trailers: Trailers,
    has_begun: bool,
    has_ended: bool,
}

impl Sender {
    fn random(side: Side, rng: &mut fastrand::Rng) -> Self {
        let length = match rng.u8(..4) {
            0 => 0,
            1 => rng.usize(..200),
            2 => rng.usize(..4000),
            _ => rng.usize(..300_000),
        };
        let body = std::iter::repeat_with(|| rng.u8(..)).take(length).collect();
        let trailers = if rng.bool() { trailers(&[("x-a", "1"), ("x-b", "2")]) } else { vec![] };
        Sender { side, body, sent: 0, trailers, has_begun: false, has_ended: false }
    }

    /// Performs the next step, if possible.
    fn step(&mut self, processor: &mut Processor, rng: &mut fastrand::Rng) -> bool {
        let has_body = !self.body.is_empty() || !self.trailers.is_empty();
        if !self.has_begun {
            self.has_begun = true;
            self.has_ended = !has_body;
            let facts = fairway_extension::processing::ExchangeFacts {
                path: b"/",
                scheme: "http",
                authority: Some(b"a"),
                attributes: &[],
            };
            match self.side {
                Side::Request => processor.request_head(&request_head(), &facts, has_body),
                Side::Response => processor.response_head(&response_head(), has_body),
            }
            return true;
        }
        let room = processor.room(self.side);
        if self.has_ended {
            return false;
        }
        if self.sent == self.body.len() {
            self.has_ended = true;
            processor.end(self.side, self.trailers.clone());
            return true;
        }
        let limit = room.min(self.body.len() - self.sent).min(20_000);
        if limit == 0 {
            return false;
        }
        let chunk = &self.body[self.sent..][..rng.usize(1..=limit)];
        self.sent += chunk.len();
        processor.write_body(self.side, chunk);
        true
    }
}

struct Exchange {
    processor: Processor,
    service: Service,
    senders: [Sender; 2],
    outputs: [Output; 2],
    stop: Option<StopReason>,
    max_held: usize,
}

impl Exchange {
    fn new(extension: Extension, change: Change, rng: &mut fastrand::Rng) -> Self {
        let is_duplex = [extension.request, extension.response]
            .map(|phases| phases.body == fairway_model::BodyMode::FullDuplexStreamed);
        let service = Service { change, is_duplex, chunks: Default::default(), responses: VecDeque::new() };
        Exchange {
            processor: Processor::new(extension.into()),
            service,
            senders: SIDES.map(|side| Sender::random(side, rng)),
            outputs: Default::default(),
            stop: None,
            max_held: 0,
        }
    }

    /// Performs one random step; returns whether there was one.
    fn step(&mut self, rng: &mut fastrand::Rng) -> bool {
        let first = rng.u8(..6);
        let done = (first..first + 6).any(|action| match action % 6 {
            0 => self.senders[0].step(&mut self.processor, rng),
            // A response may start before its request is complete.
            1 => self.senders[0].has_begun && self.senders[1].step(&mut self.processor, rng),
            2 => self.processor.take_message().map(|message| self.service.receive(&message)).is_some(),
            3 => self.serve(rng),
            side => self.take(SIDES[usize::from(side) - 4]),
        });
        self.max_held = self.max_held.max(self.processor.held_bytes());
        self.stop = self.processor.take_stop().or(self.stop.take());
        done
    }

    fn serve(&mut self, rng: &mut fastrand::Rng) -> bool {
        if self.processor.accepts() && self.service.responses.is_empty() {
            SIDES.iter().for_each(|side| self.service.stream(*side, rng));
        }
        if !self.processor.accepts() {
            return false;
        }
        let Some(answer) = self.service.responses.pop_front() else {
            return self.service.chunks.iter().any(|(pieces, is_end)| !pieces.is_empty() || *is_end);
        };
        let bytes = frame::encode(&answer);
        let (first, second) = bytes.split_at(rng.usize(..=bytes.len()));
        self.processor.receive(first);
        self.processor.receive(second);
        true
    }

    fn take(&mut self, side: Side) -> bool {
        let event = self.processor.next(side);
        event.map(|event| self.outputs[side as usize].take(event)).is_some()
    }

    fn is_over(&self) -> bool {
        self.stop.is_some() || self.outputs.iter().all(|output| output.end.is_some())
    }
}

fn random_extension(rng: &mut fastrand::Rng) -> Extension {
    let mut extension = extension();
    let mut random_phases = || {
        let body = MODES[rng.usize(..MODES.len())];
        phases(rng.bool(), body, rng.bool() || body == fairway_model::BodyMode::FullDuplexStreamed)
    };
    (extension.request, extension.response) = (random_phases(), random_phases());
    extension.max_buffered_body = [0, 100, 5000, 400_000][rng.usize(..4)];
    extension
}

fn seeds() -> impl Iterator<Item = (u64, fastrand::Rng)> {
    (0..EXCHANGES).map(|seed| (seed, fastrand::Rng::with_seed(seed)))
}

/// The expected body if the service changes everything that it gets.
fn expected(sender: &Sender, extension: &Extension, change: Change) -> Vec<u8> {
    let phases = if sender.side == Side::Request { extension.request } else { extension.response };
    let shown = match phases.body {
        fairway_model::BodyMode::None => 0,
        fairway_model::BodyMode::BufferedPartial => {
            (extension.max_buffered_body as usize).min(sender.body.len())
        }
        _ => sender.body.len(),
    };
    let (shown, rest) = sender.body.split_at(shown);
    let mut expected = change.apply(shown);
    expected.extend_from_slice(rest);
    expected
}

#[test]
fn the_output_is_the_input_with_the_changes_of_the_service() {
    for (seed, mut rng) in seeds() {
        let extension = random_extension(&mut rng);
        let change = [Change::Nothing, Change::Flip, Change::Double][rng.usize(..3)];
        let mut exchange = Exchange::new(extension.clone(), change, &mut rng);
        while !exchange.is_over() {
            assert!(exchange.step(&mut rng), "seed {seed} hangs: {extension:?}");
        }
        let bound = 12 * MAX_HELD_BYTES + 4 * extension.max_buffered_body as usize + 16_384;
        assert!(exchange.max_held <= bound, "seed {seed}: {} bytes are held", exchange.max_held);
        let is_too_large = |sender: &Sender| {
            let phases = if sender.side == Side::Request { extension.request } else { extension.response };
            phases.body == fairway_model::BodyMode::Buffered
                && sender.body.len() > extension.max_buffered_body as usize
        };
        if exchange.stop.is_some() {
            assert!(exchange.senders.iter().any(is_too_large), "seed {seed}: {:?}", exchange.stop);
            continue;
        }
        for (sender, output) in exchange.senders.iter().zip(&exchange.outputs) {
            assert!(output.body == expected(sender, &extension, change), "seed {seed}: {:?}", sender.side);
            assert_eq!(output.end.as_ref(), Some(&sender.trailers), "seed {seed}: {:?}", sender.side);
        }
        assert!(exchange.processor.is_finished() && exchange.processor.awaited().is_none(), "seed {seed}");
    }
}

#[test]
fn a_service_that_fails_at_any_time_truncates_no_body() {
    let mut passed = 0;
    for (seed, mut rng) in seeds() {
        let mut extension = random_extension(&mut rng);
        extension.failure_mode_allow = rng.bool();
        let mut exchange = Exchange::new(extension.clone(), Change::Nothing, &mut rng);
        let mut steps_until_failure = rng.usize(..120);
        while !exchange.is_over() {
            if steps_until_failure == 0 {
                match rng.u8(..6) {
                    0 => exchange.processor.closed(None),
                    1 => exchange.processor.closed(Some(0)),
                    2 => exchange.processor.closed(Some(13)),
                    3 => exchange.processor.timed_out(),
                    4 => exchange.processor.receive(&[0, 0, 0, 0, 1, 0xff]),
                    _ => exchange.processor.receive(&[7]),
                }
            }
            steps_until_failure = steps_until_failure.wrapping_sub(1);
            let done = exchange.step(&mut rng);
            assert!(done || exchange.is_over(), "seed {seed} hangs: {extension:?}");
        }
        if exchange.stop.is_some() {
            continue;
        }
        passed += 1;
        for (sender, output) in exchange.senders.iter().zip(&exchange.outputs) {
            assert!(output.body == sender.body, "seed {seed}: {:?}", sender.side);
            assert_eq!(output.end.as_ref(), Some(&sender.trailers), "seed {seed}");
        }
    }
    assert!(passed > EXCHANGES / 4, "only {passed} of {EXCHANGES} exchanges passed");
}
