//! Generates `kinds.rs`, `gateways.rs` and `routes.rs` from the CRDs of the Gateway API: `generate CRDS FOLDER`, where CRDS holds
//! the files of a channel and FOLDER is `src/gateway_api` of this crate. A new schema needs a name in [`NAMES`].

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use fairway_objects::manifest::{self, Schema};
use serde_json::Value;

/// The files, named by the plural of their kind.
const KINDS: [&str; 10] = [
    "gatewayclasses",
    "gateways",
    "listenersets",
    "httproutes",
    "grpcroutes",
    "tlsroutes",
    "tcproutes",
    "udproutes",
    "referencegrants",
    "backendtlspolicies",
];

/// Types that Kubernetes already has, by their fields.
const BUILT_IN: [(&[&str], &str); 2] = [
    (&["lastTransitionTime", "message", "observedGeneration", "reason", "status", "type"], "Condition"),
    (&["matchExpressions", "matchLabels"], "LabelSelector"),
];

/// Names of the structs, by the first path where each occurs.
const NAMES: [(&str, &str); 73] = [
    ("GatewayClass.spec", "GatewayClassSpec"),
    ("GatewayClass.spec.parametersRef", "ParametersReference"),
    ("GatewayClass.status", "GatewayClassStatus"),
    ("GatewayClass.status.supportedFeatures[]", "SupportedFeature"),
    ("Gateway.spec", "GatewaySpec"),
    ("Gateway.spec.addresses[]", "GatewayAddress"),
    ("Gateway.spec.allowedListeners", "AllowedListeners"),
    ("Gateway.spec.allowedListeners.namespaces", "FromNamespaces"),
    ("Gateway.spec.infrastructure", "GatewayInfrastructure"),
    ("Gateway.spec.infrastructure.parametersRef", "LocalObjectReference"),
    ("Gateway.spec.listeners[]", "Listener"),
    ("Gateway.spec.listeners[].allowedRoutes", "AllowedRoutes"),
    ("Gateway.spec.listeners[].allowedRoutes.kinds[]", "RouteGroupKind"),
    ("Gateway.spec.listeners[].filters", "ListenerFilters"),
    ("Gateway.spec.listeners[].filters.requests[]", "ListenerFilter"),
    ("Gateway.spec.listeners[].filters.requests[].externalAuth", "HttpExternalAuthFilter"),
    ("Gateway.spec.listeners[].filters.requests[].externalAuth.backendRef", "BackendObjectReference"),
    ("Gateway.spec.listeners[].filters.requests[].externalAuth.forwardBody", "ForwardBodyConfig"),
    ("Gateway.spec.listeners[].filters.requests[].externalAuth.grpc", "GrpcAuthConfig"),
    ("Gateway.spec.listeners[].filters.requests[].externalAuth.http", "HttpAuthConfig"),
    ("Gateway.spec.listeners[].tls", "ListenerTls"),
    ("Gateway.spec.listeners[].tls.certificateRefs[]", "ObjectReference"),
    ("Gateway.spec.tls", "GatewayTls"),
    ("Gateway.spec.tls.backend", "GatewayBackendTls"),
    ("Gateway.spec.tls.frontend", "FrontendTls"),
    ("Gateway.spec.tls.frontend.default", "FrontendTlsConfig"),
    ("Gateway.spec.tls.frontend.default.validation", "FrontendTlsValidation"),
    ("Gateway.spec.tls.frontend.perPort[]", "FrontendTlsPort"),
    ("Gateway.status", "GatewayStatus"),
    ("Gateway.status.addresses[]", "StatusAddress"),
    ("Gateway.status.listeners[]", "ListenerStatus"),
    ("ListenerSet.spec", "ListenerSetSpec"),
    ("ListenerSet.status", "ListenerSetStatus"),
    ("HTTPRoute.spec", "HttpRouteSpec"),
    ("HTTPRoute.spec.parentRefs[]", "ParentReference"),
    ("HTTPRoute.spec.rules[]", "HttpRouteRule"),
    ("HTTPRoute.spec.rules[].backendRefs[]", "HttpBackendRef"),
    ("HTTPRoute.spec.rules[].backendRefs[].filters[]", "HttpRouteFilter"),
    ("HTTPRoute.spec.rules[].backendRefs[].filters[].cors", "HttpCorsFilter"),
    ("HTTPRoute.spec.rules[].backendRefs[].filters[].requestHeaderModifier", "HttpHeaderFilter"),
    ("HTTPRoute.spec.rules[].backendRefs[].filters[].requestHeaderModifier.add[]", "HttpHeader"),
    ("HTTPRoute.spec.rules[].backendRefs[].filters[].requestMirror", "HttpRequestMirrorFilter"),
    ("HTTPRoute.spec.rules[].backendRefs[].filters[].requestMirror.fraction", "Fraction"),
    ("HTTPRoute.spec.rules[].backendRefs[].filters[].requestRedirect", "HttpRequestRedirectFilter"),
    ("HTTPRoute.spec.rules[].backendRefs[].filters[].requestRedirect.path", "HttpPathModifier"),
    ("HTTPRoute.spec.rules[].backendRefs[].filters[].urlRewrite", "HttpUrlRewriteFilter"),
    ("HTTPRoute.spec.rules[].matches[]", "HttpRouteMatch"),
    ("HTTPRoute.spec.rules[].matches[].headers[]", "ValueMatch"),
    ("HTTPRoute.spec.rules[].matches[].path", "TypedValue"),
    ("HTTPRoute.spec.rules[].retry", "HttpRouteRetry"),
    ("HTTPRoute.spec.rules[].sessionPersistence", "SessionPersistence"),
    ("HTTPRoute.spec.rules[].sessionPersistence.cookie", "CookieConfig"),
    ("HTTPRoute.spec.rules[].timeouts", "HttpRouteTimeouts"),
    ("HTTPRoute.status", "RouteStatus"),
    ("HTTPRoute.status.parents[]", "RouteParentStatus"),
    ("GRPCRoute.spec", "GrpcRouteSpec"),
    ("GRPCRoute.spec.rules[]", "GrpcRouteRule"),
    ("GRPCRoute.spec.rules[].backendRefs[]", "GrpcBackendRef"),
    ("GRPCRoute.spec.rules[].backendRefs[].filters[]", "GrpcRouteFilter"),
    ("GRPCRoute.spec.rules[].matches[]", "GrpcRouteMatch"),
    ("GRPCRoute.spec.rules[].matches[].method", "GrpcMethodMatch"),
    ("TLSRoute.spec", "TlsRouteSpec"),
    ("TLSRoute.spec.rules[]", "StreamRouteRule"),
    ("TLSRoute.spec.rules[].backendRefs[]", "BackendRef"),
    ("TCPRoute.spec", "StreamRouteSpec"),
    ("ReferenceGrant.spec", "ReferenceGrantSpec"),
    ("ReferenceGrant.spec.from[]", "ReferenceGrantFrom"),
    ("ReferenceGrant.spec.to[]", "ReferenceGrantTo"),
    ("BackendTLSPolicy.spec", "BackendTlsPolicySpec"),
    ("BackendTLSPolicy.spec.targetRefs[]", "PolicyTargetReference"),
    ("BackendTLSPolicy.spec.validation", "BackendTlsValidation"),
    ("BackendTLSPolicy.spec.validation.subjectAltNames[]", "SubjectAltName"),
    ("BackendTLSPolicy.status", "PolicyStatus"),
];

