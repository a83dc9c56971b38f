//! What runs beside nginx, HAProxy, Envoy or Caddy in a pod: it watches the objects that a controller watches and tells
//! the proxy of changes in the way in which that proxy's controllers do.
//!
//! ```text
//! Ingresses, Services, EndpointSlices, Secrets ─► Desired ─► nginx.conf and a reload
//!                                                        ├─► haproxy.cfg and a reload, or the runtime API
//!                                                        ├─► files that Envoy watches (LDS, RDS, CDS, EDS, SDS)
//!                                                        └─► Caddy's admin API
//! ```
//!
//! [`Desired`] is computed by a pure function and rendered by pure functions; only the drivers touch a process.
//! An adapter is no controller: reports call it what it is. It never answers a request of a client.

mod admin;
pub mod caddy;
pub mod command;
mod derive;
mod desired;
pub mod envoy;
mod files;
mod frame;
#[cfg(test)]
mod golden;
pub mod haproxy;
pub mod nginx;
mod notices;
mod probe;
mod process;
mod proxy;
mod run;
#[cfg(test)]
mod trial;
mod watch;
mod words;

pub use derive::{CORS, Objects, REDIRECT, RESPONSE_HEADER, REWRITE, desired};
pub use desired::{Action, CORS_HEADERS, Certificate, Desired, Host, PathMatch, Rule};
pub use files::write;
pub use frame::{Frame, Listen, TlsChoice};
pub use probe::PORT as PROBE_PORT;
pub use process::Process;
