//! OTLP/HTTP against a server with arbitrary responses.

use std::sync::Arc;

use bytes::Bytes;
use fairway_model::OtlpProtocol;
use fairway_telemetry::{Credentials, Headers};
use fairway_testkit::wait::free_address;
use hyper::Response;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use prost::Message;

use crate::collector::{Sender, at, next, over_http};

const SENT: &[&str] = &["fairway_otlp_items_sent_total", "logs"];
const REJECTED: &[&str] = &["fairway_otlp_items_dropped_total", "logs", "rejected"];

fn response_with(status: u16, body: impl Into<Bytes>) -> Response<Bytes> {
    Response::builder().status(status).body(body.into()).unwrap()
}

fn credentials(endpoint: &str) -> Credentials {
    let mut headers = Headers::default();
    headers.add("x-key=s3cret").unwrap();
    Credentials { endpoint: Some(endpoint.into()), headers, ..Credentials::default() }
}

#[tokio::test]
async fn lines_and_headers_reach_a_collector() {
    let (address, mut inbox) = over_http(response_with(200, "")).await;
    let endpoint = format!("http://{address}/otlp");
    let sender = Sender::new(at(&endpoint, OtlpProtocol::Http), credentials(&endpoint));
    sender.line("{\"status\":404}");
    let received = next(&mut inbox).await;
    assert_eq!(received.request.method(), "POST");
    assert_eq!(received.request.uri(), "/otlp/v1/logs");
    let headers = received.request.headers();
    assert_eq!(headers["content-type"], "application/x-protobuf");
    assert_eq!(headers["x-key"], "s3cret");
    assert_eq!(headers["host"], address.to_string());
    let request = ExportLogsServiceRequest::decode(received.body).unwrap();
    let record = &request.resource_logs[0].scope_logs[0].log_records[0];
    assert_eq!(record.severity_text, "WARN");
    sender.until(SENT, 1).await;
    sender.stop().await;
}

#[tokio::test]
async fn headers_are_sent_only_to_their_collector() {
    let (address, mut inbox) = over_http(response_with(200, "")).await;
    let sender =
        Sender::new(at(&format!("http://{address}"), OtlpProtocol::Http), credentials("http://elsewhere"));
    sender.line("x");
    assert!(!next(&mut inbox).await.request.headers().contains_key("x-key"));
    sender.stop().await;
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (other, mut elsewhere) = over_http(response_with(200, "")).await;
    let mut moved = response_with(307, "");
    moved.headers_mut().insert("location", format!("http://{other}/v1/logs").parse().unwrap());
    let (address, mut inbox) = over_http(moved).await;
    let endpoint = format!("http://{address}");
    let sender = Sender::new(at(&endpoint, OtlpProtocol::Http), credentials(&endpoint));
    sender.line("x");
    next(&mut inbox).await;
    sender.until(REJECTED, 1).await;
    sender.stop().await;
    assert!(elsewhere.try_recv().is_err(), "nothing was sent there");
}

#[tokio::test]
async fn huge_or_invalid_responses_are_harmless() {
    for body in [vec![b'x'; 4 * 1024 * 1024], b"<html>".to_vec()] {
        let (address, mut inbox) = over_http(response_with(200, body)).await;
        let sender =
            Sender::new(at(&format!("http://{address}"), OtlpProtocol::Http), Credentials::default());
        for text in ["one", "two"] {
            sender.line(text);
            next(&mut inbox).await;
        }
        sender.until(SENT, 2).await;
        sender.stop().await;
    }
}

#[tokio::test]
async fn an_unreachable_collector_can_be_replaced() {
    let sender =
        Sender::new(at(&format!("http://{}", free_address()), OtlpProtocol::Http), Credentials::default());
    sender.line("kept");
    sender.until(&["fairway_otlp_exports_total", "logs", "failed"], 1).await;
    let (address, mut inbox) = over_http(response_with(200, "")).await;
    sender.exporter.set_collector(Some(Arc::new(at(&format!("http://{address}"), OtlpProtocol::Http))));
    let received = next(&mut inbox).await;
    let request = ExportLogsServiceRequest::decode(received.body).unwrap();
    assert_eq!(request.resource_logs[0].scope_logs[0].log_records.len(), 1);
    sender.until(SENT, 1).await;
    sender.stop().await;
}

#[tokio::test]
async fn remaining_items_are_sent_when_the_process_stops() {
    let (address, mut inbox) = over_http(response_with(200, "")).await;
    let mut collector = at(&format!("http://{address}"), OtlpProtocol::Http);
    collector.max_delay = std::time::Duration::from_secs(3_600);
    let sender = Sender::new(collector, Credentials::default());
    let lines: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    sender.line(&lines.join("\n"));
    sender.stop().await;
    let request = ExportLogsServiceRequest::decode(next(&mut inbox).await.body).unwrap();
    assert_eq!(request.resource_logs[0].scope_logs[0].log_records.len(), 100);
    assert_eq!(sender.count(SENT), 100);
}
