//! Meanings that take a function. Each is given the outcome, the path and the value, and may say what type it expected.

use serde_json::{Map, Value};

use super::kind::Kind;
use super::outcome::Outcome;

type Done = Result<(), &'static str>;

/// A class other than `nginx`, which `ingressClass.compat` serves.
pub(super) fn class(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    let name = value.as_str().ok_or("text")?;
    if matches!(name, "" | "nginx") || outcome.value("ingressClass.name") == Some(value) {
        return Ok(());
    }
    if let Some(Value::String(other)) = outcome.value("ingressClass.name") {
        let what = format!("Fairway's chart has one name for both, and it is {other}");
        outcome.lose(path, &what);
        return Ok(());
    }
    outcome.set("ingressClass.name", name.into());
    Ok(())
}

/// The controller of IngressClasses, besides Fairway's own.
pub(super) fn controller(outcome: &mut Outcome, _: &str, value: &Value) -> Done {
    match value.as_str().ok_or("text")? {
        "" | "k8s.io/ingress-nginx" => {}
        other => {
            let argument = format!("--controller-class=fairway.dev/ingress-controller,{other}");
            outcome.push("extraArgs", argument.into());
            outcome.set("ingressClass.compat", false.into());
        }
    }
    Ok(())
}

pub(super) fn scope(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    let scope = value.as_object().ok_or("a mapping")?;
    for key in
        scope.keys().filter(|key| !["enabled", "namespace", "namespaceSelector"].contains(&key.as_str()))
    {
        outcome
            .lose(&format!("{path}.{key}"), "Fairway does not know this value of the chart of ingress-nginx");
    }
    let text = |key: &str| scope.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let enabled = match scope.get("enabled") {
        Some(Value::Bool(enabled)) => *enabled,
        None | Some(Value::Null) => false,
        Some(_) => return Err("enabled: true or false"),
    };
    match (enabled, text("namespace"), text("namespaceSelector")) {
        (true, Some(namespace), _) => outcome.set("watch.namespaces", Value::from(vec![namespace])),
        (true, None, _) => {
            outcome
                .lose(path, "set watch.namespaces to the namespace of the release, which was watched alone");
        }
        (false, _, Some(selector)) => outcome.set("watch.namespaceSelector", selector.into()),
        (false, _, None) => {}
    }
    Ok(())
}

pub(super) fn host_ports(outcome: &mut Outcome, _: &str, value: &Value) -> Done {
    if value.get("enabled") != Some(&Value::Bool(true)) {
        return if value.is_object() { Ok(()) } else { Err("a mapping") };
    }
    for (name, usual) in [("http", 80), ("https", 443)] {
        let usual = Value::from(usual);
        let port = value.get("ports").and_then(|ports| ports.get(name)).unwrap_or(&usual);
        if let Some(port) = Kind::Number.convert(port)? {
            outcome.set(&format!("hostPorts.{name}"), port);
        }
    }
    Ok(())
}

/// Fairway's chart adds up the seconds; its defaults of `drain.delay` and `drain.margin` are 30 of them.
pub(super) fn grace_period(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    match value.as_u64().ok_or("a number")? {
        seconds @ 30.. => outcome.set("drain.timeout", (seconds - 30).into()),
        _ => outcome.lose(path, "set drain.delay, drain.timeout and drain.margin, which add up to it"),
    }
    Ok(())
}

pub(super) fn min_available(outcome: &mut Outcome, _: &str, value: &Value) -> Done {
    if let Some(value) = Kind::Share.convert(value)? {
        outcome.set("podDisruptionBudget.minAvailable", value);
        // The chart takes one of the two, and its default is the other one.
        outcome.set("podDisruptionBudget.maxUnavailable", Value::Null);
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

/// Constraints without their label selectors, which name the pods of ingress-nginx: the chart adds its own.
pub(super) fn spread(outcome: &mut Outcome, _: &str, value: &Value) -> Done {
    let mut constraints = value.as_array().ok_or("a list")?.clone();
    for constraint in constraints.iter_mut().filter_map(Value::as_object_mut) {
        constraint.remove("labelSelector");
        constraint.remove("matchLabelKeys");
    }
    outcome.set("topologySpreadConstraints", constraints.into());
    Ok(())
}

pub(super) fn affinity(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    value.as_object().ok_or("a mapping")?;
    if value.to_string().contains("labelSelector") {
        outcome.lose(path, "kept; adapt its label selectors, which name the pods of ingress-nginx");
    }
    outcome.set("affinity", value.clone());
    Ok(())
}

pub(super) fn pod_annotations(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    annotations("podAnnotations", outcome, path, value)
}

pub(super) fn metrics_annotations(outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    annotations("metrics.service.annotations", outcome, path, value)
}

fn annotations(own: &str, outcome: &mut Outcome, path: &str, value: &Value) -> Done {
    let Some(value) = Kind::Texts.convert(value)? else { return Ok(()) };
    if value.get("prometheus.io/port").is_some() {
        outcome.lose(
            path,
            "kept; change prometheus.io/port to the number of ports.probe (10255), where metrics are",
        );
    }
    outcome.set(own, value);
    Ok(())
}
