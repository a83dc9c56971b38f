//! A page before rendering: its template and content.

use hyper::StatusCode;
use minijinja::Value;
use minijinja::value::Serde;
use serde::Serialize;

use super::problem::Problem;

/// A page before rendering.
pub(super) struct Page {
    pub(super) status: StatusCode,
    pub(super) template: &'static str,
    /// The highlighted link in the navigation; none if empty.
    pub(super) section: &'static str,
    pub(super) title: String,
    pub(super) content: Value,
}

impl Page {
    /// A page without a problem.
    pub(super) fn new(
        template: &'static str,
        section: &'static str,
        title: impl Into<String>,
        content: impl Serialize,
    ) -> Self {
        let content = Value::from(Serde(content));
        Self { status: StatusCode::OK, template, section, title: title.into(), content }
    }
}

#[derive(Serialize)]
struct ProblemView {
    text: String,
}

impl From<Problem> for Page {
    fn from(Problem { status, title, text }: Problem) -> Self {
        Self { status, ..Self::new("problem.html", "", title, ProblemView { text }) }
    }
}
