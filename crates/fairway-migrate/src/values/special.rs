//! Meanings that need a function. Each takes the outcome, the path and the value, and fails with the expected type.

use serde_json::{Map, Value};

use super::kind::ValueKind;
use super::network::PROBE_PORT;
use super::outcome::{Conversion, UNKNOWN_VALUE};

type ConversionResult = Result<(), &'static str>;

pub(super) fn scope(outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
    let scope = value.as_object().ok_or("a mapping")?;
    for key in
        scope.keys().filter(|key| !["enabled", "namespace", "namespaceSelector"].contains(&key.as_str()))
    {
        outcome.add_lost(&format!("{path}.{key}"), UNKNOWN_VALUE);
    }
    let enabled = match scope.get("enabled") {
        Some(Value::Bool(enabled)) => *enabled,
        None | Some(Value::Null) => false,
        Some(_) => return Err("enabled: true or false"),
    };
    let empty = Value::Null;
    let setting = |key: &str, kind: ValueKind| kind.convert(scope.get(key).unwrap_or(&empty));
    if !enabled {
        if let Some(selector) = setting("namespaceSelector", ValueKind::Text)? {
            outcome.set("watch.namespaceSelector", selector);
        }
        return Ok(());
    }
    match setting("namespace", ValueKind::Name)? {
        Some(namespace) => outcome.set("watch.namespaces", Value::from(vec![namespace])),
        None => {
            let remark = "ingress-nginx served only its own namespace: set watch.namespaces to it";
            outcome.add_lost(path, remark);
        }
    }
    Ok(())
}

/// The nginx module for tracing. Its settings are keys of the ConfigMap.
pub(super) fn opentelemetry(outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
    match value.as_object().ok_or("a mapping")?.get("enabled") {
        Some(Value::Bool(true)) => {
            outcome
                .add_note(path, "Fairway traces requests without a module if enable-opentelemetry is true");
            Ok(())
        }
        Some(Value::Bool(false) | Value::Null) | None => Ok(()),
        Some(_) => Err("enabled: true or false"),
    }
}

pub(super) fn default_certificate(outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
    reference("defaultCertificate", outcome, path, value)
}

pub(super) fn existing_settings(outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
    reference("existingSettings", outcome, path, value)
}

pub(super) fn publish_service(outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
    reference("status.publishService", outcome, path, value)
}

/// The namespace of a name may be a variable of the pod, which now has another value.
fn reference(target: &str, outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
    let Some(name) = value.as_str().and_then(|text| text.strip_prefix("$(POD_NAMESPACE)/")) else {
        if let Some(reference) = ValueKind::Reference.convert(value)? {
            outcome.set(target, reference);
        }
        return Ok(());
    };
    if let Some(name) = ValueKind::Name.convert(&name.into())? {
        outcome.set(target, name);
        let remark = format!(
            "the namespace was that of ingress-nginx and is that of Fairway now: write NAMESPACE/NAME into {target} if \
             they differ"
        );
        outcome.add_note(path, &remark);
    }
    Ok(())
}

pub(super) fn sysctls(outcome: &mut Conversion, _: &str, value: &Value) -> ConversionResult {
    let sysctls = ValueKind::Texts.convert(value)?;
    for (name, value) in sysctls.iter().filter_map(Value::as_object).flatten() {
        let sysctl = [("name", name.as_str().into()), ("value", value.clone())];
        let sysctl = sysctl.map(|(key, value)| (key.to_owned(), value));
        outcome.push("podSecurityContext.sysctls", Value::Object(Map::from_iter(sysctl)));
    }
    Ok(())
}

pub(super) fn pod_security(outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
    security("podSecurityContext", outcome, path, value)
}

pub(super) fn container_security(outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
    security("securityContext", outcome, path, value)
}

/// The user and capabilities of the ingress-nginx image do not apply to the image of Fairway.
fn security(target: &str, outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
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
    let Some(Value::Object(context)) = ValueKind::Mapping.convert(value)? else { return Ok(()) };
    for (key, value) in context {
        if OF_THE_IMAGE.contains(&key.as_str()) {
            let remark = "Fairway's pods run as a user of their own without capabilities; see podSecurityContext and \
                        securityContext";
            outcome.add_note(&format!("{path}.{key}"), remark);
        } else {
            outcome.set(&format!("{target}.{key}"), value);
        }
    }
    Ok(())
}

pub(super) fn volume_mounts(outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
    let Some(mounts) = ValueKind::Named.convert(value)? else { return Ok(()) };
    let of_nginx =
        |mount: &Value| mount["mountPath"].as_str().is_some_and(|path| path.starts_with("/etc/nginx"));
    if mounts.as_array().into_iter().flatten().any(of_nginx) {
        outcome.add_note(path, "Fairway reads no files in /etc/nginx");
    }
    outcome.set("extraVolumeMounts", mounts);
    Ok(())
}

pub(super) fn pod_annotations(outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
    annotations("podAnnotations", outcome, path, value)
}

pub(super) fn metrics_annotations(outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
    annotations("metrics.service.annotations", outcome, path, value)
}

/// Prometheus rules, in a separate group. Braces in them are Prometheus templates, which neither chart evaluates.
pub(super) fn rules(outcome: &mut Conversion, _: &str, value: &Value) -> ConversionResult {
    let rules = value.as_array().filter(|rules| rules.iter().all(Value::is_object));
    let rules = rules.ok_or("a list of mappings")?;
    let group = [("name", "ingress-nginx".into()), ("rules", rules.clone().into())];
    let group = group.map(|(key, value)| (key.to_owned(), value));
    outcome.push("metrics.rules.additionalGroups", Value::Object(Map::from_iter(group)));
    Ok(())
}

/// Annotations by which Prometheus finds the metrics port.
fn annotations(target: &str, outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
    let Some(mut annotations) = ValueKind::Texts.convert(value)? else { return Ok(()) };
    let probe = PROBE_PORT.to_string();
    if let Some(port) = annotations.get_mut("prometheus.io/port").filter(|port| **port != probe.as_str()) {
        *port = probe.into();
        outcome.add_note(path, "prometheus.io/port is that of ports.probe, where Fairway's metrics are");
    }
    outcome.set(target, annotations);
    Ok(())
}
