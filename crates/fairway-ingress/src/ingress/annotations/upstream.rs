//! What is spoken to the pods: `backend-protocol`, `proxy-ssl-*`, `proxy-http-version`, `connection-proxy-header`.

use std::sync::Arc;

use fairway_model::{EndpointHop, Forwarding, HopConnection, TlsVersions};
use fairway_objects::annotations::text::switch;
use fairway_objects::certificate::{self, secret_value};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{ObjectKey, Sourced};
use fairway_objects::roots::{are_certificates, unsupported_keys};
use fairway_objects::transport::{TlsOrigination, Transport};
use k8s_openapi::api::core::v1::Secret;

use crate::ingress::annotations::family::{Family, Known, differs, done, offers};
use crate::ingress::annotations::server::suites;
use crate::ingress::closed::Closed;
use crate::ingress::context::Context;
use crate::ingress::reader::{Annotations, Reader};
use crate::ingress::values::{http_version, value};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    contributions.upstream.transport = transport(reader, context)?;
    if contributions.upstream.transport.is_grpc() {
        contributions.added.add(Forwarding { grpc_web: true, ..Forwarding::default() });
    }
    let hop = hop(reader, context);
    if hop != EndpointHop::default() {
        contributions.added.add(Forwarding { hop, ..Forwarding::default() });
    }
    Ok(())
})
.referring(|annotations, referenced| referenced.secrets.extend(secret(annotations)));

const ANNOTATIONS: &[Known] = &[
    differs(
        "backend-protocol",
        "HTTP, HTTPS, AUTO_HTTP, GRPC and GRPCS; with the last two, gRPC-Web is translated ([gRPC](grpc.md#grpc-web)). FCGI answers 503",
    ),
    differs("connection-proxy-header", "WebSocket handshakes keep their own"),
    offers("fastcgi-index", "FastCGI is not spoken", &[]),
    offers("fastcgi-params-configmap", "FastCGI is not spoken", &[]),
    differs(
        "proxy-http-version",
        "with `1.0`, WebSocket handshakes and bodies of unknown length are sent with HTTP/1.1 all the same",
    ),
    differs(
        "proxy-ssl-ciphers",
        "of TLS 1.2 the six suites with ECDHE and AES-GCM or ChaCha20 are spoken; a diagnostic names others",
    ),
    differs(
        "proxy-ssl-name",
        "where it is absent the name is `<service>.<namespace>.svc`; ingress-nginx would take `upstream_balancer`",
    ),
    differs(
        "proxy-ssl-protocols",
        "without it TLS 1.2 and 1.3 are offered; ingress-nginx would offer TLS 1.2",
    ),
    differs(
        "proxy-ssl-secret",
        "applies to the paths of its own Ingress, as in ingress-nginx with `proxy-ssl-location-only: \"true\"`; without that key, the \
         oldest one of the host would apply to all of its paths",
    ),
    done("proxy-ssl-server-name"),
    differs(
        "proxy-ssl-verify",
        "`on` without `proxy-ssl-secret` or its `ca.crt` answers 503; ingress-nginx would not verify",
    ),
    differs("proxy-ssl-verify-depth", "without it chains may have any length; ingress-nginx would allow 1"),
];

/// The Secret that an Ingress names for its upstream TLS.
fn secret(annotations: &Annotations<'_>) -> Option<ObjectKey> {
    ObjectKey::parse(annotations.value("proxy-ssl-secret")?)
}

