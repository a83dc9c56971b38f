//! Request mirroring: `mirror-target`, `mirror-host`, `mirror-request-body`. Copies go to the endpoints of the
//! Service that the URL names by name or address, else to the URL's host.

use std::net::IpAddr;
use std::sync::Arc;

use fairway_model::{Mirror, MirrorTarget, UrlScheme, redact_url};
use fairway_objects::backend::BackendPurpose;
use fairway_objects::references::ReferencedObjects;
use fairway_objects::service_url::UrlHost;

use crate::ingress::annotations::family::{Family, KnownAnnotation, differs, supported};
use crate::ingress::reader::{Annotations, Reader};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    let name = "mirror-target";
    let Some(text) = reader.value(name).filter(|text| !text.is_empty()) else { return Ok(()) };
    let target = match MirrorUrl::read(text) {
        Ok(target) => target,
        Err(problem) => {
            reader.invalid(name, problem, "no request is copied");
            return Ok(());
        }
    };
    let backend = target.host.backend(context.inputs.resources, BackendPurpose::Mirror);
    let mirror = Mirror {
        backend: backend.key.clone(),
        numerator: 1,
        denominator: 1,
        max_body: if copies_bodies(reader) { u64::MAX } else { 0 },
        host: host(reader, &target),
        target: target.target,
    };
    contributions.added.name_backend(backend, reader.at(name), BackendPurpose::Mirror);
    contributions.added.add(mirror);
    Ok(())
})
.with_references(refer);

const ANNOTATIONS: &[KnownAnnotation] = &[
    differs("mirror-host", "variables: only `$host` or `$http_host` as the whole value"),
    supported("mirror-request-body"),
    differs(
        "mirror-target",
        "variables: only `$request_uri` at the end; no copies to addresses refused to ExternalName Services; a slow mirror delays no request, its copies are aborted",
    ),
];

/// Target of copies.
#[derive(Debug)]
struct MirrorUrl {
    /// Its certificate is not verified, as in nginx.
    host: UrlHost,
    target: MirrorTarget,
}

impl MirrorUrl {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = |problem: &str| format!("\"{}\" {problem}", redact_url(text));
        if text.contains('@') {
            return Err(wrong("has an @, before which a password may be"));
        }
        let (scheme, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (UrlScheme::Http, rest),
            (_, Some(rest)) => (UrlScheme::Https, rest),
            (None, None) => return Err(wrong("is no http or https URL")),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '$', '?']).unwrap_or(rest.len()));
        let host = UrlHost::parse(authority, scheme).ok_or_else(|| wrong("names no host"))?;
        let (before, has_variable) = match path.strip_suffix("$request_uri") {
            Some(before) => (before, true),
            None => (path, false),
        };
        if before.contains(['$', '#']) || !before.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("has another variable than $request_uri at its end, or what no URL has"));
        }
        let requested = match (before, has_variable) {
            ("", false) => MirrorTarget::Received("".into()),
            (before, true) => MirrorTarget::Received(before.into()),
            (path, false) => MirrorTarget::Fixed(path.into()),
        };
        Ok(Self { host, target: requested })
    }
}

/// The Service or address that an Ingress references, which may not exist.
fn refer(annotations: &Annotations<'_>, referenced: &mut ReferencedObjects) {
    let target = annotations.value("mirror-target").and_then(|target| MirrorUrl::read(target).ok());
    if let Some(MirrorUrl { host, .. }) = target {
        referenced.services.extend(host.service());
        referenced.addresses.extend(host.address());
    }
}

/// Reads `mirror-host`, which defaults to the host of the target; `None` keeps that of the request.
fn host(reader: &mut Reader<'_>, target: &MirrorUrl) -> Option<Arc<str>> {
    let name = "mirror-host";
    let good = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    let of_target = || match target.host.address() {
        Some(IpAddr::V6(address)) => format!("[{address}]").into(),
        _ => target.host.name.clone(),
    };
    match reader.value(name) {
        None | Some("") => Some(of_target()),
        Some("$host" | "$http_host") => None,
        Some(value) if value.chars().all(good) => Some(value.into()),
        Some(value) => {
            reader.invalid(name, format!("\"{value}\" is no host"), "copies have the host of the target");
            Some(of_target())
        }
    }
}

/// Reads `mirror-request-body`: everything but `off` is on.
fn copies_bodies(reader: &mut Reader<'_>) -> bool {
    let name = "mirror-request-body";
    match reader.value(name) {
        Some("off") => false,
        None | Some("" | "on") => true,
        Some(value) => {
            reader.invalid(name, format!("\"{value}\" is neither on nor off"), "it counts as on");
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_a_service_and_a_path() {
        let received = |before: &str| MirrorTarget::Received(before.into());
        for (text, port, asked) in [
            ("http://copy.lab.svc", 80, received("")),
            ("http://copy.lab.svc$request_uri", 80, received("")),
            ("https://copy.lab.svc.cluster.local:8443/$request_uri", 8443, received("/")),
            ("https://Copy.lab.svc/all?x=1", 443, MirrorTarget::Fixed("/all?x=1".into())),
        ] {
            let target = MirrorUrl::read(text).unwrap();
            let service = target.host.service().unwrap().to_string();
            assert_eq!((service.as_str(), target.host.port), ("lab/copy", port), "{text}");
            assert_eq!(target.target, asked, "{text}");
        }
    }

    #[test]
    fn rejects_invalid_targets() {
        for text in [
            "copy.lab.svc",
            "ftp://copy.lab.svc/",
            "http://user@copy.test/",
            "http://$host.lab.svc/",
            "http://copy.lab.svc:x/",
            "http://copy.lab.svc/$arg_x",
            "http://copy.lab.svc$request_uri/x",
            "http://copy.lab.svc/a b",
        ] {
            assert!(MirrorUrl::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn target_errors_contain_no_password() {
        for text in [
            "http://u:hunter2@a/",
            "http://u:1/hunter2@a/",
            "http://u:1?hunter2@a/",
            "http://u:1#hunter2@a/",
            "http://u:1\\hunter2@a/",
            "http://u:1@hunter2@a/",
            "http://u:\" hunter2@a/",
            "u:hunter2@a",
            "http://a:0/?t=hunter2",
        ] {
            let problem = MirrorUrl::read(text).unwrap_err();
            assert!(!problem.contains("hunter2"), "{text}: {problem}");
        }
    }
}
