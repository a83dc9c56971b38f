//! The adapter runs next to nginx, HAProxy, Envoy or Caddy in a pod: it watches the objects that a controller watches and
//! applies changes to the proxy the way its controllers do.
//!
//! ```text
//! Ingresses, Services, EndpointSlices, Secrets ─► Desired ─► nginx.conf and a reload
//!                                                        ├─► haproxy.cfg and a reload, or the runtime API
//!                                                        ├─► files that Envoy watches (LDS, RDS, CDS, EDS, SDS)
//!                                                        └─► Caddy's admin API
//! ```
//!
//! [`DesiredState`] is computed and rendered by pure functions; only the drivers touch a process. An adapter is not a
//! controller, and reports call it an adapter. It never serves client requests.

mod admin;
pub(crate) mod caddy;
pub(crate) mod command;
mod derive;
mod desired;
pub(crate) mod envoy;
mod files;
mod frame;
#[cfg(test)]
mod golden;
pub(crate) mod haproxy;
pub(crate) mod nginx;
mod notices;
mod probe;
mod process;
mod proxy;
mod run;
mod stderr_lines;
#[cfg(test)]
mod trial;
mod watch;

pub(crate) use derive::{CORS, REDIRECT, RESPONSE_HEADER, REWRITE};
pub(crate) use desired::{Action, CORS_HEADERS, DesiredState, Host, PathMatch, Rule};
pub(crate) use frame::{Frame, Listen};
pub(crate) use probe::PORT as PROBE_PORT;