/// Reads the protocol and its TLS.
fn transport(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<Transport, Closed> {
    let name = "backend-protocol";
    let value = reader.value(name).unwrap_or("HTTP").to_ascii_uppercase();
    match value.as_str() {
        "HTTP" => Ok(Transport::Plain),
        "HTTPS" => tls(reader, context).map(Transport::Tls),
        "GRPC" => Ok(Transport::H2c),
        "GRPCS" => tls(reader, context).map(Transport::H2),
        "AUTO_HTTP" => tls(reader, context).map(Transport::AsClient),
        "FCGI" => Err(Closed::unsupported(reader, name, format!("{value} is not spoken yet"))),
        // As recorded: backend-protocol-bad.
        _ => {
            reader.invalid(name, format!("\"{value}\" is no protocol (HTTP, HTTPS)"), "HTTP is spoken");
            Ok(Transport::Plain)
        }
    }
}

/// ingress-nginx reads the other `proxy-ssl-*` only beside `proxy-ssl-secret`; an Ingress that asks to verify without it is
/// refused here, because nothing would be verified.
pub(super) fn tls(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<Arc<TlsOrigination>, Closed> {
    let verify = on(reader, "proxy-ssl-verify");
    let Some(value) = reader.value("proxy-ssl-secret") else {
        if verify {
            let problem = "there is no proxy-ssl-secret with the authorities to verify with".to_owned();
            return Err(Closed::missing(reader, "proxy-ssl-verify", problem));
        }
        return Ok(Arc::default());
    };
    let (key, secret) = named_secret(reader, context, value)?;
    let text =
        |entry| secret_value(&secret.object, entry).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
    let roots = match verify {
        false => None,
        true => Some(roots(reader, &key, text("ca.crt"))?),
    };
    let sends_certificate = match text("tls.crt").map(|_| certificate::read(&key, secret)) {
        None => false,
        Some(Ok(_)) => true,
        Some(Err(problem)) => {
            let problem = format!("Secret {key}: {problem}");
            return Err(Closed::invalid(reader, "proxy-ssl-secret", problem));
        }
    };
    let sni = on(reader, "proxy-ssl-server-name");
    let name = reader.value("proxy-ssl-name").filter(|name| !name.is_empty()).map(Arc::from);
    let (versions, suites) = (versions(reader), suites(reader, "proxy-ssl-ciphers"));
    let depth = reader.number("proxy-ssl-verify-depth", 0..=u64::from(u32::MAX));
    // ingress-nginx takes 0 for its default.
    let depth = depth.and_then(|depth| u32::try_from(depth.max(1)).ok());
    let secret = Some(key);
    Ok(Arc::new(TlsOrigination { name, sni, secret, roots, sends_certificate, versions, suites, depth }))
}

/// The certificates that endpoints are verified by, which are `ca.crt` of the Secret.
fn roots(reader: &mut Reader<'_>, key: &ObjectKey, text: Option<String>) -> Result<Arc<str>, Closed> {
    let name = "proxy-ssl-secret";
    let Some(roots) = text else {
        let problem = format!("Secret {key} has no ca.crt to verify with");
        return Err(Closed::missing(reader, "proxy-ssl-verify", problem));
    };
    if !are_certificates(&roots) {
        let problem = format!("ca.crt of Secret {key} has no certificate, or one that cannot be read");
        return Err(Closed::invalid(reader, name, problem));
    }
    for key_problem in unsupported_keys(&roots) {
        let found = Diagnostic::new(Severity::Warning, "unsupported-key", reader.at(name));
        let problem = format!("in ca.crt of Secret {key}, {key_problem}");
        reader.report(found.because(
            problem,
            "requests to endpoints with it, or with certificates that it has issued, get 502",
        ));
    }
    Ok(roots.into())
}

/// Reads `proxy-ssl-protocols`.
fn versions(reader: &mut Reader<'_>) -> TlsVersions {
    let name = "proxy-ssl-protocols";
    let Some(value) = reader.value(name) else { return TlsVersions::Both };
    let mut words: Vec<_> = value.split_ascii_whitespace().collect();
    words.sort_unstable();
    words.dedup();
    match *words {
        [] | ["TLSv1.2", "TLSv1.3"] => TlsVersions::Both,
        ["TLSv1.2"] => TlsVersions::Only12,
        ["TLSv1.3"] => TlsVersions::Only13,
        _ => {
            let problem = format!("\"{value}\" is not a list of TLSv1.2 and TLSv1.3");
            reader.invalid(name, problem, "both are offered");
            TlsVersions::Both
        }
    }
}

/// Reads `proxy-http-version` and `connection-proxy-header`.
fn hop(reader: &mut Reader<'_>, context: &Context<'_>) -> EndpointHop {
    let version = value(reader, &context.defaults.values, "proxy-http-version", http_version);
    let name = "connection-proxy-header";
    let connection = match reader.value(name) {
        None | Some("") => HopConnection::Unsaid,
        Some("close") => HopConnection::Close,
        Some("keep-alive") => HopConnection::KeepAlive,
        Some(other) => {
            reader.invalid(name, format!("\"{other}\" is neither close nor keep-alive"), "nothing is said");
            HopConnection::Unsaid
        }
    };
    EndpointHop { version: version.unwrap_or_default(), connection }
}

fn named_secret<'r>(
    reader: &mut Reader<'_>,
    context: &Context<'r>,
    value: &str,
) -> Result<(ObjectKey, &'r Sourced<Secret>), Closed> {
    let name = "proxy-ssl-secret";
    let Some(key) = ObjectKey::parse(value) else {
        return Err(Closed::invalid(reader, name, format!("\"{value}\" is not namespace/name")));
    };
    if key.namespace != reader.key.namespace {
        return Err(Closed::invalid(reader, name, format!("Secret {key} is in another namespace")));
    }
    match context.inputs.resources.secrets.get(&key) {
        Some(secret) => Ok((key, secret)),
        None => Err(Closed::missing(reader, name, format!("Secret {key} does not exist"))),
    }
}

/// `on` or `off`, and what Go takes for a switch.
fn on(reader: &mut Reader<'_>, name: &str) -> bool {
    match reader.value(name) {
        None | Some("off") => false,
        Some("on") => true,
        Some(other) => switch(other).unwrap_or_else(|| {
            reader.invalid(name, format!("\"{other}\" is neither on nor off"), "it counts as on");
            true
        }),
    }
}
