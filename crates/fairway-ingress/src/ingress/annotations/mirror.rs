//! Copies of requests: `mirror-target`, `mirror-host`, `mirror-request-body`. They go to the endpoints of the Service whose
//! name or address the URL has, else to what its host stands for.

use std::net::IpAddr;
use std::sync::Arc;

use fairway_model::{Mirror, MirrorTarget, OwnScheme, shown_url};
use fairway_objects::backend::Purpose;
use fairway_objects::references::Referenced;
use fairway_objects::service_url::UrlHost;

use crate::ingress::annotations::family::{Family, Known, differs, done};
use crate::ingress::reader::{Annotations, Reader};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, context, contributions| {
    let name = "mirror-target";
    let Some(text) = reader.value(name).filter(|text| !text.is_empty()) else { return Ok(()) };
    let target = match Target::read(text) {
        Ok(target) => target,
        Err(problem) => {
            reader.invalid(name, problem, "no request is copied");
            return Ok(());
        }
    };
    let backend = target.host.backend(context.inputs.resources, Purpose::Copies);
    let mirror = Mirror {
        backend: backend.key.clone(),
        numerator: 1,
        denominator: 1,
        most_body: if copies_bodies(reader) { u64::MAX } else { 0 },
        host: host(reader, &target),
        target: target.asked,
    };
    contributions.added.name_backend(backend, reader.at(name), Purpose::Copies);
    contributions.added.add(mirror);
    Ok(())
})
.referring(refer);

const ANNOTATIONS: &[Known] = &[
    differs("mirror-host", "of the nginx variables only `$host` and `$http_host` as a whole work"),
    done("mirror-request-body"),
    differs(
        "mirror-target",
        "of the variables `$request_uri` works, at the end; addresses that are refused to ExternalName Services get no \
         copies; a slow mirror slows no request, and its copies are broken off",
    ),
];

/// Where copies go.
#[derive(Debug)]
struct Target {
    /// Its certificate is not verified, as in nginx.
    host: UrlHost,
    asked: MirrorTarget,
}

impl Target {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("\"{}\" {what}", shown_url(text));
        if text.contains('@') {
            return Err(wrong("has an @, before which a password may be"));
        }
        let (scheme, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (OwnScheme::Http, rest),
            (_, Some(rest)) => (OwnScheme::Https, rest),
            (None, None) => return Err(wrong("is no http or https URL")),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '$', '?']).unwrap_or(rest.len()));
        let host = UrlHost::read(authority, scheme).ok_or_else(|| wrong("names no host"))?;
        let (before, has_variable) = match path.strip_suffix("$request_uri") {
            Some(before) => (before, true),
            None => (path, false),
        };
        if before.contains(['$', '#']) || !before.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("has another variable than $request_uri at its end, or what no URL has"));
        }
        let asked = match (before, has_variable) {
            ("", false) => MirrorTarget::Received("".into()),
            (before, true) => MirrorTarget::Received(before.into()),
            (path, false) => MirrorTarget::Fixed(path.into()),
        };
        Ok(Self { host, asked })
    }
}

/// The Service or the address that an Ingress names, which may be missing.
fn refer(annotations: &Annotations<'_>, referenced: &mut Referenced) {
    let target = annotations.value("mirror-target").and_then(|target| Target::read(target).ok());
    if let Some(Target { host, .. }) = target {
        referenced.services.extend(host.service());
        referenced.addresses.extend(host.address());
    }
}

/// Reads `mirror-host`; the host of the target without it, and `None` for the request's own.
fn host(reader: &mut Reader<'_>, target: &Target) -> Option<Arc<str>> {
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

/// Reads `mirror-request-body`: whatever is not `off` is on.
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
    fn a_target_names_a_service_and_what_it_is_asked_for() {
        let received = |before: &str| MirrorTarget::Received(before.into());
        for (text, port, asked) in [
            ("http://copy.lab.svc", 80, received("")),
            ("http://copy.lab.svc$request_uri", 80, received("")),
            ("https://copy.lab.svc.cluster.local:8443/$request_uri", 8443, received("/")),
            ("https://Copy.lab.svc/all?x=1", 443, MirrorTarget::Fixed("/all?x=1".into())),
        ] {
            let target = Target::read(text).unwrap();
            let service = target.host.service().unwrap().to_string();
            assert_eq!((service.as_str(), target.host.port), ("lab/copy", port), "{text}");
            assert_eq!(target.asked, asked, "{text}");
        }
    }

    #[test]
    fn whatever_else_is_no_target() {
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
            assert!(Target::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_target_repeats_no_password() {
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
            let problem = Target::read(text).unwrap_err();
            assert!(!problem.contains("hunter2"), "{text}: {problem}");
        }
    }
}
