//! One stream of `ext_proc`: a service gets the head, the body and the trailers of a request and of its response, as configured,
//! and changes them or responds in place of the endpoint.
//!
//! ```text
//!  head, pieces, end ──► Direction: request  ──► next(Request):  Head, Body*, End
//!                            │     ▲
//!        take_message() ◄────┴─┐ ┌─┴──── receive(), closed(), timed_out()
//!                              Processor ──► take_stop(): an immediate response, or a failure
//!        take_message() ◄────┬─┘ └─┬────
//!                            ▼     │
//!  head, pieces, end ──► Direction: response ──► next(Response): Head, Body*, End
//! ```
//!
//! Each direction emits one [`Event::Head`], any number of [`Event::Body`] and one [`Event::End`], unless the exchange is
//! stopped. In each direction at most one message is in flight, except in [`BodyMode::FullDuplexStreamed`]; both directions may
//! be active at once. Data that was received and not yet forwarded is kept, so that a failing service can be bypassed
//! (`failure_mode_allow`); only pieces of `FullDuplexStreamed` exist only at the service once they are sent.
//!
//! [`BodyMode::FullDuplexStreamed`]: fairway_model::BodyMode::FullDuplexStreamed

mod direction;
mod event;
mod failure;
mod head;
mod message;
mod outbox;
mod phases;
mod prepared;
mod processor;
mod rules;

pub use direction::MAX_HELD_BYTES;
pub use event::{Awaited, Event, ExchangeFacts, Side, StreamCounts, Trailers};
pub use failure::{Failure, ImmediateResponse, StopReason};
pub use head::{BodyLength, HeadChange};
pub use prepared::PreparedExtension;
pub use processor::{MAX_MESSAGE_BYTES, Processor};

/// The path of the call.
pub const PROCESS_PATH: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
