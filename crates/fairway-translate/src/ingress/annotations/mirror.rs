//! Copies of requests: `mirror-target`, `mirror-host`, `mirror-request-body`. They go to the endpoints of a Service of the
//! cluster, whose name the URL has.

use std::sync::Arc;

use fairway_model::{Filter, Mirror, MirrorTarget};

use crate::ingress::annotations::family::{Family, Known, differs, done};
use crate::ingress::contributions::{Phase, Purpose};
use crate::ingress::reader::{Annotations, Reader};
use crate::object::ObjectKey;
use crate::shared::backend::BackendRef;
use crate::shared::balance::Balance;
use crate::shared::transport::{Sni, TlsOrigination, Transport};

/// The family.
pub(crate) const FAMILY: Family = Family::new(ANNOTATIONS, |reader, _, contributions| {
    let name = "mirror-target";
    let Some(text) = reader.value(name).filter(|text| !text.is_empty()) else { return Ok(()) };
    let target = match Target::read(text) {
        Ok(target) => target,
        Err(problem) => {
            reader.invalid(name, problem, "no request is copied");
            return Ok(());
        }
    };
    let backend = target.backend();
    let mirror = Mirror {
        backend: backend.key.clone(),
        numerator: 1,
        denominator: 1,
        most_body: if copies_bodies(reader) { u64::MAX } else { 0 },
        host: host(reader, &target),
        target: target.asked,
    };
    contributions.filters.name_backend(backend, reader.at(name), Purpose::Copies);
    contributions.filters.push(Phase::Forward, Filter::Mirror(mirror));
    Ok(())
})
.referring(|annotations, referenced| referenced.services.extend(service(annotations)));

const ANNOTATIONS: &[Known] = &[
    differs("mirror-host", "of the nginx variables only `$host` and `$http_host` as a whole work"),
    done("mirror-request-body"),
    differs(
        "mirror-target",
        "only Services of the cluster get copies (`name.namespace.svc`, also with `.cluster.local`); of the variables \
         `$request_uri` works, at the end; a slow mirror slows no request, and its copies are broken off",
    ),
];

/// Where copies go.
#[derive(Debug)]
struct Target {
    /// Its certificate is not verified, as in nginx.
    transport: Transport,
    /// As the URL has it.
    host: Arc<str>,
    service: ObjectKey,
    port: u16,
    asked: MirrorTarget,
}

impl Target {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("\"{text}\" {what}");
        let (secured, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            (None, None) => return Err(wrong("is no http or https URL")),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '$', '?']).unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong("has no good port"))?),
            None => (authority, if secured { 443 } else { 80 }),
        };
        let service = service_named(&host.to_ascii_lowercase());
        let service = service.ok_or_else(|| wrong("names no Service of the cluster"))?;
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
        let host: Arc<str> = host.into();
        let tls = || TlsOrigination { name: Some(host.clone()), sni: Sni::On, ..TlsOrigination::default() };
        let transport = if secured { Transport::Tls(tls()) } else { Transport::Plain };
        Ok(Self { transport, host, service, port, asked })
    }

    fn backend(&self) -> BackendRef {
        let port = self.port.to_string().into();
        BackendRef::new(self.service.clone(), port, (&self.transport, &Balance::default()))
    }
}

/// The Service that an Ingress names, which may be missing.
fn service(annotations: &Annotations<'_>) -> Option<ObjectKey> {
    Target::read(annotations.value("mirror-target")?).ok().map(|target| target.service)
}

fn service_named(host: &str) -> Option<ObjectKey> {
    let host = host.strip_suffix(".cluster.local").unwrap_or(host);
    let (name, namespace) = host.strip_suffix(".svc")?.split_once('.')?;
    let is_label = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    (is_label(name) && is_label(namespace)).then(|| ObjectKey::new(namespace, name))
}

/// Reads `mirror-host`; the host of the target without it, and `None` for the request's own.
fn host(reader: &mut Reader<'_>, target: &Target) -> Option<Arc<str>> {
    let name = "mirror-host";
    let good = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    match reader.value(name) {
        None | Some("") => Some(target.host.clone()),
        Some("$host" | "$http_host") => None,
        Some(value) if value.chars().all(good) => Some(value.into()),
        Some(value) => {
            reader.invalid(name, format!("\"{value}\" is no host"), "copies have the host of the target");
            Some(target.host.clone())
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
            assert_eq!((target.service.to_string().as_str(), target.port), ("lab/copy", port), "{text}");
            assert_eq!(target.asked, asked, "{text}");
        }
    }

    #[test]
    fn whatever_else_is_no_target() {
        for text in [
            "copy.lab.svc",
            "ftp://copy.lab.svc/",
            "http://copy.test/",
            "http://$host.lab.svc/",
            "http://copy.lab.svc:x/",
            "http://copy.lab.svc/$arg_x",
            "http://copy.lab.svc$request_uri/x",
            "http://copy.lab.svc/a b",
        ] {
            assert!(Target::read(text).is_err(), "{text}");
        }
    }
}
