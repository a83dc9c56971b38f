//! TCP and UDP services (`tcp` and `udp`), and their node ports.

use serde_json::Value;

use super::kind::{ValueKind, has_template, is_empty, scalar};
use super::network::OTHER_PORTS;
use super::outcome::Conversion;

type ConversionResult = Result<(), &'static str>;

const ENTRY_SHAPE: &str = "NAMESPACE/SERVICE:PORT[:PROXY[:PROXY]]";
const PORT_KIND: ValueKind = ValueKind::Within(1, 65_535);

/// `tcp` or `udp`, which have the same shape in both charts.
pub(super) fn services(outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
    for (port, value) in value.as_object().ok_or("a mapping")? {
        let path = format!("{path}.{port}");
        let text = scalar(value).filter(|_| !has_template(value));
        let read = text.as_deref().and_then(Service::read).filter(|_| is_port(port));
        match read {
            None if value.is_null() => {}
            None => outcome.wrong(&path, ENTRY_SHAPE, value),
            Some(Service { location: place, marks }) if path.starts_with("udp.") => {
                if !marks.is_empty() {
                    outcome.add_note(&path, "PROXY applies to TCP only");
                }
                outcome.set(&path, place.into());
            }
            Some(Service { location: place, marks }) => outcome.set(&path, format!("{place}{marks}").into()),
        }
    }
    Ok(())
}

/// `controller.service.nodePorts.tcp` and the like.
pub(super) fn node_ports(outcome: &mut Conversion, path: &str, value: &Value) -> ConversionResult {
    let below = path.strip_prefix("controller.service.").unwrap_or(path);
    let target = match below.strip_prefix("internal.") {
        Some(below) => format!("internalService.{below}"),
        None => format!("service.{below}"),
    };
    let mut is_kept = false;
    for (port, value) in value.as_object().ok_or("a mapping")? {
        match PORT_KIND.convert(value) {
            Ok(Some(node)) if is_port(port) => {
                outcome.set(&format!("{target}.{port}"), node);
                is_kept = true;
            }
            Ok(None) => {}
            _ => outcome.wrong(&format!("{path}.{port}"), "a port", value),
        }
    }
    if is_kept {
        let remark = "kept, but the Service of ingress-nginx holds them: leave them out until that Service gives them up";
        outcome.add_note(path, remark);
    }
    Ok(())
}

/// Removes ports that Fairway's pods use for something else. If listeners have host ports, these services have them too.
pub(super) fn finish(outcome: &mut Conversion) {
    let of_listeners = [("http", 8_080), ("https", 8_443)];
    for (name, usual) in of_listeners.into_iter().chain(OTHER_PORTS) {
        let port_value = format!("ports.{name}");
        let port = outcome.value(&port_value).and_then(Value::as_u64).unwrap_or(usual);
        let path = format!("tcp.{port}");
        if outcome.value(&path).is_some() {
            outcome.remove(&path);
            let remark = format!(
                "{port} is {port_value} of Fairway's chart: choose another one there, and set {path}"
            );
            outcome.add_lost(&path, &remark);
        }
    }
    let are_given = |protocol| outcome.value(protocol).is_some_and(|services| !is_empty(services));
    if outcome.value("hostPorts").is_some() && ["tcp", "udp"].into_iter().any(are_given) {
        outcome.set("hostPorts.services", true.into());
    }
}

/// A destination and its PROXY protocol marks.
struct Service<'a> {
    location: &'a str,
    marks: &'a str,
}

impl<'a> Service<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let (service, behind) = text.split_once(':')?;
        let (port, _) = behind.split_once(':').unwrap_or((behind, ""));
        let (place, marks) = text.split_at(service.len() + 1 + port.len());
        let (namespace, name) = service.split_once('/')?;
        let are_marks = marks.is_empty()
            || marks[1..].split(':').all(|mark| mark.is_empty() || mark.eq_ignore_ascii_case("PROXY"));
        let is_good = ![namespace, name, port].contains(&"") && !name.contains('/');
        (is_good && are_marks && marks.matches(':').count() <= 2).then_some(Self { location: place, marks })
    }
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port > 0 && port.to_string() == text)
}
