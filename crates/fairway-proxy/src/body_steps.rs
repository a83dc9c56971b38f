//! Steps that look at a body or change it while it streams: a request's where it is read, before it is held for another attempt; an
//! answer's before it is encoded for its client. Back-pressure is that of the side that takes: no more is read than the steps take in
//! for the room that there is. A rule without such steps has none of this, and pays for one comparison for each piece.

use fairway_connection::sides::Failure;
use fairway_http::grpc::Decoder;
use fairway_http::{BodySize, Head, Known, Malformed};
use fairway_routing::CompiledRule;

use crate::body_step::{BodyStep, Sink};

/// Bytes that the steps of one body may hold together; more ends the exchange.
const MOST_HELD: usize = 64 * 1024;

/// The steps of one body, in the order in which its bytes meet them.
#[derive(Default)]
pub(crate) struct BodySteps(Vec<Box<dyn BodyStep>>);

impl BodySteps {
    /// Those of one step.
    pub(crate) fn of(step: impl BodyStep + 'static) -> Box<Self> {
        Box::new(Self(vec![Box::new(step)]))
    }

    /// Adds steps behind them.
    pub(crate) fn append(&mut self, mut behind: Self) {
        self.0.append(&mut behind.0);
    }

    /// How many bytes they take in where there is room for so many; at least 1.
    pub(crate) fn takes(&self, room: usize) -> usize {
        self.0.iter().rev().fold(room, |room, step| step.takes(room))
    }

    /// Whether as many bytes come out of them as go in.
    pub(crate) fn keep_length(&self) -> bool {
        self.0.iter().all(|step| step.keeps_length())
    }

    /// Takes a piece, and hands on what becomes of it.
    ///
    /// # Errors
    /// The body breaks a rule, the steps hold too much of it, or that of `sink`.
    pub(crate) fn write(&mut self, piece: &[u8], sink: &mut Sink<'_>) -> Result<(), Failure> {
        pass(&mut self.0, piece, sink)?;
        match self.0.iter().map(|step| step.held()).sum::<usize>() {
            0..=MOST_HELD => Ok(()),
            _ => Err(Failure::Closed),
        }
    }

    /// More is waited for: hands on what its reader could use already.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub(crate) fn pause(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        for at in 0..self.0.len() {
            if let [step, behind @ ..] = &mut self.0[at..] {
                step.pause(&mut |piece| pass(behind, piece, sink))?;
            }
        }
        Ok(())
    }

    /// The body is whole: hands on what is held.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub(crate) fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
        for at in 0..self.0.len() {
            if let [step, behind @ ..] = &mut self.0[at..] {
                step.finish(&mut |piece| pass(behind, piece, sink))?;
            }
        }
        Ok(())
    }
}

/// Hands a piece to the first step, what comes of it to the next, and so on.
fn pass(steps: &mut [Box<dyn BodyStep>], piece: &[u8], sink: &mut Sink<'_>) -> Result<(), Failure> {
    match steps {
        [] => sink(piece),
        [first, behind @ ..] => first.write(piece, &mut |piece| pass(behind, piece, sink)),
    }
}

/// The steps of a rule for the bodies of its requests. A head whose body changes its length says nothing of it.
pub(crate) fn of_request(rule: &CompiledRule, request: &mut Head) -> Option<Box<BodySteps>> {
    let steps = of_rule(rule)?;
    if !steps.keep_length() {
        request.remove_known(Known::ContentLength);
    }
    Some(steps)
}

/// The same for the bodies of its answers, of the size that `body` says.
pub(crate) fn of_answer(
    rule: &CompiledRule,
    answer: &mut Head,
    body: &mut BodySize,
) -> Option<Box<BodySteps>> {
    let steps = of_rule(rule)?;
    if !steps.keep_length() {
        answer.remove_known(Known::ContentLength);
        if let BodySize::Exact(_) = body {
            *body = BodySize::Unknown;
        }
    }
    Some(steps).filter(|_| *body != BodySize::None)
}

/// No rule has any for both bodies yet, except in tests.
#[cfg(not(test))]
#[inline]
fn of_rule(_: &CompiledRule) -> Option<Box<BodySteps>> {
    None
}

#[cfg(test)]
fn of_rule(rule: &CompiledRule) -> Option<Box<BodySteps>> {
    (*rule.rule().labels.path == *upper_case::PATH).then(|| BodySteps::of(upper_case::UpperCase))
}

/// Base64 becomes what it stands for.
impl BodyStep for Decoder {
    fn keeps_length(&self) -> bool {
        false
    }

    fn held(&self) -> usize {
        // Less than a group of digits.
        0
    }

    fn write(&mut self, piece: &[u8], sink: &mut Sink<'_>) -> Result<(), Failure> {
        self.read(piece, sink)
    }

    fn finish(&mut self, _: &mut Sink<'_>) -> Result<(), Failure> {
        if self.is_whole() { Ok(()) } else { Err(Failure::Malformed(Malformed::Base64)) }
    }
}

/// A step that changes what and how much it hands on.
#[cfg(test)]
pub(crate) mod upper_case {
    use super::{BodyStep, Failure, Sink};

    /// Rules whose label says so have it.
    pub(crate) const PATH: &str = "/upper-case";

    /// Upper case, and an exclamation mark at the end.
    pub(crate) struct UpperCase;

    impl BodyStep for UpperCase {
        fn keeps_length(&self) -> bool {
            false
        }

        fn held(&self) -> usize {
            0
        }

        fn write(&mut self, piece: &[u8], sink: &mut Sink<'_>) -> Result<(), Failure> {
            sink(&piece.to_ascii_uppercase())
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

    /// Holds everything until the end.
    #[derive(Default)]
    struct Hoard(Vec<u8>);

    impl BodyStep for Hoard {
        fn takes(&self, room: usize) -> usize {
            room.min(7)
        }

        fn keeps_length(&self) -> bool {
            true
        }

        fn held(&self) -> usize {
            self.0.len()
        }

        fn write(&mut self, piece: &[u8], _: &mut Sink<'_>) -> Result<(), Failure> {
            self.0.extend_from_slice(piece);
            Ok(())
        }

        fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Failure> {
            sink(&self.0)
        }
    }

    #[test]
    fn bytes_meet_the_steps_in_their_order_and_what_is_held_follows_at_the_end() {
        let mut steps = BodySteps(vec![Box::new(Hoard::default()), Box::new(UpperCase)]);
        assert_eq!((steps.takes(100), steps.keep_length()), (7, false));
        let mut out = Vec::new();
        let mut sink = |piece: &[u8]| {
            out.extend_from_slice(piece);
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
        let piece = vec![0; MOST_HELD];
        assert_eq!(steps.write(&piece, &mut |_| Ok(())), Ok(()));
        assert_eq!(steps.write(b"x", &mut |_| Ok(())), Err(Failure::Closed));
    }
}
