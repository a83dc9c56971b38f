//! Client certificates: `auth-tls-*`. They apply to all paths of a host, whichever Ingress sets them; the oldest
//! Ingress with a setting decides. Errors refuse every client (403), as in ingress-nginx.

use std::sync::Arc;

use fairway_model::{ClientCertificate, ClientCertificateMode, ClientVerification, redact_url};
use fairway_objects::certificate::secret_value;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::ObjectKey;
use fairway_objects::roots::{are_certificates, are_revocation_lists, unsupported_keys};
use fairway_pattern::Pattern;

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs, supported};
use crate::ingress::context::Context;
use crate::ingress::contributions::HostClients;
use crate::ingress::reader::{Annotations, Reader};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    contributions.host.clients = clients(reader, context);
    Ok(())
})
.with_references(|annotations, referenced| referenced.secrets.extend(secret(annotations)));

const ANNOTATIONS: &[KnownAnnotation] = &[
    differs("auth-tls-error-page", "http(s) URLs only; a path gives 400; `@name` is refused"),
    supported("auth-tls-match-cn"),
    supported("auth-tls-pass-certificate-to-upstream"),
    differs(
        "auth-tls-secret",
        "with `auth-tls-verify-client: on`, plain HTTP that is not redirected gets 403",
    ),
    differs(
        "auth-tls-verify-client",
        "`off`: the host's next Ingress with `auth-tls-secret` decides (ingress-nginx: nothing is required)",
    ),
    supported("auth-tls-verify-depth"),
];

/// ingress-nginx: default of `auth-tls-verify-depth`, also used for 0.
const DEFAULT_VERIFY_DEPTH: u8 = 1;

/// The Secret with the CA certificates, which may not exist. A name without a namespace, or in another one, is
/// refused.
fn secret(annotations: &Annotations<'_>) -> Option<ObjectKey> {
    let key = ObjectKey::parse(annotations.value("auth-tls-secret")?)?;
    (key.namespace == annotations.key.namespace).then_some(key)
}

fn clients(reader: &mut Reader<'_>, context: &Context<'_>) -> Option<HostClients> {
    let value = reader.value("auth-tls-secret").filter(|value| !value.is_empty())?;
    let demand = match reader.value("auth-tls-verify-client") {
        // It protects nothing, so a younger Ingress may still protect the host.
        Some("off") => return None,
        Some("optional") => ClientCertificateMode::Optional,
        Some("optional_no_ca") => ClientCertificateMode::Unverified,
        None | Some("" | "on") => ClientCertificateMode::Required,
        Some(other) => {
            let problem = format!("\"{other}\" is none of on, off, optional and optional_no_ca");
            reader.invalid("auth-tls-verify-client", problem, "it counts as on");
            ClientCertificateMode::Required
        }
    };
    let read = verification(&reader.annotations(), value, demand, context).and_then(|rules| {
        for key_problem in unsupported_keys(&rules.roots) {
            let found = Diagnostic::new(Severity::Warning, "unsupported-key", reader.at("auth-tls-secret"));
            let problem = format!("in ca.crt of Secret {value}, {key_problem}");
            reader.report(found.because(
                problem,
                "clients with it, or with certificates that it has issued, are not trusted",
            ));
        }
        let depth =
            reader.number("auth-tls-verify-depth", 0..=255).and_then(|depth| u8::try_from(depth).ok());
        let depth = Some(depth.filter(|depth| *depth > 0).unwrap_or(DEFAULT_VERIFY_DEPTH));
        Ok(ClientCertificate {
            rules: Arc::new(ClientVerification { depth, ..rules }),
            subject: subject(reader)?,
            error_page: error_page(reader)?,
            forwarded: reader.switch("auth-tls-pass-certificate-to-upstream", false),
        })
    });
    Some(match read {
        Ok(verification) => HostClients::Verified(verification),
        Err((name, code, problem)) => {
            let found = Diagnostic::new(Severity::Error, code, reader.at(name));
            reader.report(found.because(problem, "its hosts answer 403"));
            HostClients::Refused
        }
    })
}

