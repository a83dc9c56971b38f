//! The cases, one function each. The error of a case says what was wrong.

use prost::bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::messages::{
    EchoStatus, Empty, ResponseParameters, SimpleRequest, StreamingInputCallRequest,
    StreamingOutputCallRequest, payload, size,
};
use crate::metadata::{INITIAL, TRAILING};
use crate::server::generated::test_service_client::TestServiceClient;
use crate::{Failure, compression};

pub type Client = TestServiceClient<Channel>;

const REQUEST: i32 = 271_828;
const RESPONSE: i32 = 314_159;
/// The sizes of messages in streams, of the requests and of the responses.
const REQUESTS: [i32; 4] = [27_182, 8, 1_828, 45_904];
const RESPONSES: [i32; 4] = [31_415, 9, 2_653, 58_979];

/// Runs one case over a connection of its own.
pub async fn run(endpoint: &Endpoint, case: &str) -> Result<(), Failure> {
    let channel = endpoint.connect().await?;
    let client = TestServiceClient::new(channel.clone());
    match case {
        "empty_unary" => empty_unary(client).await,
        "large_unary" => large_unary(client).await,
        "client_streaming" => client_streaming(client).await,
        "server_streaming" => server_streaming(client).await,
        "ping_pong" => ping_pong(client).await,
        "empty_stream" => empty_stream(client).await,
        "timeout_on_sleeping_server" => timeout_on_sleeping_server(client).await,
        "cancel_after_begin" => cancel_after_begin(client).await,
        "cancel_after_first_response" => cancel_after_first_response(client).await,
        "status_code_and_message" => status_code_and_message(client).await,
        "special_status_message" => special_status_message(client).await,
        "custom_metadata" => custom_metadata(client).await,
        "unimplemented_method" => unimplemented(channel, "/grpc.testing.TestService/UnimplementedCall").await,
        "unimplemented_service" => {
            unimplemented(channel, "/grpc.testing.UnimplementedService/UnimplementedCall").await
        }
        "client_compressed_unary" => compression::client_unary(channel).await,
        "server_compressed_unary" => compression::server_unary(channel).await,
        "client_compressed_streaming" => compression::client_streaming(channel).await,
        "server_compressed_streaming" => compression::server_streaming(channel).await,
        "rpc_soak" => rpc_soak(client).await,
        "channel_soak" => channel_soak(endpoint).await,
        _ => Err(format!("no case {case:?}").into()),
    }
}

/// Fails with `what` unless it holds.
pub fn check(holds: bool, what: impl Fn() -> String) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(what().into()) }
}

async fn empty_unary(mut client: Client) -> Result<(), Failure> {
    client.empty_call(Empty {}).await?;
    Ok(())
}

async fn large_unary(mut client: Client) -> Result<(), Failure> {
    let request = SimpleRequest {
        response_size: RESPONSE,
        payload: Some(payload(REQUEST)),
        ..SimpleRequest::default()
    };
    let found = size(client.unary_call(request).await?.into_inner().payload.as_ref());
    check(found == 314_159, || format!("{found} bytes"))
}

async fn client_streaming(mut client: Client) -> Result<(), Failure> {
    let one = |size| StreamingInputCallRequest { payload: Some(payload(size)), expect_compressed: None };
    let found = client.streaming_input_call(tokio_stream::iter(REQUESTS.map(one))).await?.into_inner();
    check(found.aggregated_payload_size == REQUESTS.iter().sum(), || format!("{found:?}"))
}

async fn server_streaming(mut client: Client) -> Result<(), Failure> {
    let one = |size| ResponseParameters { size, ..ResponseParameters::default() };
    let request = StreamingOutputCallRequest {
        response_parameters: RESPONSES.map(one).to_vec(),
        ..StreamingOutputCallRequest::default()
    };
    let mut stream = client.streaming_output_call(request).await?.into_inner();
    let mut sizes = Vec::new();
    while let Some(response) = stream.message().await? {
        sizes.push(size(response.payload.as_ref()));
    }
    check(sizes == RESPONSES.map(|size| size as usize), || format!("{sizes:?}"))
}