/// One more name, which would make the lines of the list above too long.
const PER_ANCESTOR: (&str, &str) = ("BackendTLSPolicy.status.ancestors[]", "PolicyAncestorStatus");

/// Rarely used fields of rules and listeners. They are boxed, because every rule of 100,000 routes would reserve their space.
const BOXED: [&str; 6] = [
    "Gateway.spec.listeners[].filters",
    "ListenerSet.spec.listeners[].filters",
    "HTTPRoute.spec.rules[].retry",
    "HTTPRoute.spec.rules[].sessionPersistence",
    "HTTPRoute.spec.rules[].timeouts",
    "GRPCRoute.spec.rules[].sessionPersistence",
];

/// Fields of earlier releases: path, name and type, so that objects of those releases can be read.
const EARLIER: [(&str, &str, &str); 3] = [
    ("sessionPersistence", "cookieConfig", "CookieConfig"),
    ("sessionPersistence", "idleTimeout", "String"),
    ("sessionPersistence", "sessionName", "String"),
];

/// The structs by their fields, and the generated text.
#[derive(Default)]
struct Types {
    by_fields: BTreeMap<String, &'static str>,
    /// Structs that first occur in a GatewayClass, Gateway or ListenerSet.
    gateways: String,
    /// All others.
    routes: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = arguments.as_slice() else { return Err("usage: generate CRDS FOLDER".into()) };
    let mut types = Types::default();
    let mut kinds = String::new();
    for kind in KINDS {
        let file = Path::new(from).join(format!("gateway.networking.k8s.io_{kind}.yaml"));
        let crd = manifest::parse_single(&std::fs::read_to_string(file)?, Schema::Core);
        let crd = crd.map_err(|flaw| flaw.problem)?.ok_or("an empty file")?.to_json();
        types.kind(&crd, &mut kinds)?;
    }
    std::fs::write(Path::new(to).join("kinds.rs"), format!("{HEAD}{KINDS_NEED}{kinds}"))?;
    std::fs::write(Path::new(to).join("gateways.rs"), format!("{HEAD}{GATEWAYS_NEED}{}", types.gateways))?;
    std::fs::write(Path::new(to).join("routes.rs"), format!("{HEAD}{ROUTES_NEED}{}", types.routes))?;
    Ok(())
}

