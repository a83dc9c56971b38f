//! The parts of messages that are the same for all streams of a configuration, encoded once.

use std::sync::Arc;

use fairway_model::Extension;
use prost::Message;

use super::phases::wire_number;
use crate::generated::value::Kind;
use crate::generated::{ListValue, Metadata, ProcessingRequest, ProtocolConfiguration, Struct, Value};

/// The name under which Envoy's filter sends attributes.
const FILTER_NAME: &str = "envoy.filters.http.ext_proc";

/// The configuration of a service, prepared for streams: create it once, and use it for each.
#[derive(Debug)]
pub struct PreparedExtension {
    pub(super) extension: Arc<Extension>,
    /// `protocol_config` as a field of a message.
    pub(super) protocol: Vec<u8>,
    /// `metadata_context` as a field of a message; empty without metadata.
    pub(super) metadata: Vec<u8>,
}

impl PreparedExtension {
    /// Encodes what every stream sends. Metadata that is not a JSON object is omitted; the translation has reported it.
    #[must_use]
    pub fn new(extension: Arc<Extension>) -> Self {
        let protocol = ProtocolConfiguration {
            request_body_mode: wire_number(extension.request.body),
            response_body_mode: wire_number(extension.response.body),
        };
        let protocol = ProcessingRequest { protocol_config: Some(protocol), ..ProcessingRequest::default() };
        let filter_metadata =
            extension.metadata.iter().filter_map(|(namespace, json)| match serde_json::from_str(json) {
                Ok(serde_json::Value::Object(object)) => Some((namespace.to_string(), structure(object))),
                _ => None,
            });
        let metadata = Metadata { filter_metadata: filter_metadata.collect() };
        let metadata_context = (!metadata.filter_metadata.is_empty()).then_some(metadata);
        let metadata = ProcessingRequest { metadata_context, ..ProcessingRequest::default() };
        PreparedExtension {
            protocol: protocol.encode_to_vec(),
            metadata: metadata.encode_to_vec(),
            extension,
        }
    }

    /// The configuration.
    #[must_use]
    pub fn extension(&self) -> &Extension {
        &self.extension
    }

    /// `attributes` as a field of a message; empty without attributes.
    pub(super) fn encode_attributes(attributes: &[(Arc<str>, Vec<u8>)]) -> Vec<u8> {
        if attributes.is_empty() {
            return Vec::new();
        }
        let text = |value: &[u8]| Kind::StringValue(String::from_utf8_lossy(value).into_owned());
        let fields = attributes.iter().map(|(name, value)| (name.to_string(), value_of_kind(text(value))));
        let attributes = [(FILTER_NAME.to_owned(), Struct { fields: fields.collect() })].into();
        ProcessingRequest { attributes, ..ProcessingRequest::default() }.encode_to_vec()
    }
}

fn value_of_kind(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

fn structure(object: serde_json::Map<String, serde_json::Value>) -> Struct {
    Struct { fields: object.into_iter().map(|(name, json)| (name, value(json))).collect() }
}

/// The JSON parser limits the depth of the recursion.
fn value(json: serde_json::Value) -> Value {
    value_of_kind(match json {
        serde_json::Value::Null => Kind::NullValue(0),
        serde_json::Value::Bool(bool) => Kind::BoolValue(bool),
        serde_json::Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(f64::NAN)),
        serde_json::Value::String(text) => Kind::StringValue(text),
        serde_json::Value::Array(values) => {
            Kind::ListValue(ListValue { values: values.into_iter().map(value).collect() })
        }
        serde_json::Value::Object(object) => Kind::StructValue(structure(object)),
    })
}
