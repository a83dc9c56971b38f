//! One stream of `ext_proc`: a service sees the head, the body and the trailers of a request and of its response, as far as the
//! configuration says, and changes them or answers in their place.
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
//! Each direction gives one [`Event::Head`], any number of [`Event::Body`] and one [`Event::End`], unless the exchange is stopped.
//! In each direction one message is under way at most, except in [`BodyMode::FullDuplexStreamed`]; both directions may be under way
//! at once. What was taken and did not go on yet is kept, so that a service that fails can be left out
//! (`failure_mode_allow`); only the pieces of `FullDuplexStreamed` are the service's alone once they are sent.
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

pub use direction::MAX_HELD;
pub use event::{Awaited, Counts, Event, ExchangeFacts, Side, Trailers};
pub use failure::{Failure, ImmediateResponse, Stop};
pub use head::{BodyLength, HeadChange};
pub use prepared::Prepared;
pub use processor::{MAX_MESSAGE, Processor};

/// The path of the call.
pub const PROCESS_PATH: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
