//! Filters as a client and an endpoint see them; one file per phase. Has the shared backend and requests.

mod cors;
mod guards;
mod header_edits;
mod nominated;
mod request_edits;
mod response_edits;

use std::sync::Arc;

use fairway_model::{
    Condition, ConditionalResponse, Guard, HeaderField, HeaderTemplate, Phases, ResponseContent, Template,
    TemplatePart,
};
use fairway_testkit::{
    Backend, BackendResponse, Client, RawResponse, Request, certificates, client::TlsOffer,
};

use crate::support::{HOST, Running, Setup};

async fn start_with_filters(filters: Vec<Phases>) -> (Backend, Running) {
    let backend = Backend::http(|request| {
        BackendResponse::with_headers(200, &[("X-Backend", "1"), ("X-Extra", "a")], &request.target)
    })
    .await;
    let mut setup = Setup::to(&[backend.address()]);
    setup.filters = filters;
    let proxy = setup.start();
    (backend, proxy)
}

async fn send(proxy: &Running, request: Request) -> RawResponse {
    proxy.client().await.exchange(&request).await.unwrap()
}

async fn send_tls(proxy: &Running, request: Request) -> RawResponse {
    let offer = TlsOffer::new(certificates::unverified_client_config(), HOST);
    Client::connect_tls(proxy.https, &offer).await.unwrap().exchange(&request).await.unwrap()
}

/// Requests a target in absolute form, which contains the host.
async fn send_absolute_form(proxy: &Running, target: &str) -> RawResponse {
    let mut client = proxy.client().await;
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n")).await.unwrap();
    client.read_response().await.unwrap()
}

fn field(name: &str, value: &str) -> HeaderField {
    HeaderField { name: name.into(), value: value.into() }
}

fn fields(all: &[(&str, Vec<TemplatePart>)]) -> Arc<[HeaderTemplate]> {
    let field = |(name, value): &(&str, Vec<TemplatePart>)| HeaderTemplate {
        name: (*name).into(),
        value: Template(value.clone()),
    };
    all.iter().map(field).collect()
}

fn text(text: &str) -> TemplatePart {
    TemplatePart::Text(text.into())
}

fn respond(when: Vec<Condition>, status: u16, content: ResponseContent) -> Phases {
    Phases::from(Guard::Respond(Arc::new(ConditionalResponse {
        origin: "test".into(),
        when,
        status,
        content,
        host_headers: None,
        max_body: None,
    })))
}
