//! How Fairway speaks with services that decide about requests or change them over gRPC: Envoy's `ext_authz` and `ext_proc`, version 3.
//!
//! [`authorization`] makes the question of `envoy.service.auth.v3.Authorization/Check` and reads the decision. [`processing`] is one
//! stream of `envoy.service.ext_proc.v3.ExternalProcessor/Process` as a state machine: heads, pieces of bodies and messages of the
//! service in; what goes on in each direction, messages to the service, and the reason to end the exchange out. [`frame`] has the
//! framing of gRPC, and [`change`] the changes of headers that both protocols share. The message types are [`generated`] from the
//! published definitions and kept; nothing else is Envoy's.
//!
//! Whatever a service sends, memory is bounded, no byte of a body is lost or sent twice, and a message that breaks a rule is a
//! [`processing::Failure`]. Never has a socket, a task or a clock: who drives it says when a service is late.

pub mod authorization;
pub mod change;
pub mod frame;
pub mod generated;
pub mod processing;
