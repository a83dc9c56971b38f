//! The foundations of a data-plane worker, independent of protocols and configuration: time, streams, memory,
//! descriptors.
//!
//! * *Time*: [`clock`]; [`response_waits`] without a timer each; [`pace`] detects slow clients; [`stopping`]; [`yielding`] lets a
//!   task yield.
//! * *Streams*: sockets are bound by [`listen`], or [`inherited`] from the service manager ([`passed`]) or from a
//!   predecessor ([`handover`]); a [`transport`] carries bytes, in cleartext or TLS; a [`wire`] adds buffers for early
//!   input and pending output; [`proxy_header`] parses who is behind a load balancer.
//! * *Limited resources*: [`memory`] and [`descriptors`] are the budgets of the process, [`shortage`] classifies system
//!   errors when they were not enough, [`counts`] are per-client counters in bounded tables, [`budgets`] limit repeated
//!   work, [`growth`] is memory lent to connections, [`resource_usage`] reads the system's accounting.
//! * *Shared by workers*: [`spread`] finds the worker with the fewest connections, [`permits`] are permits, [`output`]
//!   writes their lines.
//! * *Reuse*: [`object_pool`], the [`frames`] that futures run in, and [`slots`] for the futures of one task.
//!
//! Whatever is kept for reuse is bounded in bytes, and an idle connection owns no buffer.
//!
//! This crate knows neither HTTP nor the configuration, and depends on no other crate of Fairway: limits, timeouts and
//! keys are passed in, and callers decide what a result means for a request. Its private module `sys` has the only
//! unsafe code of the data plane. The allocator belongs to the program, which passes in how to return freed memory
//! ([`memory::ReturnMemory`]).

pub mod budgets;
pub mod clock;
pub mod counts;
pub mod descriptors;
pub mod frames;
pub mod growth;
pub mod handover;
pub mod inherited;
pub mod listen;
pub mod memory;
pub mod object_pool;
pub mod output;
pub mod pace;
pub mod passed;
pub mod permits;
pub mod proxy_header;
pub mod resource_usage;
pub mod response_waits;
pub mod shortage;
pub mod slots;
pub mod spread;
pub mod stopping;
mod sys;
pub mod transport;
pub mod wire;
pub mod yielding;
