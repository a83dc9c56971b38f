//! Reads state files from before rules had phases, when the filters of a rule were one list. An unknown filter, or one that a
//! backend share cannot have, makes the file unreadable: it is not served in part.

use fairway_model::Config;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::digest::{self, Digest};

/// The file with its filters as phases, and the digest of its hosts as they were written.
///
/// # Errors
/// What cannot be read.
pub(crate) fn upgrade_file(bytes: &[u8]) -> Result<Value, String> {
    let mut stored: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let hosts = stored.pointer_mut("/config/hosts").and_then(Value::as_array_mut).ok_or("it has no hosts")?;
    for rule in hosts
        .iter_mut()
        .flat_map(|host| list_items(host, "routes"))
        .flat_map(|route| list_items(route, "rules"))
    {
        upgrade_rule(rule)?;
    }
    Ok(stored)
}

/// The digest of a configuration whose hosts are those of `bytes`, in the serialized form that was hashed.
///
/// # Errors
/// What cannot be read.
pub(crate) fn digest(mut config: Config, bytes: &[u8]) -> Result<Digest, String> {
    #[derive(Deserialize)]
    struct File<'f> {
        #[serde(borrow)]
        config: Hosts<'f>,
    }
    #[derive(Deserialize)]
    struct Hosts<'f> {
        #[serde(borrow)]
        hosts: Vec<&'f RawValue>,
    }
    let file: File<'_> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    config.hosts.clear();
    Ok(digest::config_and_hosts_digest(&config, file.config.hosts.iter().map(|host| host.get())))
}

fn list_items<'v>(object: &'v mut Value, list: &str) -> impl Iterator<Item = &'v mut Value> {
    object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

fn upgrade_rule(rule: &mut Value) -> Result<(), String> {
    let rule = rule.as_object_mut().ok_or("a rule is no object")?;
    let phases = phases(take_filters(rule)?)?;
    rule.insert("phases".to_owned(), phases);
    for share in rule.get_mut("action").into_iter().flat_map(|action| list_items(action, "Forward")) {
        let share = share.as_object_mut().ok_or("a share is no object")?;
        let filters = take_filters(share)?;
        if !filters.is_empty() {
            share.insert("filters".to_owned(), share_filters(filters)?);
        }
    }
    Ok(())
}

/// The filters of a rule or share, by name.
fn take_filters(rule: &mut Map<String, Value>) -> Result<Vec<(String, Value)>, String> {
    let filters = match rule.remove("filters") {
        Some(Value::Array(filters)) => filters,
        None => Vec::new(),
        Some(_) => return Err("filters are no list".to_owned()),
    };
    let named = filters.into_iter().map(|filter| match filter {
        Value::String(name) => Ok((name, Value::Null)),
        Value::Object(fields) if fields.len() == 1 => fields.into_iter().next().ok_or_else(String::new),
        other => Err(format!("{other} is no filter")),
    });
    named.collect()
}