const HEAD: &str = "//! Generated from the CRDs of the Gateway API by `make gateway-types`; changes belong into `examples/generate.rs`.

#![allow(missing_docs, reason = \"the fields are those of the Gateway API reference\")]
";

const KINDS_NEED: &str = "
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::custom_resource::custom_resource;
use crate::gateway_api::gateways::*;
use crate::gateway_api::routes::*;
";

const ROUTES_NEED: &str = "
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use crate::gateway_api::gateways::*;
";

const GATEWAYS_NEED: &str = "
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use serde::{Deserialize, Serialize};
";

impl Types {
    /// Generates a kind and its structs.
    fn kind(&mut self, crd: &Value, kinds: &mut String) -> Result<(), Box<dyn Error>> {
        let text = |at: &str| crd.pointer(at).and_then(Value::as_str).ok_or_else(|| format!("no {at}"));
        let (kind, plural) = (text("/spec/names/kind")?, text("/spec/names/plural")?);
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array).ok_or("no versions")?;
        let v1 = versions.iter().find(|version| version["name"] == "v1").ok_or("no version v1")?;
        let namespaced = text("/spec/scope")? == "Namespaced";
        let scope = if namespaced { "Namespace" } else { "Cluster" };
        let name = rust_name(kind);
        let (mut fields, mut parts) = (String::new(), Vec::new());
        for part in ["spec", "status"] {
            let schema = &v1["schema"]["openAPIV3Schema"]["properties"][part];
            if schema.is_object() {
                let (part_type, optional) =
                    (self.type_of(schema, &format!("{kind}.{part}"))?, part == "status");
                fields.push_str(&field(part, &part_type, !optional));
                parts.push(part_type);
            }
        }
        write!(
            kinds,
            "
/// `gateway.networking.k8s.io/v1` {kind}.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct {name} {{
    pub metadata: ObjectMeta,
{fields}}}