/// A problem: annotation, diagnostic code and message.
type AnnotationProblem = (&'static str, &'static str, String);

fn verification(
    annotations: &Annotations<'_>,
    value: &str,
    demand: ClientCertificateMode,
    context: &Context<'_>,
) -> Result<ClientVerification, AnnotationProblem> {
    let invalid = |problem| ("auth-tls-secret", "invalid-protection", problem);
    let missing = |problem| ("auth-tls-secret", "missing-reference", problem);
    let Some(key) = secret(annotations) else {
        return Err(invalid(format!("\"{value}\" is no NAMESPACE/NAME in the namespace of the Ingress")));
    };
    let Some(secret) = context.inputs.resources.secrets.get(&key) else {
        return Err(missing(format!("Secret {key} does not exist")));
    };
    let text = |entry| match secret_value(&secret.object, entry).map(std::str::from_utf8) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text)),
        Some(Err(_)) => Err(invalid(format!("{entry} of Secret {key} is no text"))),
    };
    let Some(roots) = text("ca.crt")? else {
        return Err(missing(format!("Secret {key} has no ca.crt")));
    };
    let revoked = text("ca.crl")?.unwrap_or_default();
    if !are_certificates(roots) {
        return Err(invalid(format!(
            "ca.crt of Secret {key} has no certificate, or one that cannot be read"
        )));
    }
    if !are_revocation_lists(revoked) {
        return Err(invalid(format!("ca.crl of Secret {key} has no list, or one that cannot be read")));
    }
    Ok(ClientVerification { roots: roots.into(), revoked: revoked.into(), depth: None, demand })
}

/// A regular expression for the subject, starting with `CN=`.
fn subject(reader: &mut Reader<'_>) -> Result<Option<Arc<str>>, AnnotationProblem> {
    let name = "auth-tls-match-cn";
    let Some(value) = reader.value(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let wrong = |problem| (name, "invalid-protection", problem);
    if !value.starts_with("CN=") {
        return Err(wrong(format!("\"{value}\" does not begin with CN=")));
    }
    if let Err(why) = Pattern::anywhere(value, false) {
        return Err(wrong(format!("the regular expression \"{value}\" {why}")));
    }
    if !ends_at_common_name(value) {
        let found = Diagnostic::new(Severity::Note, "unanchored-subject", reader.at(name));
        let problem = format!("\"{value}\" does not say where the common name ends");
        let consequence = "certificates whose common name only begins like this pass too, and so do those that have this \
                           text in another part of their subject; (,|$) at the end of the expression rules out the first";
        reader.report(found.because(problem, consequence));
    }
    Ok(Some(value.into()))
}

/// Whether an expression ends where the common name ends: before the next part of the subject, or at its end.
fn ends_at_common_name(pattern: &str) -> bool {
    let ends = ["(,|$)", "($|,)", "(?:,|$)", "(?:$|,)", ","];
    ends.iter().any(|end| pattern.ends_with(end)) || pattern.ends_with('$') && !pattern.ends_with("\\$")
}

fn error_page(reader: &Reader<'_>) -> Result<Option<Arc<str>>, AnnotationProblem> {
    let name = "auth-tls-error-page";
    let Some(value) = reader.value(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let leads = ["http://", "https://", "/"].iter().any(|beginning| value.starts_with(beginning));
    let plain = value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&b));
    match leads && plain {
        true => Ok(Some(value.into())),
        false => Err((
            name,
            "invalid-protection",
            format!("\"{}\" is neither a URL nor a path", redact_url(value)),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_must_end_after_the_common_name() {
        for (pattern, ends) in [
            ("CN=admin", false),
            ("CN=(billing|stock)", false),
            ("CN=admin.*", false),
            ("CN=admin\\$", false),
            ("CN=admin$", true),
            ("CN=admin,", true),
            ("CN=(billing|stock)(,|$)", true),
            ("CN=admin(?:$|,)", true),
        ] {
            assert_eq!(ends_at_common_name(pattern), ends, "{pattern}");
        }
    }
}
