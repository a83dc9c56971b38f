//! Asks two ingress controllers the same questions and explains where their answers differ, by the objects that both serve.
//!
//! [`Plan`] has the probes, from the objects and from an access log. [`ask`] sends them to both sides. [`Report`] says which
//! answers differ and which field of which object explains it. It reads no objects and prints nothing: the caller does.
//!
//! What is asked is only read: GET, HEAD and OPTIONS without a body, and TLS handshakes. A redirect is never followed,
//! each probe has a header that marks it, and what is sent and received passes through no code of the proxy. `agreement` looks probes
//! up in two configurations instead: `fairway migrate gateway-api` proves with it that routes serve what Ingresses served.

mod access_log;
mod address;
mod agreement;
mod answer;
mod client;
mod explain;
mod facts;
mod generate;
mod located;
mod observed;
mod plan;
mod probe;
mod report;
mod sample;
mod session;
mod show;
mod side;
mod stop;
mod topics;

pub use address::{Address, Schemes};
pub use agreement::{Agreement, Disagreement, agreement};
pub use answer::Part;
pub use explain::Cause;
pub use facts::{Annotated, Objects};
pub use plan::{Plan, Skipped};
pub use probe::{Ask, MARK, Probe, Purpose, Scheme};
pub use report::{Counts, Difference, Report};
pub use session::{Findings, Pacing, Progress, ask};
pub use show::{html, intention, text};
pub use side::{Target, Unusable, system_roots};
pub use stop::Stop;