fn duplex(request: i32, response: i32, interval_us: i32) -> StreamingOutputCallRequest {
    StreamingOutputCallRequest {
        response_parameters: vec![ResponseParameters { size: response, interval_us, compressed: None }],
        payload: Some(payload(request)),
        ..StreamingOutputCallRequest::default()
    }
}

async fn ping_pong(mut client: Client) -> Result<(), Failure> {
    let (sender, receiver) = mpsc::channel(1);
    sender.send(duplex(REQUESTS[0], RESPONSES[0], 0)).await?;
    let mut stream = client.full_duplex_call(ReceiverStream::new(receiver)).await?.into_inner();
    for number in 0..RESPONSES.len() {
        let response = stream.message().await?.ok_or("the stream ended early")?;
        let found = size(response.payload.as_ref());
        check(found == RESPONSES[number] as usize, || format!("message {number} has {found} bytes"))?;
        if let Some(&next) = REQUESTS.get(number + 1) {
            sender.send(duplex(next, RESPONSES[number + 1], 0)).await?;
        }
    }
    drop(sender);
    let rest = stream.message().await?;
    check(rest.is_none(), || "more messages than asked for".to_owned())
}

async fn empty_stream(mut client: Client) -> Result<(), Failure> {
    let mut stream = client.full_duplex_call(tokio_stream::empty()).await?.into_inner();
    let message = stream.message().await?;
    check(message.is_none(), || "a message that was not asked for".to_owned())
}

async fn timeout_on_sleeping_server(mut client: Client) -> Result<(), Failure> {
    let (sender, receiver) = mpsc::channel(1);
    sender.send(duplex(27_182, 31_415, 1_000_000)).await?;
    let mut request = Request::new(ReceiverStream::new(receiver));
    request.metadata_mut().insert("grpc-timeout", MetadataValue::from_static("50m"));
    let found = match client.full_duplex_call(request).await {
        Err(status) => status,
        Ok(stream) => match stream.into_inner().message().await {
            Err(status) => status,
            Ok(message) => return Err(format!("no deadline but {:?}", message.is_some()).into()),
        },
    };
    drop(sender);
    // tonic's client keeps the time to the head of a response itself, and grpc-go's server resets a stream that is late:
    // tonic calls both cancelled.
    let is_end = matches!(found.code(), Code::DeadlineExceeded | Code::Cancelled);
    check(is_end, || format!("{found:?}"))
}

async fn cancel_after_begin(mut client: Client) -> Result<(), Failure> {
    let (sender, receiver) = mpsc::channel(1);
    let call = tokio::spawn(async move { client.streaming_input_call(ReceiverStream::new(receiver)).await });
    // The client sends the head when it polls the body for its first message; room for a second message shows that.
    sender.send(StreamingInputCallRequest::default()).await?;
    drop(sender.reserve().await?);
    call.abort();
    let ended = call.await;
    check(ended.is_err_and(|error| error.is_cancelled()), || "an answer to a cancelled call".to_owned())
}

async fn cancel_after_first_response(mut client: Client) -> Result<(), Failure> {
    let (sender, receiver) = mpsc::channel(1);
    sender.send(duplex(27_182, 31_415, 0)).await?;
    let mut stream = client.full_duplex_call(ReceiverStream::new(receiver)).await?.into_inner();
    let found = size(stream.message().await?.ok_or("no message")?.payload.as_ref());
    check(found == 31_415, || format!("{found} bytes"))?;
    // tonic resets a stream when both of its halves are let go.
    drop(stream);
    drop(sender);
    // Other calls of the connection are not touched.
    empty_unary(client).await
}

fn is_echoed(found: &Status, code: Code, message: &str) -> Result<(), Failure> {
    check(found.code() == code && found.message() == message, || format!("{found:?}"))
}

