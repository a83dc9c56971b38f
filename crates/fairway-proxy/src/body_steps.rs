//! Runs the steps that inspect or change a body while it streams: for a request where it is read, before it is buffered for
//! another attempt; for a response before it is encoded for its client. Back-pressure is that of the receiver: no more is read
//! than the steps accept for its room. A rule without such steps pays for one comparison per piece.

use fairway_connection::sides::Failure;
use fairway_http::grpc::Decoder;
use fairway_http::{BodySize, Head, Known, Malformed};
use fairway_routing::CompiledRule;

use crate::body_step::{BodyStep, Sink};

/// Bytes that the steps of one body may buffer together; more ends the exchange.
const MAX_HELD_BYTES: usize = 64 * 1024;

/// The steps of one body, in the order in which they run.
#[derive(Default)]
pub(crate) struct BodySteps(Vec<Box<dyn BodyStep>>);

impl BodySteps {
    /// A single step.
    pub(crate) fn from_step(step: impl BodyStep + 'static) -> Box<Self> {
        Box::new(Self(vec![Box::new(step)]))
    }

    /// Adds steps after these.
    pub(crate) fn append(&mut self, mut later: Self) {
        self.0.append(&mut later.0);
    }

    /// How many bytes the steps accept if the receiver has this much room; at least 1.
    pub(crate) fn takes(&self, room: usize) -> usize {
        self.0.iter().rev().fold(room, |room, step| step.takes(room))
    }

    /// Whether as many bytes come out as go in.
    pub(crate) fn keep_length(&self) -> bool {
        self.0.iter().all(|step| step.keeps_length())
    }

    /// Processes a piece, and passes the output to `sink`.
    ///
    /// # Errors
    /// The body is invalid, the steps buffer too much, or `sink` failed.
    pub(crate) fn write(&mut self, chunk: &[u8], sink: &mut Sink<'_>) -> Result<(), Failure> {
        pass(&mut self.0, chunk, sink)?;
        match self.0.iter().map(|step| step.held_bytes()).sum::<usize>() {
            0..=MAX_HELD_BYTES => Ok(()),
            _ => Err(Failure::Closed),
        }
    }

    /// Called before waiting for more: passes on what the reader can already use.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub(crate) fn pause(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        for at in 0..self.0.len() {
            if let [step, later @ ..] = &mut self.0[at..] {
                step.pause(&mut |piece| pass(later, piece, sink))?;
            }
        }
        Ok(())
    }

    /// Called at the end of the body: passes on what is buffered.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub(crate) fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        for at in 0..self.0.len() {
            if let [step, later @ ..] = &mut self.0[at..] {
                step.finish(&mut |piece| pass(later, piece, sink))?;
            }
        }
        Ok(())
    }
}

/// Runs a piece through the first step, its output through the next, and so on.
fn pass(steps: &mut [Box<dyn BodyStep>], chunk: &[u8], sink: &mut Sink<'_>) -> Result<(), Failure> {
    match steps {
        [] => sink(chunk),
        [first, later @ ..] => first.write(chunk, &mut |piece| pass(later, piece, sink)),
    }
}

/// The steps of a rule for request bodies. If they change the length, it is removed from the head.
pub(crate) fn for_request(rule: &CompiledRule, request: &mut Head) -> Option<Box<BodySteps>> {
    let steps = of_rule(rule)?;
    if !steps.keep_length() {
        request.remove_known(Known::ContentLength);
    }
    Some(steps)
}

/// The steps of a rule for response bodies, of the size in `body`.
pub(crate) fn for_response(
    rule: &CompiledRule,
    response: &mut Head,
    body: &mut BodySize,
) -> Option<Box<BodySteps>> {
    let steps = of_rule(rule)?;
    if !steps.keep_length() {
        response.remove_known(Known::ContentLength);
        if let BodySize::Exact(_) = body {
            *body = BodySize::Unknown;
        }
    }
    Some(steps).filter(|_| *body != BodySize::None)
}

/// Outside tests, no rule has such steps yet.
#[cfg(not(test))]
#[inline]
fn of_rule(_: &CompiledRule) -> Option<Box<BodySteps>> {
    None
}

#[cfg(test)]
fn of_rule(rule: &CompiledRule) -> Option<Box<BodySteps>> {
    (*rule.rule().labels.path == *upper_case::PATH).then(|| BodySteps::from_step(upper_case::UpperCase))
}

/// Decodes Base64.
impl BodyStep for Decoder {
    fn keeps_length(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        // At most an incomplete group of digits.
        0
    }

    fn write(&mut self, chunk: &[u8], sink: &mut Sink<'_>) -> Result<(), Failure> {
        self.read(chunk, sink)
    }

    fn finish(&mut self, _: &mut Sink<'_>) -> Result<(), Failure> {
        if self.is_whole() { Ok(()) } else { Err(Failure::Malformed(Malformed::Base64)) }
    }
}

/// A step that changes content and length.
#[cfg(test)]
pub(crate) mod upper_case {
    use super::{BodyStep, Failure, Sink};

    /// Rules with this path label have the step.
    pub(crate) const PATH: &str = "/upper-case";

    /// Converts to upper case, and adds an exclamation mark at the end.
    pub(crate) struct UpperCase;

    impl BodyStep for UpperCase {
        fn keeps_length(&self) -> bool {
            false
        }

        fn held_bytes(&self) -> usize {
            0
        }

        fn write(&mut self, chunk: &[u8], sink: &mut Sink<'_>) -> Result<(), Failure> {
            sink(&chunk.to_ascii_uppercase())
        }

        fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
            sink(b"!")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::upper_case::UpperCase;
    use super::*;

    /// Buffers everything until the end.
    #[derive(Default)]
    struct Hoard(Vec<u8>);

    impl BodyStep for Hoard {
        fn takes(&self, room: usize) -> usize {
            room.min(7)
        }

        fn keeps_length(&self) -> bool {
            true
        }

        fn held_bytes(&self) -> usize {
            self.0.len()
        }

        fn write(&mut self, chunk: &[u8], _: &mut Sink<'_>) -> Result<(), Failure> {
            self.0.extend_from_slice(chunk);
            Ok(())
        }

        fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
            sink(&self.0)
        }
    }

    #[test]
    fn bytes_pass_the_steps_in_order_and_buffered_ones_follow_at_the_end() {
        let mut steps = BodySteps(vec![Box::new(Hoard::default()), Box::new(UpperCase)]);
        assert_eq!((steps.takes(100), steps.keep_length()), (7, false));
        let mut out = Vec::new();
        let mut sink = |chunk: &[u8]| {
            out.extend_from_slice(chunk);
            Ok(())
        };
        steps.write(b"hello ", &mut sink).unwrap();
        steps.write(b"world", &mut sink).unwrap();
        steps.finish(&mut sink).unwrap();
        assert_eq!(out, b"HELLO WORLD!");
    }

    #[test]
    fn steps_hold_no_more_than_the_bound() {
        let mut steps = BodySteps(vec![Box::new(Hoard::default()), Box::new(Hoard::default())]);
        let chunk = vec![0; MAX_HELD_BYTES];
        assert_eq!(steps.write(&chunk, &mut |_| Ok(())), Ok(()));
        assert_eq!(steps.write(b"x", &mut |_| Ok(())), Err(Failure::Closed));
    }
}
