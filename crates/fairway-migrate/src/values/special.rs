//! Meanings that take a function. Each is given the outcome, the path and the value, and may say what type it expected.

use serde_json::{Map, Value};

use super::kind::Kind;
use super::network::PROBE_PORT;
use super::outcome::{Outcome, UNKNOWN};

type Done = Result<(), &'static str>;

pub(super) fn scope(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    let scope = value.as_object().ok_or("a mapping")?;
    for key in
        scope.keys().filter(|key| !["enabled", "namespace", "namespaceSelector"].contains(&key.as_str()))
    {
        outcome.lose(&format!("{path}.{key}"), UNKNOWN);
    }
    let enabled = match scope.get("enabled") {
        Some(Value::Bool(enabled)) => *enabled,
        None | Some(Value::Null) => false,
        Some(_) => return Err("enabled: true or false"),
    };
    let empty = Value::Null;
    let given = |key: &str, kind: Kind| kind.convert(scope.get(key).unwrap_or(&empty));
    if !enabled {
        if let Some(selector) = given("namespaceSelector", Kind::Text)? {
            outcome.set("watch.namespaceSelector", selector);
        }
        return Ok(());
    }
    match given("namespace", Kind::Name)? {
        Some(namespace) => outcome.set("watch.namespaces", Value::from(vec![namespace])),
        None => {
            let what = "ingress-nginx served its own namespace alone: set watch.namespaces to it";
            outcome.lose(path, what);
        }
    }
    Ok(())
}

/// The module of nginx that traces requests. Its settings are keys of the ConfigMap.
pub(super) fn opentelemetry(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    match value.as_object().ok_or("a mapping")?.get("enabled") {
        Some(Value::Bool(true)) => {
            outcome
                .note(path, "Fairway traces requests without a module, where enable-opentelemetry is true");
            Ok(())
        }
        Some(Value::Bool(false) | Value::Null) | None => Ok(()),
        Some(_) => Err("enabled: true or false"),
    }
}

pub(super) fn default_certificate(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    reference("defaultCertificate", outcome, path, value)
}

pub(super) fn existing_settings(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    reference("existingSettings", outcome, path, value)
}

pub(super) fn publish_service(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    reference("status.publishService", outcome, path, value)
}

/// A name may leave its namespace to a variable of the pod, which stands for another namespace now.
fn reference(own: &str, outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    let Some(name) = value.as_str().and_then(|text| text.strip_prefix("$(POD_NAMESPACE)/")) else {
        if let Some(reference) = Kind::Reference.convert(value)? {
            outcome.set(own, reference);
        }
        return Ok(());
    };
    if let Some(name) = Kind::Name.convert(&name.into())? {
        outcome.set(own, name);
        let what = format!(
            "the namespace was that of ingress-nginx and is that of Fairway now: write NAMESPACE/NAME into {own} if \
             they differ"
        );
        outcome.note(path, &what);
    }
    Ok(())
}

pub(super) fn sysctls(outcome: &mut Outcome, _: &str, value: &Value) -> Done {
    let sysctls = Kind::Texts.convert(value)?;
    for (name, value) in sysctls.iter().filter_map(Value::as_object).flatten() {
        let sysctl = [("name", name.as_str().into()), ("value", value.clone())];
        let sysctl = sysctl.map(|(key, value)| (key.to_owned(), value));
        outcome.push("podSecurityContext.sysctls", Value::Object(Map::from_iter(sysctl)));
    }
    Ok(())
}

pub(super) fn pod_security(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    security("podSecurityContext", outcome, path, value)
}

pub(super) fn container_security(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    security("securityContext", outcome, path, value)
}

/// Who the image of ingress-nginx runs as, and what it may do beyond that, is nothing for the image of Fairway.
fn security(own: &str, outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    const OF_THE_IMAGE: [&str; 8] = [
        "allowPrivilegeEscalation",
        "capabilities",
        "fsGroup",
        "privileged",
        "readOnlyRootFilesystem",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
    ];
    let Some(Value::Object(context)) = Kind::Mapping.convert(value)? else { return Ok(()) };
    for (key, value) in context {
        if OF_THE_IMAGE.contains(&key.as_str()) {
            let what = "Fairway's pods run as a user of their own without capabilities; see podSecurityContext and \
                        securityContext";
            outcome.note(&format!("{path}.{key}"), what);
        } else {
            outcome.set(&format!("{own}.{key}"), value);
        }
    }
    Ok(())
}

pub(super) fn volume_mounts(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    let Some(mounts) = Kind::Named.convert(value)? else { return Ok(()) };
    let of_nginx =
        |mount: &Value| mount["mountPath"].as_str().is_some_and(|path| path.starts_with("/etc/nginx"));
    if mounts.as_array().into_iter().flatten().any(of_nginx) {
        outcome.note(path, "Fairway reads no files in /etc/nginx");
    }
    outcome.set("extraVolumeMounts", mounts);
    Ok(())
}

pub(super) fn pod_annotations(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    annotations("podAnnotations", outcome, path, value)
}

pub(super) fn metrics_annotations(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    annotations("metrics.service.annotations", outcome, path, value)
}

/// Rules of Prometheus in a group of their own. Braces in them are templates of Prometheus: neither chart evaluates them.
pub(super) fn rules(outcome: &mut Outcome, _: &str, value: &Value) -> Done {
    let rules = value.as_array().filter(|rules| rules.iter().all(Value::is_object));
    let rules = rules.ok_or("a list of mappings")?;
    let group = [("name", "ingress-nginx".into()), ("rules", rules.clone().into())];
    let group = group.map(|(key, value)| (key.to_owned(), value));
    outcome.push("metrics.rules.additionalGroups", Value::Object(Map::from_iter(group)));
    Ok(())
}

/// Annotations by which Prometheus finds the port of metrics.
fn annotations(own: &str, outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    let Some(mut annotations) = Kind::Texts.convert(value)? else { return Ok(()) };
    let probe = PROBE_PORT.to_string();
    if let Some(port) = annotations.get_mut("prometheus.io/port").filter(|port| **port != probe.as_str()) {
        *port = probe.into();
        outcome.note(path, "prometheus.io/port is that of ports.probe, where Fairway's metrics are");
    }
    outcome.set(own, annotations);
    Ok(())
}