async fn status_code_and_message(mut client: Client) -> Result<(), Failure> {
    let message = "test status message";
    let status = Some(EchoStatus { code: 2, message: message.to_owned() });
    let request = SimpleRequest { response_status: status.clone(), ..SimpleRequest::default() };
    let found = client.unary_call(request).await.err().ok_or("success of a call that fails")?;
    is_echoed(&found, Code::Unknown, message)?;
    let request =
        StreamingOutputCallRequest { response_status: status, ..StreamingOutputCallRequest::default() };
    let found = match client.full_duplex_call(tokio_stream::once(request)).await {
        Err(status) => status,
        Ok(stream) => stream.into_inner().message().await.err().ok_or("success of a stream that fails")?,
    };
    is_echoed(&found, Code::Unknown, message)
}

async fn special_status_message(mut client: Client) -> Result<(), Failure> {
    let message = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n";
    let status = Some(EchoStatus { code: 2, message: message.to_owned() });
    let request = SimpleRequest { response_status: status, ..SimpleRequest::default() };
    let found = client.unary_call(request).await.err().ok_or("success of a call that fails")?;
    is_echoed(&found, Code::Unknown, message)
}

async fn custom_metadata(mut client: Client) -> Result<(), Failure> {
    let bytes = Bytes::from_static(&[0xab, 0xab, 0xab]);
    let with_metadata = |mut metadata: tonic::metadata::MetadataMap| {
        metadata.insert(INITIAL, MetadataValue::from_static("test_initial_metadata_value"));
        metadata.insert_bin(TRAILING, MetadataValue::from_bytes(&[0xab, 0xab, 0xab]));
        metadata
    };
    let is_initial = |metadata: &tonic::metadata::MetadataMap| {
        let found = metadata.get(INITIAL);
        check(found.is_some_and(|value| value == "test_initial_metadata_value"), || {
            format!("initial {found:?}")
        })
    };
    let is_trailing = |metadata: &tonic::metadata::MetadataMap| {
        let found = metadata.get_bin(TRAILING).and_then(|value| value.to_bytes().ok());
        check(found.as_ref() == Some(&bytes), || format!("trailing {found:?}"))
    };

    let request = SimpleRequest {
        response_size: RESPONSE,
        payload: Some(payload(REQUEST)),
        ..SimpleRequest::default()
    };
    let mut request = Request::new(request);
    *request.metadata_mut() = with_metadata(request.metadata().clone());
    let response = client.unary_call(request).await?;
    // tonic puts the trailers of a unary call among its metadata.
    is_initial(response.metadata())?;
    is_trailing(response.metadata())?;

    let mut request = Request::new(tokio_stream::once(duplex(REQUEST, RESPONSE, 0)));
    *request.metadata_mut() = with_metadata(request.metadata().clone());
    let response = client.full_duplex_call(request).await?;
    is_initial(response.metadata())?;
    let mut stream = response.into_inner();
    while stream.message().await?.is_some() {}
    let trailers = stream.trailers().await?.ok_or("no trailers")?;
    is_trailing(&trailers)
}

async fn unimplemented(channel: Channel, path: &'static str) -> Result<(), Failure> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await?;
    let codec = tonic_prost::ProstCodec::<Empty, Empty>::default();
    let path = http::uri::PathAndQuery::from_static(path);
    let found = client.unary(Request::new(Empty {}), path, codec).await;
    let found: Status = found.err().ok_or("success of what does not exist")?;
    check(found.code() == Code::Unimplemented, || format!("{found:?}"))
}

/// As many as grpc-go's in this folder.
const SOAK: usize = 200;
const WORKERS: usize = 4;

async fn rpc_soak(client: Client) -> Result<(), Failure> {
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..SOAK / WORKERS {
                    large_unary(client.clone()).await?;
                }
                Ok::<_, Failure>(())
            })
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    Ok(())
}

async fn channel_soak(endpoint: &Endpoint) -> Result<(), Failure> {
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let endpoint = endpoint.clone();
            tokio::spawn(async move {
                for _ in 0..SOAK / WORKERS {
                    large_unary(TestServiceClient::new(endpoint.connect().await?)).await?;
                }
                Ok::<_, Failure>(())
            })
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    Ok(())
}
