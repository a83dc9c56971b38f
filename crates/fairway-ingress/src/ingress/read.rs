//! Reads one Ingress by itself: its class, hosts, contributions and references.

use std::sync::Arc;

use fairway_model::{FixedResponseReason, HostPattern, WildcardSpan};
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::object::{ObjectKey, Sourced};
use fairway_objects::references::ReferencedObjects;
use fairway_objects::resources::Resources;
use k8s_openapi::api::networking::v1::Ingress;

use crate::ingress::annotations::read as annotations;
use crate::ingress::annotations::refusal::{Refusal, refusal};
use crate::ingress::class::Classes;
use crate::ingress::closed::Closed;
use crate::ingress::context::Context;
use crate::ingress::pattern::Patterns;
use crate::ingress::reader::Reader;
use crate::ingress::served::ServedIngress;
use crate::ingress::shared_hosts::SharedHosts;
use crate::ingress::{compat, passthrough, referenced, validation};

/// The result of reading an Ingress.
#[derive(Debug, Default)]
pub(crate) struct IngressReading {
    pub(crate) served: Option<ServedIngress>,
    pub(crate) referenced: ReferencedObjects,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Reads an Ingress.
pub(crate) fn read(
    key: &ObjectKey,
    object: &Sourced<Ingress>,
    classes: &Classes,
    context: &Context<'_>,
) -> IngressReading {
    let mut reader = Reader::new(key, object, &context.inputs.options.annotations_prefix);
    let selection = classes.selection(&object.object);
    selection.report(&mut reader);
    if !selection.is_served() {
        return IngressReading { diagnostics: reader.diagnostics, ..IngressReading::default() };
    }
    let mut referenced = referenced::references_of_ingress(&reader.annotations());
    let refusal = refusal(&mut reader, context);
    if refusal == Refusal::NotServed {
        return IngressReading { served: None, referenced, diagnostics: reader.diagnostics };
    }
    let rules = rules(&mut reader);
    report_missing_secrets(&mut reader, context.inputs.resources);
    validation::check(&mut reader);
    let compat = compat::read(&mut reader, context.inputs.options.hosts.compat);
    let shared_hosts = SharedHosts::read(&mut reader);
    let earlier = reader.diagnostics.len();
    let mut contributions = annotations::contributions(&mut reader, context);
    passthrough::close_protected(&mut reader, context, &mut contributions);
    if refusal == Refusal::Closed {
        // The rest determines which requests belong to the Ingress, and its problems will matter once the paths are
        // open.
        reader.diagnostics.truncate(earlier);
        contributions.closed = Some(Closed(FixedResponseReason::Refused));
    }
    for named in contributions.added.backends() {
        referenced.services.extend(named.backend.service_key().cloned());
        referenced.addresses.extend(named.backend.url_address());
    }
    referenced.certificates.extend(contributions.upstream.transport.client_certificate().cloned());
    let patterns = Patterns::from_paths(object.object.spec.as_ref(), &contributions);
    let served = Some(ServedIngress {
        key: key.clone(),
        object: object.clone(),
        created: object.object.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second()),
        rules,
        compat,
        shared_hosts,
        contributions: Arc::new(contributions),
        patterns,
    });
    IngressReading { served, referenced, diagnostics: reader.diagnostics }
}

fn rules(reader: &mut Reader<'_>) -> Vec<(HostPattern, usize)> {
    let spec = reader.ingress.object.spec.as_ref();
    let mut rules = Vec::new();
    for (at, rule) in spec.and_then(|spec| spec.rules.as_ref()).into_iter().flatten().enumerate() {
        let host = rule.host.as_deref().unwrap_or_default();
        match HostPattern::parse(host, WildcardSpan::OneLabel) {
            Ok(pattern) => rules.push((pattern, at)),
            Err(error) => {
                let origin = reader.field_origin(&format!("spec.rules[{at}].host"));
                let found = Diagnostic::new(Severity::Error, "invalid-host", origin);
                reader.report(found.because(format!("\"{host}\" {error}"), "the rule is not served"));
            }
        }
    }
    rules.shrink_to_fit();
    rules
}

/// Reports missing Secrets of `spec.tls`; problems with their content are reported with the certificate.
fn report_missing_secrets(reader: &mut Reader<'_>, resources: &Resources) {
    let tls = reader.ingress.object.spec.as_ref().and_then(|spec| spec.tls.as_ref());
    for (at, name) in tls.into_iter().flatten().map(|tls| tls.secret_name.as_deref()).enumerate() {
        let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
        let key = ObjectKey { namespace: reader.key.namespace.clone(), name: name.into() };
        if !resources.secrets.contains_key(&key) {
            let origin = reader.field_origin(&format!("spec.tls[{at}].secretName"));
            let found = Diagnostic::new(Severity::Error, "missing-reference", origin);
            reader.report(found.because(
                format!("Secret {key} does not exist"),
                "the default certificate is shown to clients of its hosts",
            ));
        }
    }
}
