//! What moving from ingress-nginx means for the objects of an installation: a [`Report`] on each Ingress, from what translation says of
//! it and from what it depends on. Pure: objects in, a report out; it reads and sends nothing.

mod quirks;
mod report;
mod show;
mod snippets;

pub use quirks::Quirk;
pub use report::{Entry, Ingresses, Objects, Report, Row, Summary, Verdict};
pub use show::{STYLE, escaped, html, markdown, text};
