//! Generates `../src/generated.rs` from Envoy's published protocol definitions, which are not kept in this repository. Owns the
//! list of messages and fields that Fairway uses; never adds a definition of its own.
//!
//! The definitions are in the Maven artifact `io.envoyproxy.controlplane:api`, a ZIP file. Unpack it, and run in this directory
//! `cargo run -- DIRECTORY VERSION > ../src/generated.rs && rustfmt --edition 2024 ../src/generated.rs`.

use std::collections::HashMap;
use std::path::PathBuf;

use prost_build::Module;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorProto};

const FILES: &[&str] =
    &["envoy/service/auth/v3/external_auth.proto", "envoy/service/ext_proc/v3/external_processor.proto"];

/// The messages to keep, with their fields; Fairway ignores all other fields. All names end up in one module: package names are
/// not on the wire.
const KEPT: &[(&str, &str)] = &[
    ("envoy.service.auth.v3.CheckRequest", "attributes"),
    ("envoy.service.auth.v3.DeniedHttpResponse", "status headers body"),
    (
        "envoy.service.auth.v3.OkHttpResponse",
        "headers headers_to_remove response_headers_to_add query_parameters_to_set query_parameters_to_remove",
    ),
    ("envoy.service.auth.v3.CheckResponse", "status denied_response ok_response"),
    ("envoy.service.auth.v3.AttributeContext", "source destination request context_extensions tls_session"),
    ("envoy.service.auth.v3.AttributeContext.Peer", "address principal certificate"),
    ("envoy.service.auth.v3.AttributeContext.Request", "time http"),
    (
        "envoy.service.auth.v3.AttributeContext.HttpRequest",
        "id method headers path host scheme size protocol body raw_body",
    ),
    ("envoy.service.auth.v3.AttributeContext.TLSSession", "sni"),
    (
        "envoy.service.ext_proc.v3.ProcessingRequest",
        "request_headers response_headers request_body response_body request_trailers response_trailers metadata_context \
         attributes protocol_config",
    ),
    ("envoy.service.ext_proc.v3.ProtocolConfiguration", "request_body_mode response_body_mode"),
    (
        "envoy.service.ext_proc.v3.ProcessingResponse",
        "request_headers response_headers request_body response_body request_trailers response_trailers immediate_response \
         dynamic_metadata mode_override override_message_timeout",
    ),
    ("envoy.service.ext_proc.v3.HttpHeaders", "headers end_of_stream"),
    ("envoy.service.ext_proc.v3.HttpBody", "body end_of_stream"),
    ("envoy.service.ext_proc.v3.HttpTrailers", "trailers"),
    ("envoy.service.ext_proc.v3.HeadersResponse", "response"),
    ("envoy.service.ext_proc.v3.BodyResponse", "response"),
    ("envoy.service.ext_proc.v3.TrailersResponse", "header_mutation"),
    ("envoy.service.ext_proc.v3.CommonResponse", "status header_mutation body_mutation"),
    ("envoy.service.ext_proc.v3.ImmediateResponse", "status headers body grpc_status"),
    ("envoy.service.ext_proc.v3.GrpcStatus", "status"),
    ("envoy.service.ext_proc.v3.HeaderMutation", "set_headers remove_headers"),
    ("envoy.service.ext_proc.v3.StreamedBodyResponse", "body end_of_stream"),
    ("envoy.service.ext_proc.v3.BodyMutation", "body clear_body streamed_response"),
    (
        "envoy.extensions.filters.http.ext_proc.v3.ProcessingMode",
        "request_header_mode response_header_mode request_body_mode response_body_mode request_trailer_mode response_trailer_mode",
    ),
    ("envoy.config.core.v3.HeaderValue", "key value raw_value"),
    ("envoy.config.core.v3.HeaderValueOption", "header append append_action"),
    ("envoy.config.core.v3.HeaderMap", "headers"),
    ("envoy.config.core.v3.Metadata", "filter_metadata"),
    ("envoy.config.core.v3.QueryParameter", "key value"),
    ("envoy.config.core.v3.Address", "socket_address"),
    ("envoy.config.core.v3.SocketAddress", "protocol address port_value"),
    ("envoy.type.v3.HttpStatus", "code"),
    ("google.rpc.Status", "code message"),
    ("google.protobuf.Struct", "fields"),
    ("google.protobuf.Value", "null_value number_value string_value bool_value struct_value list_value"),
    ("google.protobuf.ListValue", "values"),
    ("google.protobuf.Timestamp", "seconds nanos"),
    ("google.protobuf.Duration", "seconds nanos"),
    ("google.protobuf.BoolValue", "value"),
];

