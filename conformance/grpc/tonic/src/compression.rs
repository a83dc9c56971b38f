//! The cases of compression. tonic compresses all messages of a call or none, so the cases of streams ask for one kind in each
//! call, and both kinds in turn.

use tonic::Code;
use tonic::codec::CompressionEncoding::Gzip;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;

use crate::Failure;
use crate::cases::{Client, check};
use crate::messages::{
    ResponseParameters, SimpleRequest, StreamingInputCallRequest, StreamingOutputCallRequest, payload, size,
    yes,
};

const SWITCHES: [bool; 2] = [true, false];

/// A client that compresses what it sends, or not, and takes both.
fn client(channel: &Channel, compresses: bool) -> Client {
    let client = Client::new(channel.clone()).accept_compressed(Gzip);
    if compresses { client.send_compressed(Gzip) } else { client }
}

fn is_gzip(metadata: &MetadataMap) -> bool {
    metadata.get("grpc-encoding").is_some_and(|encoding| encoding == "gzip")
}

pub async fn client_unary(channel: Channel) -> Result<(), Failure> {
    let request = |expected| SimpleRequest {
        expect_compressed: yes(expected),
        response_size: 314_159,
        payload: Some(payload(271_828)),
        ..SimpleRequest::default()
    };
    let found = client(&channel, false).unary_call(request(true)).await;
    check(found.as_ref().is_err_and(|status| status.code() == Code::InvalidArgument), || {
        format!("the server does not notice that a message is not compressed: {found:?}")
    })?;
    for on in SWITCHES {
        let response = client(&channel, on).unary_call(request(on)).await?.into_inner();
        let found = size(response.payload.as_ref());
        check(found == 314_159, || format!("compressed {on}: {found} bytes"))?;
    }
    Ok(())
}

pub async fn client_streaming(channel: Channel) -> Result<(), Failure> {
    let requests = |expected| {
        let one = move |size| StreamingInputCallRequest {
            payload: Some(payload(size)),
            expect_compressed: yes(expected),
        };
        tokio_stream::iter([27_182, 45_904].map(one))
    };
    let found = client(&channel, false).streaming_input_call(requests(true)).await;
    check(found.as_ref().is_err_and(|status| status.code() == Code::InvalidArgument), || {
        format!("the server does not notice that a message is not compressed: {found:?}")
    })?;
    for on in SWITCHES {
        let found = client(&channel, on).streaming_input_call(requests(on)).await?.into_inner();
        check(found.aggregated_payload_size == 27_182 + 45_904, || format!("compressed {on}: {found:?}"))?;
    }
    Ok(())
}

pub async fn server_unary(channel: Channel) -> Result<(), Failure> {
    for on in SWITCHES {
        let request = SimpleRequest {
            response_compressed: yes(on),
            response_size: 314_159,
            payload: Some(payload(271_828)),
            ..SimpleRequest::default()
        };
        let response = client(&channel, false).unary_call(request).await?;
        // An uncompressed message may still name an encoding.
        check(!on || is_gzip(response.metadata()), || "not compressed".to_owned())?;
        let found = size(response.into_inner().payload.as_ref());
        check(found == 314_159, || format!("compressed {on}: {found} bytes"))?;
    }
    Ok(())
}

pub async fn server_streaming(channel: Channel) -> Result<(), Failure> {
    for on in SWITCHES {
        let sizes = [31_415, 92_653];
        let one = |size| ResponseParameters { size, interval_us: 0, compressed: yes(on) };
        let request = StreamingOutputCallRequest {
            response_parameters: sizes.map(one).to_vec(),
            ..StreamingOutputCallRequest::default()
        };
        let response = client(&channel, false).streaming_output_call(request).await?;
        check(!on || is_gzip(response.metadata()), || "not compressed".to_owned())?;
        let mut stream = response.into_inner();
        for wanted in sizes {
            let found = size(stream.message().await?.ok_or("the stream ended early")?.payload.as_ref());
            check(found == wanted as usize, || format!("compressed {on}: {found} bytes"))?;
        }
        let rest = stream.message().await?;
        check(rest.is_none(), || "more messages than asked for".to_owned())?;
    }
    Ok(())
}
