//! What is spoken to the pods: `backend-protocol` and `proxy-ssl-*`.

use std::sync::Arc;

use fairway_model::Filter;
use k8s_openapi::api::core::v1::Secret;

use crate::ingress::annotations::family::{Family, Known, differs, done, offers};
use crate::ingress::closed::Closed;
use crate::ingress::context::Context;
use crate::ingress::contributions::Phase;
use crate::ingress::reader::{Annotations, Reader};
use crate::object::{ObjectKey, Sourced};
use crate::shared::certificate::{self, secret_value};
use crate::shared::text::switch;
use crate::shared::transport::{ClientCertificate, Sni, TlsOrigination, Transport};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    contributions.transport = transport(reader, context)?;
    if contributions.transport.is_grpc() {
        contributions.filters.push(Phase::Forward, Filter::GrpcWeb);
    }
    Ok(())
})
.referring(|annotations, referenced| referenced.secrets.extend(secret(annotations)));

const ANNOTATIONS: &[Known] = &[
    differs(
        "backend-protocol",
        "HTTP, HTTPS, GRPC and GRPCS; with the last two, gRPC-Web is translated ([gRPC](grpc.md#grpc-web)). FCGI and AUTO_HTTP answer 503",
    ),
    offers("fastcgi-index", "FastCGI is not spoken", &[]),
    offers("fastcgi-params-configmap", "FastCGI is not spoken", &[]),
    offers("proxy-http-version", "HTTP/1.1 is spoken to the backend", &["1.1"]),
    offers("proxy-ssl-ciphers", "the cipher suites of rustls are offered to the backend", &[]),
    differs(
        "proxy-ssl-name",
        "where it is absent the name is `<service>.<namespace>.svc`; ingress-nginx would take `upstream_balancer`",
    ),
    offers("proxy-ssl-protocols", "TLS 1.2 and 1.3 are offered to the backend", &[]),
    done("proxy-ssl-secret"),
    done("proxy-ssl-server-name"),
    differs(
        "proxy-ssl-verify",
        "`on` without `proxy-ssl-secret` or its `ca.crt` answers 503; ingress-nginx would not verify",
    ),
    offers("proxy-ssl-verify-depth", "the length of the backend's certificate chain is not limited", &[]),
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
        "FCGI" | "AUTO_HTTP" => Err(Closed::unsupported(reader, name, format!("{value} is not spoken yet"))),
        // As recorded: backend-protocol-bad.
        _ => {
            reader.invalid(name, format!("\"{value}\" is no protocol (HTTP, HTTPS)"), "HTTP is spoken");
            Ok(Transport::Plain)
        }
    }
}

/// ingress-nginx reads the other `proxy-ssl-*` only beside `proxy-ssl-secret`; an Ingress that asks to verify without it is
/// refused here, because nothing would be verified.
fn tls(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<TlsOrigination, Closed> {
    let verify = on(reader, "proxy-ssl-verify");
    let Some(value) = reader.value("proxy-ssl-secret") else {
        if verify {
            let problem = "there is no proxy-ssl-secret with the authorities to verify with".to_owned();
            return Err(Closed::missing(reader, "proxy-ssl-verify", problem));
        }
        return Ok(TlsOrigination::default());
    };
    let (key, secret) = named_secret(reader, context, value)?;
    let text =
        |entry| secret_value(&secret.object, entry).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
    let roots = match (verify, text("ca.crt")) {
        (false, _) => None,
        (true, Some(roots)) => Some(Arc::from(roots)),
        (true, None) => {
            let problem = format!("Secret {key} has no ca.crt to verify with");
            return Err(Closed::missing(reader, "proxy-ssl-verify", problem));
        }
    };
    let client_certificate = match text("tls.crt").map(|_| certificate::read(&key, secret)) {
        None => ClientCertificate::None,
        Some(Ok(_)) => ClientCertificate::Sent,
        Some(Err(problem)) => {
            let problem = format!("Secret {key}: {problem}");
            return Err(Closed::invalid(reader, "proxy-ssl-secret", problem));
        }
    };
    let sni = if on(reader, "proxy-ssl-server-name") { Sni::On } else { Sni::Off };
    let name = reader.value("proxy-ssl-name").filter(|name| !name.is_empty()).map(Arc::from);
    Ok(TlsOrigination { name, sni, secret: Some(key), roots, client_certificate })
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