const PACKAGE: &str = "generated";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(directory), Some(version)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: cargo run -- DIRECTORY VERSION > ../src/generated.rs");
        std::process::exit(2);
    };
    let published = protox::compile(FILES, [PathBuf::from(directory)]).expect("the definitions compile");
    let mut names = HashMap::new();
    let mut file = FileDescriptorProto {
        name: Some(format!("{PACKAGE}.proto")),
        package: Some(PACKAGE.to_owned()),
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    };
    for from in published.file {
        let package = from.package.unwrap_or_default();
        names.extend(from.enum_type.iter().map(|it| renamed(&package, it.name())));
        names.extend(from.message_type.iter().map(|it| renamed(&package, it.name())));
        file.enum_type.extend(from.enum_type.into_iter().filter(|it| it.name() == "NullValue"));
        file.message_type.extend(from.message_type.into_iter().filter_map(|message| without_omitted_fields(&package, message)));
    }
    file.message_type.iter_mut().for_each(|message| rename(message, &names));
    let mut config = prost_build::Config::new();
    config.btree_map(["."]);
    let module = Module::from_protobuf_package_name(PACKAGE);
    let written = config.generate(vec![(module.clone(), file)]).expect("the kept messages are complete");
    let artifact = "io.envoyproxy.controlplane:api";
    println!(
        "//! The messages of `envoy.service.auth.v3` and `envoy.service.ext_proc.v3`, as far as Fairway uses them. Generated by"
    );
    println!("//! `../generate` from the definitions in `{artifact}` {version}; not edited by hand.\n");
    println!(
        "#![allow(missing_docs, unreachable_pub, reason = \"generated: Envoy documents the messages\")]"
    );
    println!("#![allow(clippy::all, reason = \"generated\")]\n");
    print!("{}", written[&module]);
}

fn renamed(package: &str, name: &str) -> (String, String) {
    (format!(".{package}.{name}"), format!(".{PACKAGE}.{name}"))
}

/// The message with its listed fields; `None` if it is not listed.
fn without_omitted_fields(scope: &str, mut message: DescriptorProto) -> Option<DescriptorProto> {
    let name = format!("{scope}.{}", message.name());
    let is_map = message.options.as_ref().is_some_and(|options| options.map_entry());
    let listed = KEPT.iter().find(|(kept, _)| *kept == name);
    if !is_map {
        let fields: Vec<_> = listed?.1.split(' ').filter(|field| !field.is_empty()).collect();
        message.field.retain(|field| fields.contains(&field.name()));
        assert_eq!(message.field.len(), fields.len(), "{name} lacks a field");
    }
    message.options.iter_mut().for_each(|options| options.uninterpreted_option.clear());
    message.reserved_name.clear();
    message.reserved_range.clear();
    let used: Vec<_> = message.field.iter().map(|field| field.type_name().to_owned()).collect();
    let is_used = |inner: &str| used.iter().any(|used| *used == format!(".{name}.{inner}"));
    message.enum_type.retain(|inner| is_used(inner.name()));
    let nested = std::mem::take(&mut message.nested_type).into_iter();
    let is_map = |it: &DescriptorProto| it.options.as_ref().is_some_and(|options| options.map_entry());
    let nested = nested.filter(|it| !is_map(it) || is_used(it.name()));
    message.nested_type = nested.filter_map(|it| without_omitted_fields(&name, it)).collect();
    drop_empty_oneofs(&mut message);
    for field in &mut message.field {
        field.options = None;
        // More than a hundred names for numbers, of which only the number is needed.
        if field.type_name() == ".envoy.type.v3.StatusCode" {
            field.set_type(Type::Int32);
            field.type_name = None;
        }
    }
    Some(message)
}

fn drop_empty_oneofs(message: &mut DescriptorProto) {
    let mut kept = Vec::new();
    for (index, oneof) in std::mem::take(&mut message.oneof_decl).into_iter().enumerate() {
        let index = i32::try_from(index).expect("there are few");
        let to = i32::try_from(kept.len()).expect("there are few");
        let mut is_used = false;
        for field in message.field.iter_mut().filter(|field| field.oneof_index == Some(index)) {
            field.oneof_index = Some(to);
            is_used = true;
        }
        if is_used {
            kept.push(oneof);
        }
    }
    message.oneof_decl = kept;
}

fn rename(message: &mut DescriptorProto, names: &HashMap<String, String>) {
    for field in &mut message.field {
        let Some(name) = &field.type_name else { continue };
        let found = names.iter().find_map(|(from, to)| {
            let rest = name.strip_prefix(from.as_str())?;
            (rest.is_empty() || rest.starts_with('.')).then(|| format!("{to}{rest}"))
        });
        field.type_name = Some(found.unwrap_or_else(|| panic!("{name} is unknown")));
    }
    message.nested_type.iter_mut().for_each(|message| rename(message, names));
}
