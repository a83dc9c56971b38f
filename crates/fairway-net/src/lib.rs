//! What a worker of the data plane stands on, whatever protocol it speaks and whatever it is configured to do: time,
//! streams, memory, descriptors.
//!
//! * *Time*: [`clock`], [`waits`] without a timer each, [`pace`], which says who is too slow, [`stopping`],
//!   and [`turns`], which tasks leave to others.
//! * *Streams*: sockets are made by [`listen`], or [`inherited`] from the service manager ([`passed`]) or from the process
//!   whose place this one takes ([`handover`]); a [`transport`] carries bytes, in the clear or under TLS; a [`wire`] adds
//!   what was read too early and what could not be sent yet; [`proxy_header`] says who is behind a load balancer.
//! * *What there is only so much of*: [`memory`] and [`descriptors`] are the budgets of the process, [`shortage`] is what
//!   the system says when they were not enough, [`counts`] is what each client takes of a bounded table,
//!   [`budgets`] what a worker may spend on repeating work, [`growth`] what connections have beyond their own, [`spent`] what the
//!   system counts.
//! * *What workers share*: [`spread`] says which of them has the fewest connections, [`places`] are as many as are given
//!   away, [`output`] writes their lines.
//! * *What is used again*: [`spares`] and the [`frames`] in which futures run, several of one task in [`slots`].
//!
//! Whatever is kept for reuse is bounded in bytes, and an idle connection owns no buffer.
//!
//! It never knows HTTP or the configuration, and depends on no other crate of Fairway: limits, times and keys are passed
//! in, and what a finding means for a request is decided above. Its private module `sys` has the only unsafe code of the
//! data plane. The allocator belongs to the program, which passes in how freed memory is returned ([`memory::ReturnMemory`]).

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
pub mod output;
pub mod pace;
pub mod passed;
pub mod places;
pub mod proxy_header;
pub mod shortage;
pub mod slots;
pub mod spares;
pub mod spent;
pub mod spread;
pub mod stopping;
mod sys;
pub mod transport;
pub mod turns;
pub mod waits;
pub mod wire;
