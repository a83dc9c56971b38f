//! What moving from ingress-nginx means for the objects of an installation: a [`Report`] on each Ingress, from what translation says of
//! it and from what it depends on, its Helm [`values`] as Fairway's, and its Ingresses as objects of the [`gateway`] API. Pure: objects and
//! values in, reports, values and objects out; it reads and sends nothing. A snippet is read to make a proposal, never to serve by it;
//! a path that would lose its protection as a route is closed, unless the caller says otherwise.

pub mod gateway;
mod given;
mod quirks;
mod report;
mod shared;
mod show;
mod snippets;
mod unserved;
pub mod values;

pub use given::{Given, unknown_without};
pub use quirks::Quirk;
pub use report::{Entry, Ingresses, Objects, Report, Row, Summary, Verdict};
pub use shared::{Effect, SharedService};
pub use show::{STYLE, escaped, html, markdown, text};
pub use unserved::left_to_ingress_nginx;
