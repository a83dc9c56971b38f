//! Communication over gRPC with services that authorize or change requests: Envoy's `ext_authz` and `ext_proc`, version 3.
//!
//! [`authorization`] builds the check request of `envoy.service.auth.v3.Authorization/Check` and decodes the decision.
//! [`processing`] is one stream of `envoy.service.ext_proc.v3.ExternalProcessor/Process` as a state machine: heads, body pieces
//! and messages of the service go in; the data to forward in each direction, messages to the service, and the reason to end the
//! exchange come out. [`frame`] implements the framing of gRPC, and [`change`] the header changes that both protocols share. The
//! message types are [`generated`] from the published definitions; nothing else comes from Envoy.
//!
//! Whatever a service sends, memory is bounded, no byte of a body is lost or sent twice, and a message that breaks a rule is a
//! [`processing::Failure`]. There is no socket, task or clock here: the caller detects timeouts.

pub mod authorization;
pub mod change;
pub mod frame;
pub mod generated;
pub mod processing;
