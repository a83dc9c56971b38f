//! Tokens, logins, API keys, authorization and rate limits: `fairway.dev/jwt`, `fairway.dev/oidc`,
//! `fairway.dev/api-key`, `fairway.dev/authorization` and `fairway.dev/rate-limits`, with fields of a SecurityPolicy
//! as JSON. Unreadable values close the paths.

use fairway_model::{FixedResponseReason, Origin};
use fairway_objects::annotations::parse_policy_field;
use fairway_objects::backend::BackendPurpose;
use fairway_objects::diagnostic::{Diagnostic, Severity};
use fairway_objects::identity::{Context as IdentityContext, Identity, IdentitySpec};
use fairway_objects::object::{Kind, ObjectKey};
use fairway_objects::policies::{ApiKey, Authorization, Jwt, Oidc, RateLimit};
use fairway_objects::references::ReferencedObjects;
use serde::Deserialize;

use crate::ingress::closed::{self, Closed};
use crate::ingress::context::Context;
use crate::ingress::contributions::Contributions;
use crate::ingress::fairway_annotations::OWN_PREFIX;
use crate::ingress::reader::{Annotations, Reader};

/// The annotations and their SecurityPolicy fields.
const ANNOTATION_FIELDS: [(&str, &str); 4] =
    [("jwt", "jwt"), ("oidc", "oidc"), ("api-key", "apiKey"), ("authorization", "authorization")];

/// The annotation values.
#[derive(Default)]
struct IdentityValues {
    jwt: Option<Jwt>,
    oidc: Option<Oidc>,
    api_key: Option<ApiKey>,
    authorization: Option<Authorization>,
    rate_limits: RateLimits,
    counted_as: String,
}

/// The annotation with rate limits: an object, like the others.
#[derive(Default, Deserialize)]
struct RateLimits {
    limits: Vec<RateLimit>,
}

impl IdentityValues {
    /// Reads the values; `wrong` gets the name and problem of unreadable annotations.
    fn read(annotations: &Annotations<'_>, mut wrong: impl FnMut(&'static str, String)) -> Self {
        Self {
            jwt: value(annotations, "jwt", parse_policy_field, &mut wrong),
            oidc: value(annotations, "oidc", parse_policy_field, &mut wrong),
            api_key: value(annotations, "api-key", parse_policy_field, &mut wrong),
            authorization: value(annotations, "authorization", parse_policy_field, &mut wrong),
            rate_limits: value(annotations, "rate-limits", parse_policy_field, &mut wrong)
                .unwrap_or_default(),
            counted_as: format!("Ingress/{}", annotations.key),
        }
    }

    fn written(&self) -> IdentitySpec<'_> {
        IdentitySpec {
            jwt: self.jwt.as_ref(),
            oidc: self.oidc.as_ref(),
            api_key: self.api_key.as_ref(),
            authorization: self.authorization.as_ref(),
            rate_limits: &self.rate_limits.limits,
            counted_as: &self.counted_as,
        }
    }
}

fn value<T>(
    annotations: &Annotations<'_>,
    name: &'static str,
    read: fn(&str) -> Result<T, String>,
    wrong: &mut impl FnMut(&'static str, String),
) -> Option<T> {
    let value = Annotations { prefix: OWN_PREFIX, ..*annotations }.value(name)?;
    read(value).map_err(|problem| wrong(name, problem)).ok()
}

/// Adds the objects that they reference.
pub(crate) fn refer(annotations: &Annotations<'_>, referenced: &mut ReferencedObjects) {
    let values = IdentityValues::read(annotations, |_, _| {});
    for object in values.written().referenced_objects(&annotations.key.namespace) {
        match object.kind {
            Kind::Secret => referenced.secrets.insert(object.key),
            _ => referenced.config_maps.insert(object.key),
        };
    }
    referenced.services.extend(values.written().services());
}

/// Reads the values, and adds the backends that publish keys.
///
/// # Errors
/// One of them is unusable; it has a diagnostic.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    context: &Context<'_>,
    contributions: &mut Contributions,
) -> Result<Identity, Closed> {
    let mut problems = Vec::new();
    let values = IdentityValues::read(&reader.annotations(), |name, problem| problems.push((name, problem)));
    let unreadable = !problems.is_empty();
    for (name, problem) in problems {
        refuse(reader, name, problem);
    }
    if unreadable {
        return Err(Closed(FixedResponseReason::ProtectionUnavailable));
    }
    let own_namespace = &reader.key.namespace;
    let permits = |kind: Kind, key: &ObjectKey| match key.namespace == *own_namespace {
        true => Ok(()),
        false => Err(format!("{} {key} is in another namespace", kind.name())),
    };
    let namespace = &reader.key.namespace;
    let resources = context.inputs.resources;
    let read = values.written().read(IdentityContext { resources, namespace, permits: &permits });
    let identity = match read {
        Ok(identity) => identity,
        Err(mistake) => {
            let (name, field) = annotation_of_field(&mistake.field);
            let problem = match &*field {
                "" => mistake.problem,
                field => format!("{field}: {}", mistake.problem),
            };
            if !mistake.is_missing {
                refuse(reader, name, problem);
                return Err(Closed(FixedResponseReason::ProtectionUnavailable));
            }
            let found = Diagnostic::new(Severity::Error, "missing-reference", origin(reader, name));
            reader.report(found.because(problem, closed::CLOSED_CONSEQUENCE));
            return Err(Closed(FixedResponseReason::MissingReference));
        }
    };
    for doubt in &identity.doubts {
        let (name, field) = annotation_of_field(&doubt.field);
        let found = Diagnostic::new(Severity::Warning, doubt.code, origin(reader, name));
        reader.report(found.because(format!("{field}: {}", doubt.problem), doubt.consequence));
    }
    for it in &identity.backends {
        let origin = origin(reader, annotation_of_field(&it.field).0);
        contributions.added.name_backend(it.backend.clone(), origin, BackendPurpose::Keys);
    }
    Ok(identity)
}

/// The annotation that contains a field, and the field in it.
fn annotation_of_field(field: &str) -> (&'static str, String) {
    if let Some(rest) = field.strip_prefix("rateLimits") {
        return ("rate-limits", format!("limits{rest}"));
    }
    let within = |(name, prefix): &(&'static str, &str)| Some((*name, field.strip_prefix(prefix)?));
    let (name, rest) = ANNOTATION_FIELDS.iter().find_map(within).unwrap_or((ANNOTATION_FIELDS[0].0, field));
    (name, rest.strip_prefix('.').unwrap_or(rest).to_owned())
}

fn origin(reader: &Reader<'_>, name: &str) -> Origin {
    reader.field_origin(&format!("metadata.annotations[\"{OWN_PREFIX}/{name}\"]"))
}

fn refuse(reader: &mut Reader<'_>, name: &str, problem: String) {
    let found = Diagnostic::new(Severity::Error, "invalid-annotation", origin(reader, name));
    reader.report(found.because(problem, closed::CLOSED_CONSEQUENCE));
}
