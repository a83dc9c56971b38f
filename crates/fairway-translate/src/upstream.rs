//! What is spoken to the pods: `backend-protocol` and `proxy-ssl-*`.

use std::sync::Arc;

use fairway_model::{CertificateKey, UpstreamTls, UpstreamVerification};

use crate::annotation::{Annotated, Reader, switch};
use crate::certificate::{self, secret_value};
use crate::diagnostic::Severity;
use crate::plan::{Closed, Context};
use crate::resources::{ObjectKey, Sourced};
use k8s_openapi::api::core::v1::Secret;

/// What an Ingress wants to be spoken to its Services.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) enum Wish {
    /// HTTP in the clear.
    #[default]
    Plain,
    /// HTTP over TLS.
    Tls(TlsWish),
}

/// How TLS is spoken; names that are absent are made of the Service's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct TlsWish {
    /// The name of the backend's certificate and of SNI.
    name: Option<Arc<str>>,
    sni: Sni,
    /// The Secret, by which backends are told apart.
    secret: Option<ObjectKey>,
    /// The trusted roots as PEM, where the certificate is verified.
    roots: Option<Arc<str>>,
    /// Whether the Secret has a certificate to show.
    client: Client,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
enum Sni {
    #[default]
    Off,
    On,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
enum Client {
    #[default]
    Nameless,
    Shows,
}

/// The Secret that an Ingress names for its upstream TLS.
pub(crate) fn secret(ingress: &Annotated<'_>) -> Option<ObjectKey> {
    ObjectKey::parse(ingress.value("proxy-ssl-secret")?)
}

/// Reads the protocol and its TLS.
pub(crate) fn read(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<Wish, Closed> {
    let name = "backend-protocol";
    let value = reader.value(name).unwrap_or("HTTP").to_ascii_uppercase();
    match value.as_str() {
        "HTTP" => Ok(Wish::Plain),
        "HTTPS" => tls(reader, context).map(Wish::Tls),
        "GRPC" | "GRPCS" | "FCGI" | "AUTO_HTTP" => {
            Err(Closed::unsupported(reader, name, format!("{value} is not spoken yet")))
        }
        // As recorded: backend-protocol-bad.
        _ => {
            reader.invalid(name, format!("\"{value}\" is no protocol (HTTP, HTTPS)"), "HTTP is spoken");
            Ok(Wish::Plain)
        }
    }
}

/// ingress-nginx reads the other `proxy-ssl-*` only beside `proxy-ssl-secret`; a wish to verify without it is refused
/// here, because nothing would be verified.
fn tls(reader: &mut Reader<'_>, context: &Context<'_>) -> Result<TlsWish, Closed> {
    let verify = on(reader, "proxy-ssl-verify");
    let Some(value) = reader.value("proxy-ssl-secret") else {
        if verify {
            let problem = "there is no proxy-ssl-secret with the authorities to verify with".to_owned();
            return Err(Closed::missing(reader, "proxy-ssl-verify", problem));
        }
        return Ok(TlsWish::default());
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
    let client = match text("tls.crt").map(|_| certificate::read(&key, secret)) {
        None => Client::Nameless,
        Some(Ok(_)) => Client::Shows,
        Some(Err(problem)) => {
            let problem = format!("Secret {key}: {problem}");
            return Err(Closed::invalid(reader, "proxy-ssl-secret", problem));
        }
    };
    let sni = if on(reader, "proxy-ssl-server-name") { Sni::On } else { Sni::Off };
    let name = reader.value("proxy-ssl-name").filter(|name| !name.is_empty()).map(Arc::from);
    Ok(TlsWish { name, sni, secret: Some(key), roots, client })
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
    match context.resources.secrets.get(&key) {
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
            let found = (format!("\"{other}\" is neither on nor off"), "it counts as on".to_owned());
            reader.note(Severity::Warning, "invalid-annotation", name, found);
            true
        }),
    }
}

impl Wish {
    /// What tells backends of the same Service and port apart; empty for plain HTTP.
    pub(crate) fn suffix(&self) -> String {
        let Self::Tls(tls) = self else { return String::new() };
        let mut suffix = ";https".to_owned();
        let mut add = |name: &str, value: &str| suffix.extend([";", name, "=", value]);
        if let Some(secret) = &tls.secret {
            add("secret", &secret.to_string());
        }
        if let Some(name) = &tls.name {
            add("name", name);
        }
        if tls.sni == Sni::On {
            add("sni", "on");
        }
        if tls.roots.is_some() {
            add("verify", "on");
        }
        suffix
    }

    /// The TLS towards the pods of `service`.
    pub(crate) fn tls(&self, service: &ObjectKey) -> Option<UpstreamTls> {
        let Self::Tls(tls) = self else { return None };
        let named = || format!("{}.{}.svc", service.name, service.namespace).into();
        let name: Arc<str> = tls.name.clone().unwrap_or_else(named);
        Some(UpstreamTls {
            server_name: (tls.sni == Sni::On).then(|| name.clone()),
            verification: match &tls.roots {
                Some(roots) => UpstreamVerification::Chain { roots: roots.clone(), name },
                None => UpstreamVerification::Off,
            },
            client_certificate: self.client_certificate().map(|key| CertificateKey(key.to_string().into())),
        })
    }

    /// The Secret with the certificate that is shown to the pods.
    pub(crate) fn client_certificate(&self) -> Option<&ObjectKey> {
        match self {
            Self::Tls(TlsWish { secret, client: Client::Shows, .. }) => secret.as_ref(),
            _ => None,
        }
    }
}
