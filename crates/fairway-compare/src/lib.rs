//! Sends the same requests to two ingress controllers and explains differing responses by the objects that both controllers serve.
//!
//! [`Plan`] generates probes from the objects and from an access log, [`send_probes`] sends them to both sides, and [`Report`] lists
//! the differences with the field and object that explain each. The crate does not read objects or print anything; the caller does.
//!
//! Probes only read: they are GET, HEAD and OPTIONS requests without a body, and TLS handshakes. Redirects are never followed, each
//! request has a header that marks it, and the client shares no code with the proxy. `agreement` looks probes up in two
//! configurations instead of sending them: `fairway migrate gateway-api` uses it to check that routes serve what Ingresses served.

mod access_log;
mod address;
mod agreement;
mod client;
mod explain;
mod facts;
mod generate;
mod located;
mod observed;
mod plan;
mod probe;
mod report;
mod response;
mod sample;
mod session;
mod show;
mod side;
mod stop;
mod topics;

pub use address::{Address, Schemes};
pub use agreement::{Agreement, Disagreement, agreement};
pub use explain::Cause;
pub use facts::{Annotated, Objects};
pub use plan::{Plan, Skipped};
pub use probe::{PROBE_HEADER, Probe, ProbeKind, Purpose, Scheme};
pub use report::{Difference, ProbeCounts, Report};
pub use response::Part;
pub use session::{Findings, Pacing, Progress, send_probes};
pub use show::{html, text, write_plan};
pub use side::{Target, Unusable, system_roots};
pub use stop::Stop;
