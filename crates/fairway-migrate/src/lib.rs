//! Migration from ingress-nginx: a [`Report`] on the effects for each Ingress, conversion of Helm [`values`] to Fairway's chart,
//! and conversion of Ingresses to objects of the [`gateway`] API. Pure functions without I/O. Snippets are parsed only to propose
//! annotations, never to serve them. A path that would lose its protection as a route is closed, unless the caller allows the loss.

mod excluded_ingresses;
mod external_references;
pub mod gateway;
mod quirks;
mod report;
mod shared;
mod show;
mod snippets;
pub mod values;

pub use excluded_ingresses::left_to_ingress_nginx;
pub use external_references::{SeenKinds, unknown_without};
pub use quirks::Quirk;
pub use report::{AnnotationReport, IngressReport, Ingresses, Objects, Report, Summary, Verdict};
pub use shared::{Effect, SharedService};
pub use show::{PAGE_STYLE, escape_html, html, markdown, text};
