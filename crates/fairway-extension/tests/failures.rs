//! A service that fails, is late, or ends the stream: fail-closed or fail-open as configured, and no byte is lost.

use std::time::Duration;

use fairway_extension::generated;
use fairway_extension::generated::ProcessingResponse;
use fairway_extension::processing::{Failure, Side, StopReason};
use fairway_model::{BodyMode, Extension};

use crate::support::*;

fn extension_with(body: BodyMode, failure_mode_allow: bool) -> Extension {
    let mut extension = extension();
    extension.request = phases(true, body, true);
    extension.response = phases(true, body, true);
    extension.failure_mode_allow = failure_mode_allow;
    extension
}

type Fail = (fn(&mut TestExchange), Failure);

const FAILURES: [Fail; 6] = [
    (|world| world.closed(None), Failure::Unreachable),
    (|world| world.closed(Some(14)), Failure::Status(14)),
    (
        |world| {
            world.processor.timed_out();
            world.drain();
        },
        Failure::Timeout,
    ),
    (|world| world.respond(ProcessingResponse::default()), Failure::OutOfOrder),
    (
        |world| {
            world.processor.receive(&[0, 0, 0, 0, 1, 0xff]);
            world.drain();
        },
        Failure::Malformed,
    ),
    (
        |world| {
            world.processor.receive(&[1]);
            world.drain();
        },
        Failure::Malformed,
    ),
];

/// Fails at the head, at a piece, or at the trailers.
fn fail_at(step: usize, side: Side, body: BodyMode, is_open: bool, fail: Fail) -> TestExchange {
    let mut world = TestExchange::new(extension_with(body, is_open));
    world.head(side, true);
    world.write(side, "abc");
    if step > 0 {
        world.respond(to_headers(side, unchanged()));
        world.write(side, "def");
    }
    if step > 1 {
        world.end(side, &[("x-a", "1")]);
        for _ in 0..2 {
            if matches!(body, BodyMode::Streamed)
                || (body != BodyMode::None && world.output(side).text().is_empty())
            {
                world.respond(to_body(side, unchanged()));
            }
        }
    }
    if world.is_awaited() || fail.1 != Failure::Timeout {
        fail.0(&mut world);
    } else {
        world.closed(None);
    }
    world
}

#[test]
fn a_failure_ends_the_exchange_at_any_time() {
    for (side, body, step) in steps() {
        for fail in FAILURES {
            let world = fail_at(step, side, body, false, fail);
            let Some(StopReason::Failed(failure)) = world.stop else {
                panic!("{side:?} {body:?} {step}: no stop")
            };
            assert!(failure == fail.1 || fail.1 == Failure::Timeout, "{failure}");
            assert_eq!((world.processor.room(side), world.processor.is_finished()), (0, true));
            assert!(!world.is_awaited() && world.processor.held_bytes() == 0);
        }
    }
}

#[test]
fn an_allowed_failure_forwards_everything_unchanged() {
    for (side, body, step) in steps() {
        for fail in FAILURES {
            let mut world = fail_at(step, side, body, true, fail);
            assert_eq!(world.stop, None, "{side:?} {body:?} {step}");
            assert!(world.processor.is_bypassed() && world.processor.is_finished() && !world.is_awaited());
            if step < 2 {
                world.write(side, "ghi");
                world.end(side, &[("x-a", "1")]);
            }
            let expected = ["abcghi", "abcdefghi", "abcdef"][step];
            assert_eq!(world.output(side).text(), expected, "{side:?} {body:?} {step}");
            assert_eq!(world.output(side).end, Some(trailers(&[("x-a", "1")])));
            let other = if side == Side::Request { Side::Response } else { Side::Request };
            world.head(other, true);
            world.write(other, "other");
            world.end(other, &[]);
            assert_eq!(world.output(other).text(), "other");
        }
    }
}

fn steps() -> impl Iterator<Item = (Side, BodyMode, usize)> {
    let modes = [BodyMode::None, BodyMode::Streamed, BodyMode::Buffered, BodyMode::BufferedPartial];
    let sides = SIDES.into_iter().flat_map(move |side| modes.map(|mode| (side, mode)));
    sides.flat_map(|(side, mode)| (0..3).map(move |step| (side, mode, step)))
}

