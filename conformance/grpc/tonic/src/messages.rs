//! The messages of grpc/testing/messages.proto that the cases use.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

#[derive(Clone, PartialEq, Message)]
pub struct Payload {
    /// 0: compressable.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub body: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct EchoStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct BoolValue {
    #[prost(bool, tag = "1")]
    pub value: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct SimpleRequest {
    #[prost(int32, tag = "1")]
    pub response_type: i32,
    #[prost(int32, tag = "2")]
    pub response_size: i32,
    #[prost(message, optional, tag = "3")]
    pub payload: Option<Payload>,
    #[prost(message, optional, tag = "6")]
    pub response_compressed: Option<BoolValue>,
    #[prost(message, optional, tag = "7")]
    pub response_status: Option<EchoStatus>,
    #[prost(message, optional, tag = "8")]
    pub expect_compressed: Option<BoolValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SimpleResponse {
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StreamingInputCallRequest {
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
    #[prost(message, optional, tag = "2")]
    pub expect_compressed: Option<BoolValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StreamingInputCallResponse {
    #[prost(int32, tag = "1")]
    pub aggregated_payload_size: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct ResponseParameters {
    #[prost(int32, tag = "1")]
    pub size: i32,
    #[prost(int32, tag = "2")]
    pub interval_us: i32,
    #[prost(message, optional, tag = "3")]
    pub compressed: Option<BoolValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StreamingOutputCallRequest {
    #[prost(int32, tag = "1")]
    pub response_type: i32,
    #[prost(message, repeated, tag = "2")]
    pub response_parameters: Vec<ResponseParameters>,
    #[prost(message, optional, tag = "3")]
    pub payload: Option<Payload>,
    #[prost(message, optional, tag = "7")]
    pub response_status: Option<EchoStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StreamingOutputCallResponse {
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
}

/// `size` zeros.
pub fn payload(size: i32) -> Payload {
    Payload { kind: 0, body: vec![0; usize::try_from(size).unwrap_or_default()] }
}

/// How much a payload has.
pub fn size(payload: Option<&Payload>) -> usize {
    payload.map_or(0, |payload| payload.body.len())
}

/// A switch that is set.
pub fn yes(on: bool) -> Option<BoolValue> {
    Some(BoolValue { value: on })
}