fn phases(filters: Vec<(String, Value)>) -> Result<Value, String> {
    let mut phases = json!({});
    for (name, value) in filters {
        match &*name {
            "OverTls" | "NeedsEndpoint" => push(&mut phases["guards"], json!(name)),
            "HttpsRedirect" | "Redirect" | "Access" | "ClientCertificate" | "Deny" | "ExternalAuth"
            | "BasicAuth" | "RateLimit" | "ConcurrencyLimit" => {
                push(&mut phases["guards"], json!({ name: value }));
            }
            "AnyGuard" => push(&mut phases["guards"], json!({ "Any": value })),
            "RealIp" => phases["client"] = value,
            "Cors" => {
                push(&mut phases["guards"], json!({ "Preflight": value }));
                push(&mut phases["answers"]["edits"], json!({ "Cors": value }));
            }
            "RequestHeaders" => push(&mut phases["request"], json!({ "Headers": value })),
            "RewriteHost" => push(&mut phases["request"], json!({ "Host": value })),
            "ForwardedPrefix" => push(&mut phases["request"], json!({ name: value })),
            "RewritePath" => phases["forwarding"]["path"] = value,
            "EndpointFields" => phases["forwarding"]["fields"] = value,
            "EndpointHop" => phases["forwarding"]["hop"] = value,
            "SecuredBackend" => phases["forwarding"]["secured"] = value,
            "RetryStatuses" => phases["forwarding"]["retry_statuses"] = value,
            "GrpcWeb" => phases["forwarding"]["grpc_web"] = json!(true),
            "Fallback" => push(&mut phases["forwarding"]["fallbacks"], value),
            "Mirror" => push(&mut phases["forwarding"]["mirrors"], value),
            "HiddenFields" => push(&mut phases["answers"]["received"], json!({ "Hide": value })),
            "AnswerCookies" => push(&mut phases["answers"]["received"], json!({ "Cookies": value })),
            "AnswerLocation" => push(&mut phases["answers"]["received"], json!({ "Location": value })),
            "ErrorPages" => phases["answers"]["pages"] = value,
            "ResponseHeaders" => push(&mut phases["answers"]["edits"], json!({ "Headers": value })),
            "AnswerFields" => push(&mut phases["answers"]["edits"], json!({ "Fields": value })),
            "StrictTransportSecurity" => push(&mut phases["answers"]["edits"], json!({ name: value })),
            "AnswerHead" => phases["bounds"]["head"] = value,
            "AnswerRate" => phases["bounds"]["rate"] = value,
            "Unlogged" => phases["unlogged"] = json!(true),
            _ => return Err(format!("a rule has the unknown filter {name}")),
        }
    }
    Ok(phases)
}

fn share_filters(filters: Vec<(String, Value)>) -> Result<Value, String> {
    let mut share = json!({});
    for (name, value) in filters {
        match &*name {
            "Cors" => share["cors"] = value,
            "Redirect" => share["redirect"] = value,
            "RequestHeaders" => push(&mut share["request"], json!({ "Headers": value })),
            "RewriteHost" => push(&mut share["request"], json!({ "Host": value })),
            "RewritePath" => share["path"] = value,
            "Mirror" => push(&mut share["mirrors"], value),
            "ResponseHeaders" => push(&mut share["answer"], value),
            _ => return Err(format!("a backend has the filter {name}, which only a whole rule can have")),
        }
    }
    Ok(share)
}

fn push(list: &mut Value, value: Value) {
    match list {
        Value::Array(list) => list.push(value),
        absent => *absent = json!([value]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule_of(filters: &Value) -> Result<Value, String> {
        let share = json!({ "backend": "a", "weight": 1, "filters": filters });
        let mut rule = json!({ "filters": ["Unlogged"], "action": { "Forward": [share] } });
        upgrade_rule(&mut rule).map(|()| rule)
    }

    #[test]
    fn filters_of_a_backend_become_share_filters_and_others_are_refused() {
        let edit = json!({ "remove": ["x-a"] });
        let filters = json!([
            { "RequestHeaders": edit },
            { "RewriteHost": "b.test" },
            { "RewritePath": { "Full": "/b" } },
            { "ResponseHeaders": edit },
        ]);
        let share = json!({
            "request": [{ "Headers": edit }, { "Host": "b.test" }],
            "path": { "Full": "/b" },
            "answer": [edit],
        });
        let rule = rule_of(&filters).unwrap();
        assert_eq!(rule["phases"], json!({ "unlogged": true }));
        assert_eq!(rule["action"]["Forward"][0]["filters"], share);
        assert_eq!(rule_of(&json!([])).unwrap()["action"]["Forward"][0].get("filters"), None);
        let refused = rule_of(&json!(["OverTls"])).unwrap_err();
        assert_eq!(refused, "a backend has the filter OverTls, which only a whole rule can have");
    }
}
