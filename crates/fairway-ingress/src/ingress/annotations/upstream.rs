//! Upstream protocol: `backend-protocol`, `proxy-ssl-*`, `proxy-http-version`, `connection-proxy-header`.

use std::sync::Arc;

use fairway_model::{ConnectionHeader, Forwarding, Http1Options, TlsVersions};
use fairway_objects::annotations::text::parse_bool;
use fairway_objects::certificate::{self, secret_value};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{ObjectKey, Sourced};
use fairway_objects::roots::{are_certificates, unsupported_keys};
use fairway_objects::transport::{TlsOrigination, Transport};
use k8s_openapi::api::core::v1::Secret;

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs, missing_feature, supported};
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
    let hop = http1_options(reader, context);
    if hop != Http1Options::default() {
        contributions.added.add(Forwarding { hop, ..Forwarding::default() });
    }
    Ok(())
})
.with_references(|annotations, referenced| referenced.secrets.extend(secret(annotations)));

const ANNOTATIONS: &[KnownAnnotation] = &[
    differs("backend-protocol", "GRPC and GRPCS with [gRPC-Web](grpc.md#grpc-web); FCGI gives 503"),
    differs("connection-proxy-header", "not for WebSocket handshakes"),
    missing_feature("fastcgi-index", "FastCGI is not spoken", &[]),
    missing_feature("fastcgi-params-configmap", "FastCGI is not spoken", &[]),
    differs("proxy-http-version", "not for WebSocket handshakes and bodies of unknown length"),
    differs("proxy-ssl-ciphers", "TLS 1.2: only the six suites with ECDHE and AES-GCM or ChaCha20"),
    differs("proxy-ssl-name", "default `<service>.<namespace>.svc` (ingress-nginx: `upstream_balancer`)"),
    differs("proxy-ssl-protocols", "default TLS 1.2 and 1.3 (ingress-nginx: 1.2)"),
    differs("proxy-ssl-secret", "applies to its own Ingress only"),
    supported("proxy-ssl-server-name"),
    differs(
        "proxy-ssl-verify",
        "`on` without `ca.crt` in `proxy-ssl-secret` gives 503 (ingress-nginx does not verify)",
    ),
    differs("proxy-ssl-verify-depth", "default: no limit (ingress-nginx: 1)"),
];

/// The Secret that an Ingress references for upstream TLS.
fn secret(annotations: &Annotations<'_>) -> Option<ObjectKey> {
    ObjectKey::parse(annotations.value("proxy-ssl-secret")?)
}

/// Reads the protocol and its TLS settings.
fn transport(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<Transport, Closed> {
    let name = "backend-protocol";
    let value = reader.value(name).unwrap_or("HTTP").to_ascii_uppercase();
    match value.as_str() {
        "HTTP" => Ok(Transport::Plain),
        "HTTPS" => tls_origination(reader, context).map(Transport::Tls),
        "GRPC" => Ok(Transport::H2c),
        "GRPCS" => tls_origination(reader, context).map(Transport::H2),
        "AUTO_HTTP" => tls_origination(reader, context).map(Transport::AsClient),
        "FCGI" => Err(Closed::unsupported(reader, name, format!("{value} is not spoken yet"))),
        // As recorded: backend-protocol-bad.
        _ => {
            reader.invalid(name, format!("\"{value}\" is no protocol (HTTP, HTTPS)"), "HTTP is spoken");
            Ok(Transport::Plain)
        }
    }
}

/// ingress-nginx reads the other `proxy-ssl-*` annotations only with `proxy-ssl-secret`. An Ingress that requires
/// verification without it is refused here, because nothing would be verified.
pub(super) fn tls_origination(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
) -> Result<Arc<TlsOrigination>, Closed> {
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
    // ingress-nginx uses its default for 0.
    let depth = depth.and_then(|depth| u32::try_from(depth.max(1)).ok());
    let secret = Some(key);
    Ok(Arc::new(TlsOrigination { name, sni, secret, roots, sends_certificate, versions, suites, depth }))
}

/// The CA certificates for endpoints: `ca.crt` of the Secret.
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
fn http1_options(reader: &mut Reader<'_>, context: &Context<'_>) -> Http1Options {
    let version = value(reader, &context.defaults.values, "proxy-http-version", http_version);
    let name = "connection-proxy-header";
    let connection = match reader.value(name) {
        None | Some("") => ConnectionHeader::Unsaid,
        Some("close") => ConnectionHeader::Close,
        Some("keep-alive") => ConnectionHeader::KeepAlive,
        Some(other) => {
            reader.invalid(name, format!("\"{other}\" is neither close nor keep-alive"), "nothing is said");
            ConnectionHeader::Unsaid
        }
    };
    Http1Options { version: version.unwrap_or_default(), connection }
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

/// `on`, `off`, or a Go boolean.
fn on(reader: &mut Reader<'_>, name: &str) -> bool {
    match reader.value(name) {
        None | Some("off") => false,
        Some("on") => true,
        Some(other) => parse_bool(other).unwrap_or_else(|| {
            reader.invalid(name, format!("\"{other}\" is neither on nor off"), "it counts as on");
            true
        }),
    }
}
