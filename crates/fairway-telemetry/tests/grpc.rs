//! OTLP/gRPC against the server of the OpenTelemetry project's own code.

use std::sync::Arc;

use fairway_model::OtlpProtocol;
use fairway_telemetry::{Credentials, Headers, read_certificates};
use fairway_testkit::certificates::Authority;
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsPartialSuccess, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use tokio_rustls::TlsAcceptor;
use tonic::{Code, Status};

use crate::collector::{Call, Sender, at, next, over_grpc};

const SENT: &[&str] = &["fairway_otlp_items_sent_total", "logs"];

/// The text of the only line of a call.
fn body(call: &Call) -> String {
    let [resource] = &call.get_ref().resource_logs[..] else { panic!("{call:?}") };
    let [record] = &resource.scope_logs[0].log_records[..] else { panic!("{call:?}") };
    match record.body.as_ref().and_then(|body| body.value.clone()) {
        Some(Value::StringValue(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn lines_and_headers_reach_a_collector() {
    let (address, mut inbox) = over_grpc([], None).await;
    let endpoint = format!("http://{address}");
    let mut headers = Headers::default();
    headers.add("Authorization=Bearer s3cret").unwrap();
    let credentials =
        Credentials { endpoint: Some(endpoint.as_str().into()), headers, ..Credentials::default() };
    let sender = Sender::new(at(&endpoint, OtlpProtocol::Grpc), credentials);
    for text in ["one", "two"] {
        sender.line(text);
        let call = next(&mut inbox).await;
        assert_eq!(body(&call), text);
        assert_eq!(call.metadata().get("authorization").unwrap(), "Bearer s3cret");
        assert_eq!(call.metadata().get("user-agent").unwrap(), "Fairway/1.2.3 OTLP");
    }
    sender.until(SENT, 2).await;
    sender.stop().await;
}

#[tokio::test]
async fn rejected_items_are_counted() {
    let rejected = ExportLogsPartialSuccess { rejected_log_records: 1, error_message: "old".to_owned() };
    let verdicts = [
        Ok(ExportLogsServiceResponse { partial_success: Some(rejected) }),
        Err(Status::new(Code::InvalidArgument, "no such tenant")),
        Err(Status::new(Code::Unauthenticated, "")),
    ];
    let (address, mut inbox) = over_grpc(verdicts, None).await;
    let sender = Sender::new(at(&format!("http://{address}"), OtlpProtocol::Grpc), Credentials::default());
    for text in ["partial", "invalid", "nobody", "fine"] {
        sender.line(text);
        assert_eq!(body(&next(&mut inbox).await), text, "none is sent twice");
    }
    sender.until(SENT, 1).await;
    sender.until(&["logs", "rejected"], 3).await;
    sender.until(&["fairway_otlp_exports_total", "logs", "failed"], 2).await;
    sender.stop().await;
}

#[tokio::test]
async fn a_collector_is_reached_over_tls_if_its_authority_is_trusted() {
    let authority = Authority::new("collectors");
    let leaf = authority.leaf(&["localhost", "127.0.0.1"]);
    let tls = TlsAcceptor::from(Arc::new(leaf.server_config(&["h2"])));
    let (address, mut inbox) = over_grpc([], Some(tls)).await;
    let collector = at(&format!("https://localhost:{}", address.port()), OtlpProtocol::Grpc);

    let stranger = Authority::new("strangers");
    let trusting = |authority: &Authority| Credentials {
        authorities: Some(read_certificates(authority.pem().as_bytes()).unwrap()),
        ..Credentials::default()
    };
    let refusing = Sender::new(collector.clone(), trusting(&stranger));
    refusing.line("refused");
    refusing.until(&["fairway_otlp_exports_total", "logs", "failed"], 1).await;

    let sender = Sender::new(collector, trusting(&authority));
    sender.line("trusted");
    assert_eq!(body(&next(&mut inbox).await), "trusted");
    sender.until(SENT, 1).await;
    sender.stop().await;
    assert_eq!(refusing.count(SENT), 0);
}
