//! The templates, and how a page is rendered to HTML. Values are escaped; only the templates themselves contain markup.

use hyper::{Response, StatusCode};
use minijinja::{Environment, Error, UndefinedBehavior, context};

use super::page::Page;
use crate::admin::body::{Body, TEXT_CONTENT_TYPE, page};

const HTML_CONTENT_TYPE: &str = "text/html; charset=utf-8";

/// The engine escapes values in templates whose name ends in `.html`.
const TEMPLATE_SOURCES: [(&str, &str); 24] = [
    ("layout.html", include_str!("layout.html")),
    ("overview.html", include_str!("overview.html")),
    ("hosts.html", include_str!("hosts.html")),
    ("host.html", include_str!("host.html")),
    ("rules.html", include_str!("rules.html")),
    ("rule.html", include_str!("rule.html")),
    ("backend.html", include_str!("backend.html")),
    ("endpoints.html", include_str!("endpoints.html")),
    ("endpoints_note.html", include_str!("endpoints_note.html")),
    ("listeners.html", include_str!("listeners.html")),
    ("streams.html", include_str!("streams.html")),
    ("connections.html", include_str!("connections.html")),
    ("certificates.html", include_str!("certificates.html")),
    ("statuses.html", include_str!("statuses.html")),
    ("diagnostics.html", include_str!("diagnostics.html")),
    ("diagnostic_rows.html", include_str!("diagnostic_rows.html")),
    ("explain.html", include_str!("explain.html")),
    ("requests.html", include_str!("requests.html")),
    ("generations.html", include_str!("generations.html")),
    ("generation_rows.html", include_str!("generation_rows.html")),
    ("object.html", include_str!("object.html")),
    ("paging.html", include_str!("paging.html")),
    ("table.html", include_str!("table.html")),
    ("problem.html", include_str!("problem.html")),
];

/// The compiled templates.
pub(super) struct Templates(Environment<'static>);

impl Templates {
    /// Compiles the templates.
    pub(super) fn new() -> Self {
        let mut environment = Environment::new();
        // An undefined variable is an error in tests, and empty in a release.
        if cfg!(debug_assertions) {
            environment.set_undefined_behavior(UndefinedBehavior::Strict);
        }
        for (name, source) in TEMPLATE_SOURCES {
            let added = environment.add_template(name, source);
            added.expect("the templates are part of the program, and tests render each of them");
        }
        Self(environment)
    }

    /// The response with a rendered page.
    pub(super) fn respond(&self, page_data: &Page) -> Response<Body> {
        match self.render(page_data) {
            Ok(html) => page(page_data.status, HTML_CONTENT_TYPE, html),
            Err(error) => {
                tracing::error!(%error, template = page_data.template, "a page of the dashboard cannot be rendered");
                page(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    TEXT_CONTENT_TYPE,
                    "this page cannot be rendered\n".to_owned(),
                )
            }
        }
    }

    fn render(&self, shown: &Page) -> Result<String, Error> {
        let context = context! {
            section => shown.section,
            title => shown.title.as_str(),
            page => shown.content.clone(),
        };
        self.0.get_template(shown.template)?.render(context)
    }
}
