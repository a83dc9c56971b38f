//! Shared parsers for the values of Fairway's own annotations.

use serde::de::{DeserializeOwned, IgnoredAny};

use crate::manifest::decode::decode;
use crate::manifest::{Schema, parse_single};

/// Parses a JSON object. Errors repeat no value, which may be a password.
pub(crate) fn parse_object<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let text = text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text);
        let problem = if error.is_data() { strip_value(text) } else { text.to_owned() };
        format!("it is not the JSON that is expected here: {problem} (line {line} column {column})")
    })
}

/// Parses a JSON object that is also a field of a policy, and rejects unknown fields.
///
/// # Errors
/// What is wrong with it, without repeating any value.
pub fn parse_policy_field<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    parse_object::<IgnoredAny>(text)?;
    let node = parse_single(text, Schema::Core).ok().flatten();
    let node = node.ok_or("it is not the JSON that is expected here")?;
    let decoded = decode::<T>(&node).map_err(|misfit| {
        let field = if misfit.field.is_empty() { "it" } else { &misfit.field };
        format!("{field} is not what is expected here: {}", strip_value(&misfit.problem))
    })?;
    match decoded.unknown.first() {
        None => Ok(decoded.value),
        Some(unknown) => {
            // Its name may be anything.
            let end = unknown.field.rfind(['.', '[']);
            let field = end.map_or("it", |end| &unknown.field[..end]);
            Err(format!("{field} has a field that is not known"))
        }
    }
}

/// serde reports `KIND: VALUE, expected WHAT` or ``unknown KIND `TEXT`, expected WHAT``. The names of missing and of duplicate
/// fields are known names.
fn strip_value(text: &str) -> String {
    if text.starts_with("missing field") || text.starts_with("duplicate field") {
        return text.to_owned();
    }
    let kind = text.split([':', '`']).next().unwrap_or_default().trim_end();
    match text.rsplit_once(", expected ") {
        Some((_, expected)) => format!("{kind}, expected {expected}"),
        None => kind.to_owned(),
    }
}

/// RFC 9110 §5.1: a token.
pub(crate) fn check_header_name(text: &str) -> Result<(), String> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    match !text.is_empty() && text.bytes().all(token) {
        true => Ok(()),
        // The rest may be a value, as in `X-Token: ...`.
        false => {
            let name = text.split(|c: char| !c.is_ascii() || !token(c as u8)).next().unwrap_or_default();
            Err(format!("a name that begins with \"{name}\" is no name of a header"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse_policy_field;
    use crate::annotations::headers::{request_headers, response_headers};
    use crate::annotations::{deny, real_ip, redirect};
    use crate::policies::{ApiKey, Authorization, Jwt};

    /// Every value here may be a password in the wrong place.
    #[test]
    fn json_errors_name_the_position_and_repeat_no_value() {
        for value in [
            r#""hunter2""#,
            "X-Token: hunter2",
            "hunter2",
            r#"{"set": "X-Token: hunter2"}"#,
            r#"{"set": ["X-Token: hunter2"]}"#,
            r#"{"set": {"X-Token": ["hunter2"]}}"#,
            r#"{"set": {"X-Token": {"a": "hunter2"}}}"#,
            r#"{"set": "a, expected hunter2"}"#,
            r#"{"set": {"X-Token": "hunter2"}"#,
            r#"{"set": {"X-Token": "hunter2"}, "set": {}}"#,
            r#"{"X-Token: hunter2": ""}"#,
            r#"{"set": {"Authorization: Bearer hunter2": "a"}}"#,
            r#"{"remove": "hunter2"}"#,
            r#"[{"set": "hunter2"}]"#,
            r#"{"set": {"X-Token": "hunter2\u0000"}}"#,
            r#"{"status": "hunter2", "url": "hunter2", "port": "hunter2", "when": "hunter2"}"#,
            r#"{"scheme": "hunter2", "header": {"a": "hunter2"}, "trusted": "hunter2"}"#,
            r#"{"trusted": {"a": "hunter2"}, "when": [{"headers": "hunter2"}]}"#,
            r#"{"when": [{"headers": {"X-Token": ["hunter2"]}}]}"#,
        ] {
            let problems = [
                request_headers(value).err(),
                response_headers(value).err(),
                redirect(value).err(),
                deny(value).err(),
                real_ip(value).err(),
            ];
            for problem in problems {
                let problem = problem.expect("it is refused");
                assert!(!problem.contains("hunter2"), "{value}: {problem}");
            }
        }
        let wrong = request_headers(r#"{"set": "X-Token: hunter2"}"#).unwrap_err();
        let expected =
            "it is not the JSON that is expected here: invalid type, expected a map (line 1 column 26)";
        assert_eq!(wrong, expected);
        let wrong = real_ip("{}").unwrap_err();
        assert!(wrong.contains("missing field `header`"), "{wrong}");
    }

    #[test]
    fn policy_fields_are_parsed_strictly_and_errors_repeat_no_value() {
        for value in [
            r#""hunter2""#,
            "hunter2",
            "issuers: [hunter2]",
            r#"{"hunter2": 1}"#,
            r#"{"issuers": "hunter2", "secretRefs": "hunter2", "rules": "hunter2"}"#,
            r#"{"issuers": ["hunter2"], "secretRefs": ["hunter2"], "rules": ["hunter2"]}"#,
            r#"{"issuers": [{"hunter2": 1}], "secretRefs": [{"hunter2": 1}], "rules": [{"hunter2": 1}]}"#,
            r#"{"issuers": [], "issuers": [], "secretRefs": [], "secretRefs": [], "rules": [], "rules": []}"#,
        ] {
            let problems = [
                parse_policy_field::<Jwt>(value).err(),
                parse_policy_field::<ApiKey>(value).err(),
                parse_policy_field::<Authorization>(value).err(),
            ];
            for problem in problems {
                let problem = problem.expect(value);
                assert!(!problem.contains("hunter2"), "{value}: {problem}");
            }
        }
        let error_for = |value: &str| parse_policy_field::<Jwt>(value).unwrap_err();
        assert_eq!(error_for(r#"{"issuers": [{"isuer": "a"}]}"#), "issuers[0] has a field that is not known");
        assert_eq!(error_for(r#"{"realms": "a"}"#), "it has a field that is not known");
        let wrong = error_for(r#"{"realm": 5}"#);
        assert!(wrong.starts_with("realm is not what is expected here: invalid type"), "{wrong}");
        let read: ApiKey = parse_policy_field(r#"{"secretRefs": [{"name": "partners"}]}"#).unwrap();
        assert_eq!(read.secret_refs[0].name, "partners");
    }
}