#[test]
fn a_service_with_the_only_copy_of_a_piece_cannot_be_bypassed() {
    let mut world = TestExchange::new(extension_with(BodyMode::FullDuplexStreamed, true));
    world.head(Side::Request, true);
    world.write(Side::Request, "abc");
    world.closed(None);
    assert_eq!(world.stop, Some(StopReason::Failed(Failure::Unreachable)));
    let mut world = TestExchange::new(extension_with(BodyMode::FullDuplexStreamed, false));
    world.head(Side::Request, true);
    world.write(Side::Request, "abc");
    world.closed(Some(0));
    assert_eq!(world.stop, Some(StopReason::Failed(Failure::Status(0))));
    // Nothing of the body was sent yet.
    let mut world = TestExchange::new(extension_with(BodyMode::FullDuplexStreamed, true));
    world.head(Side::Request, true);
    world.closed(None);
    world.write(Side::Request, "abc");
    world.end(Side::Request, &[]);
    assert_eq!((world.stop.clone(), world.output(Side::Request).text().as_str()), (None, "abc"));
    // Both ends of the body were forwarded.
    let mut world = TestExchange::new(extension_with(BodyMode::FullDuplexStreamed, true));
    world.head(Side::Request, true);
    world.write(Side::Request, "abc");
    world.end(Side::Request, &[]);
    world.respond(to_headers(Side::Request, unchanged()));
    world.respond(to_body(Side::Request, stream(b"abc", true)));
    world.closed(None);
    assert!(world.processor.is_bypassed());
}

#[test]
fn a_service_that_ends_the_stream_is_bypassed() {
    for (side, body, step) in steps() {
        let graceful: Fail = (|world| world.closed(Some(0)), Failure::Status(0));
        let world = fail_at(step, side, body, false, graceful);
        assert_eq!((world.stop.clone(), world.processor.failure()), (None, None), "{side:?} {body:?} {step}");
        assert!(world.processor.is_bypassed());
    }
    // In the middle of a message, ending the stream is a failure.
    let mut world = TestExchange::new(extension_with(BodyMode::None, false));
    world.head(Side::Request, false);
    world.processor.receive(&[0, 0]);
    world.closed(Some(0));
    assert_eq!(world.stop, Some(StopReason::Failed(Failure::Malformed)));
}

#[test]
fn the_end_of_a_finished_stream_does_not_matter() {
    let mut extension = extension();
    extension.request = phases(true, BodyMode::None, false);
    let mut world = TestExchange::new(extension);
    world.head(Side::Request, true);
    world.respond(to_headers(Side::Request, unchanged()));
    assert!(world.processor.is_finished());
    world.closed(None);
    world.processor.timed_out();
    world.write(Side::Request, "abc");
    world.head(Side::Response, false);
    assert_eq!((world.stop, world.outputs[0].text().as_str()), (None, "abc"));
}

#[test]
fn a_body_above_the_limit_is_too_large_in_any_failure_mode() {
    for side in SIDES {
        for is_open in [false, true] {
            let mut world = TestExchange::new(extension_with(BodyMode::Buffered, is_open));
            world.head(side, true);
            world.respond(to_headers(side, unchanged()));
            world.write(side, &"x".repeat(100));
            assert!(world.stop.is_none());
            world.write(side, "x");
            assert_eq!(world.stop, Some(StopReason::Failed(Failure::TooLarge(side))));
        }
    }
}

#[test]
fn a_service_may_extend_its_timeout_once_per_message() {
    let mut world = TestExchange::new(extension_with(BodyMode::Streamed, false));
    let extend_by = |millis: u32| {
        let nanos = i32::try_from(millis % 1000).unwrap() * 1_000_000;
        let duration = generated::Duration { seconds: i64::from(millis / 1000), nanos };
        ProcessingResponse { override_message_timeout: Some(duration), ..ProcessingResponse::default() }
    };
    world.head(Side::Request, true);
    let first = world.processor.awaited().unwrap();
    assert_eq!(first.timeout, Duration::from_millis(200));
    for out_of_bounds in [0, 2001] {
        world.respond(extend_by(out_of_bounds));
        assert_eq!(world.processor.awaited(), Some(first));
    }
    world.respond(extend_by(2000));
    let second = world.processor.awaited().unwrap();
    assert!(second.serial > first.serial && second.timeout == Duration::from_secs(2));
    world.respond(extend_by(300));
    assert_eq!(world.processor.awaited(), Some(second));
    world.respond(to_headers(Side::Request, unchanged()));
    world.write(Side::Request, "a");
    assert_eq!(world.processor.awaited().unwrap().timeout, Duration::from_millis(200));
    world.respond(extend_by(300));
    assert_eq!(world.processor.awaited().unwrap().timeout, Duration::from_millis(300));
    assert_eq!(world.stop, None);
}

#[test]
fn a_service_that_cannot_be_received_from_is_not_late() {
    let mut world = TestExchange::new(extension_with(BodyMode::FullDuplexStreamed, false));
    world.head(Side::Response, true);
    world.respond(to_headers(Side::Response, unchanged()));
    world.end(Side::Response, &[]);
    let before = world.processor.awaited().unwrap();
    let chunk = fairway_extension::frame::encode(&to_body(Side::Response, stream(&[b'x'; 70_000], false)));
    world.processor.receive(&chunk);
    assert!(!world.processor.accepts() && !world.is_awaited());
    world.drain();
    assert!(world.processor.accepts());
    assert!(world.processor.awaited().unwrap().serial > before.serial);
}
