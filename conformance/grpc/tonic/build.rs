//! The services of grpc/testing/test.proto, without protoc.

use tonic_build::manual::{Builder, Method, MethodBuilder, Service};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let test = Service::builder()
        .name("TestService")
        .package("grpc.testing")
        .method(method("empty_call", "EmptyCall", "Empty", "Empty").build())
        .method(method("unary_call", "UnaryCall", "SimpleRequest", "SimpleResponse").build())
        .method(output("streaming_output_call", "StreamingOutputCall").server_streaming().build())
        .method(
            method(
                "streaming_input_call",
                "StreamingInputCall",
                "StreamingInputCallRequest",
                "StreamingInputCallResponse",
            )
            .client_streaming()
            .build(),
        )
        .method(output("full_duplex_call", "FullDuplexCall").client_streaming().server_streaming().build())
        .build();
    Builder::new().compile(&[test]);
}

fn output(name: &str, route: &str) -> MethodBuilder {
    method(name, route, "StreamingOutputCallRequest", "StreamingOutputCallResponse")
}

fn method(name: &str, route: &str, input: &str, output: &str) -> MethodBuilder {
    Method::builder()
        .name(name)
        .route_name(route)
        .input_type(format!("crate::messages::{input}"))
        .output_type(format!("crate::messages::{output}"))
        .codec_path("tonic_prost::ProstCodec")
}