custom_resource! {{
    {name}({}):
    \"gateway.networking.k8s.io\", \"v1\", \"{kind}\", \"{plural}\", {scope}ResourceScope
}}
",
            parts.join(", ")
        )?;
        Ok(())
    }

    /// The type of a schema; writes the structs in it that are new.
    fn type_of(&mut self, schema: &Value, at: &str) -> Result<String, Box<dyn Error>> {
        match schema["type"].as_str().unwrap_or_default() {
            "string" => Ok("String".into()),
            "boolean" => Ok("bool".into()),
            "integer" if schema["format"] == "int64" => Ok("i64".into()),
            "integer" => Ok("i32".into()),
            "array" => Ok(format!("Vec<{}>", self.type_of(&schema["items"], &format!("{at}[]"))?)),
            "object" if schema["properties"].is_object() => self.object(schema, at),
            "object" if schema["additionalProperties"]["type"] == "string" => {
                Ok("BTreeMap<String, String>".into())
            }
            other => Err(format!("{at} has type \"{other}\"").into()),
        }
    }

    fn object(&mut self, schema: &Value, at: &str) -> Result<String, Box<dyn Error>> {
        let properties = schema["properties"].as_object().ok_or("an object without properties")?;
        let names: Vec<&str> = properties.keys().map(String::as_str).collect();
        if let Some((_, built_in)) = BUILT_IN.iter().find(|(fields, _)| *fields == names) {
            return Ok((*built_in).into());
        }
        let required = |name: &str| {
            schema["required"].as_array().is_some_and(|required| required.iter().any(|it| it == name))
        };
        let mut fields = String::new();
        for (name, property) in properties {
            let path = format!("{at}.{name}");
            let type_name = self.type_of(property, &path)?;
            let field_type =
                if BOXED.contains(&path.as_str()) { format!("Box<{type_name}>") } else { type_name };
            fields.push_str(&field(name, &field_type, required(name)));
        }
        for (_, name, earlier_type) in
            EARLIER.iter().filter(|(place, ..)| at.rsplit('.').next() == Some(place))
        {
            fields.push_str(&field(name, earlier_type, false));
        }
        if let Some(known) = self.by_fields.get(&fields) {
            return Ok((*known).into());
        }
        let mut names = NAMES.iter().chain([&PER_ANCESTOR]);
        let (_, name) = names.find(|(place, _)| *place == at).ok_or_else(|| format!("{at} has no name"))?;
        self.by_fields.insert(fields.clone(), name);
        let of_gateways = at.starts_with("Gateway") || at.starts_with("ListenerSet");
        write!(
            if of_gateways { &mut self.gateways } else { &mut self.routes },
            "
/// `{at}`, and what looks the same elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = \"camelCase\")]
pub struct {name} {{
{fields}}}
"
        )?;
        Ok((*name).into())
    }
}

/// A field: absent values are not written, except for required fields.
fn field(name: &str, type_name: &str, required: bool) -> String {
    let name_in_rust = field_name(name);
    let (of, skipped) = match type_name {
        of if required => (of.to_owned(), ""),
        of if of.starts_with("Vec<") => (of.to_owned(), "Vec::is_empty"),
        of if of.starts_with("BTreeMap<") => (of.to_owned(), "BTreeMap::is_empty"),
        of => (format!("Option<{of}>"), "Option::is_none"),
    };
    let mut attributes = Vec::new();
    if camel_case(&name_in_rust) != name {
        attributes.push(format!("rename = \"{name}\""));
    }
    if !skipped.is_empty() {
        attributes.push(format!("skip_serializing_if = \"{skipped}\""));
    }
    let attribute = match attributes.as_slice() {
        [] => String::new(),
        all => format!("    #[serde({})]\n", all.join(", ")),
    };
    format!("{attribute}    pub {name_in_rust}: {of},\n")
}

/// The name that serde derives from a field.
fn camel_case(snake_case: &str) -> String {
    let mut parts = snake_case.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| {
        let (letter, rest) = part.split_at(usize::from(!part.is_empty()));
        name + &letter.to_ascii_uppercase() + rest
    })
}

/// `HTTPRoute` as `HttpRoute`.
fn rust_name(kind: &str) -> String {
    ["HTTP", "GRPC", "TLS", "TCP", "UDP"].iter().fold(kind.to_owned(), |name, upper| {
        let (first, rest) = upper.split_at(1);
        name.replace(upper, &format!("{first}{}", rest.to_ascii_lowercase()))
    })
}

/// `caCertificateRefs` as `ca_certificate_refs`.
fn field_name(name: &str) -> String {
    let name = name.replace("CACertificates", "CaCertificates");
    let mut snake_case = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake_case.push('_');
        }
        snake_case.push(letter.to_ascii_lowercase());
    }
    if snake_case == "type" || snake_case == "where" { snake_case + "_" } else { snake_case }
}
