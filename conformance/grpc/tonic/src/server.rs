//! The server of the cases.

use std::pin::Pin;
use std::time::Duration;

use tokio_stream::{Stream, StreamExt};
use tonic::codec::CompressionEncoding;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::messages::{
    BoolValue, EchoStatus, Empty, ResponseParameters, SimpleRequest, SimpleResponse,
    StreamingInputCallRequest, StreamingInputCallResponse, StreamingOutputCallRequest,
    StreamingOutputCallResponse, payload, size,
};

pub mod generated {
    #![allow(clippy::all, missing_docs)]
    include!(concat!(env!("OUT_DIR"), "/grpc.testing.TestService.rs"));
}

use generated::test_service_server::{TestService, TestServiceServer};

pub struct Test;

/// The service, which can compress.
pub fn service() -> TestServiceServer<Test> {
    let gzip = CompressionEncoding::Gzip;
    TestServiceServer::new(Test).accept_compressed(gzip).send_compressed(gzip)
}

type Outputs = Pin<Box<dyn Stream<Item = Result<StreamingOutputCallResponse, Status>> + Send>>;

#[tonic::async_trait]
impl TestService for Test {
    async fn empty_call(&self, _: Request<Empty>) -> Result<Response<Empty>, Status> {
        Ok(uncompressed(Response::new(Empty {})))
    }

    async fn unary_call(&self, request: Request<SimpleRequest>) -> Result<Response<SimpleResponse>, Status> {
        let is_compressed = request.metadata().contains_key("grpc-encoding");
        let request = request.into_inner();
        is_as_expected(request.expect_compressed, is_compressed)?;
        echo(request.response_status)?;
        let response = Response::new(SimpleResponse { payload: Some(payload(request.response_size)) });
        Ok(if is_set(request.response_compressed) { response } else { uncompressed(response) })
    }

    type StreamingOutputCallStream = Outputs;

    async fn streaming_output_call(
        &self,
        request: Request<StreamingOutputCallRequest>,
    ) -> Result<Response<Outputs>, Status> {
        let wanted = request.into_inner().response_parameters;
        let compressed = wanted.iter().any(|one| is_set(one.compressed));
        let response = Response::new(Box::pin(outputs(wanted)) as Outputs);
        Ok(if compressed { response } else { uncompressed(response) })
    }

    async fn streaming_input_call(
        &self,
        request: Request<Streaming<StreamingInputCallRequest>>,
    ) -> Result<Response<StreamingInputCallResponse>, Status> {
        let is_compressed = request.metadata().contains_key("grpc-encoding");
        let mut stream = request.into_inner();
        let mut sum = 0;
        while let Some(request) = stream.message().await? {
            is_as_expected(request.expect_compressed, is_compressed)?;
            sum += size(request.payload.as_ref());
        }
        let sum = i32::try_from(sum).map_err(|_| Status::out_of_range("more than 2 GiB"))?;
        Ok(uncompressed(Response::new(StreamingInputCallResponse { aggregated_payload_size: sum })))
    }

    type FullDuplexCallStream = Outputs;

    async fn full_duplex_call(
        &self,
        request: Request<Streaming<StreamingOutputCallRequest>>,
    ) -> Result<Response<Outputs>, Status> {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        // tonic's server bounds the time to the head of a response, not the response.
        let deadline =
            request.metadata().get("grpc-timeout").and_then(|value| deadline(value.to_str().ok()?));
        let deadline = tokio::time::sleep(deadline.unwrap_or(Duration::MAX));
        let mut stream = request.into_inner();
        let expired = sender.clone();
        let serving = async move {
            loop {
                let answered = match stream.message().await {
                    Ok(Some(request)) => respond(request, &sender).await,
                    Ok(None) => return,
                    Err(status) => Err(status),
                };
                if let Err(status) = answered {
                    // The client has left: no one would read the error.
                    _ = sender.send(Err(status)).await;
                    return;
                }
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                () = serving => {}
                () = deadline => {
                    // The client's timeout applies.
                    _ = expired.send(Err(Status::deadline_exceeded("too late"))).await;
                }
            }
        });
        let receiver = tokio_stream::wrappers::ReceiverStream::new(receiver);
        Ok(uncompressed(Response::new(Box::pin(receiver) as Outputs)))
    }
}

/// The value of `grpc-timeout`.
fn deadline(value: &str) -> Option<Duration> {
    let (number, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    let number = number.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

async fn respond(
    request: StreamingOutputCallRequest,
    sender: &tokio::sync::mpsc::Sender<Result<StreamingOutputCallResponse, Status>>,
) -> Result<(), Status> {
    echo(request.response_status)?;
    let mut outputs = std::pin::pin!(outputs(request.response_parameters));
    while let Some(output) = outputs.next().await {
        sender.send(output).await.map_err(|_| Status::cancelled("the client is gone"))?;
    }
    Ok(())
}

fn outputs(
    wanted: Vec<ResponseParameters>,
) -> impl Stream<Item = Result<StreamingOutputCallResponse, Status>> + Send {
    tokio_stream::iter(wanted).then(|one| async move {
        if let Ok(micros @ 1..) = u64::try_from(one.interval_us) {
            tokio::time::sleep(Duration::from_micros(micros)).await;
        }
        Ok(StreamingOutputCallResponse { payload: Some(payload(one.size)) })
    })
}

/// The requested status.
fn echo(status: Option<EchoStatus>) -> Result<(), Status> {
    match status {
        Some(status) if status.code != 0 => Err(Status::new(Code::from_i32(status.code), status.message)),
        _ => Ok(()),
    }
}

fn is_set(value: Option<BoolValue>) -> bool {
    value.is_some_and(|value| value.value)
}

/// tonic compresses all messages of a call or none, and does not say which was.
fn is_as_expected(expected: Option<BoolValue>, is_compressed: bool) -> Result<(), Status> {
    if is_set(expected) && !is_compressed {
        return Err(Status::invalid_argument("the message is not compressed"));
    }
    Ok(())
}

fn uncompressed<T>(mut response: Response<T>) -> Response<T> {
    response.disable_compression();
    response
}
