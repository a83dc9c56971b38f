//! Requests and limits of memory and CPU. Fairway's chart has defaults for some of them, and Kubernetes rejects a request above
//! its limit.

use serde_json::Value;

use super::input::Input;
use super::kind::scalar;
use super::outcome::Conversion;

/// The defaults of Fairway's chart, which sets no CPU limit.
pub(super) const REQUESTED_MEMORY: &str = "128Mi";
pub(super) const MEMORY_LIMIT: &str = "512Mi";
pub(super) const REQUESTED_CPU: &str = "200m";

/// Sets a missing request or limit if the default would contradict the other one.
pub(super) fn finish(input: Input<'_>, outcome: &mut Conversion) {
    let amount = |resource: &str| input.value_at(&format!("controller.resources.{resource}"));
    if amount("limits.memory").is_none()
        && let Some(request) = amount("requests.memory").filter(|it| is_more(it, &MEMORY_LIMIT.into()))
    {
        outcome.set("resources.limits.memory", request.clone());
        let remark = format!(
            "Fairway's chart has a limit of memory, {MEMORY_LIMIT}, which is raised to this request; above 85% of it \
             Fairway sheds load"
        );
        outcome.add_note("controller.resources.requests.memory", &remark);
    }
    for (request, limit, usual) in [
        ("requests.memory", "limits.memory", REQUESTED_MEMORY),
        ("requests.cpu", "limits.cpu", REQUESTED_CPU),
    ] {
        if amount(request).is_none()
            && let Some(limit) = amount(limit).filter(|it| is_more(&usual.into(), it))
        {
            outcome.set(&format!("resources.{request}"), limit.clone());
        }
    }
}

fn is_more(left: &Value, right: &Value) -> bool {
    amount(left).zip(amount(right)).is_some_and(|(one, right)| one > right)
}

/// Parses a Kubernetes quantity.
fn amount(value: &Value) -> Option<f64> {
    let text = scalar(value)?;
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let unit = match suffix {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit)
}
