//! Why a page cannot be shown. A problem with a parameter names it.

use std::fmt::Display;

use hyper::StatusCode;

/// Why a page cannot be shown.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    pub(super) title: &'static str,
    pub(super) text: String,
}

impl Problem {
    /// The value of a parameter is invalid.
    pub(super) fn bad_parameter(parameter: &str, why: impl Display) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            title: "Bad request",
            text: format!("Parameter {parameter}: {why}."),
        }
    }

    /// The thing that a parameter names does not exist.
    pub(super) fn not_found(parameter: &str, why: impl Display) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            title: "Not found",
            text: format!("Parameter {parameter}: {why}."),
        }
    }

    /// The data plane rejects the query; `why` names the parameter.
    pub(super) fn bad_query(why: String) -> Self {
        Self { status: StatusCode::BAD_REQUEST, title: "Bad request", text: why }
    }

    /// There is no such path.
    pub(super) fn no_page() -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            title: "Not found",
            text: "The dashboard has no such page.".to_owned(),
        }
    }

    /// There is nothing to show yet.
    pub(super) fn unavailable(text: String) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, title: "Nothing is served yet", text }
    }
}
