//! Span names (`opentelemetry-operation-name`): text with nginx variables. Credentials are never sent to a collector.

use fairway_model::{Template, TemplatePart, variables};

/// Maximum length, in bytes.
const MAX_BYTES: usize = 256;

/// Headers with credentials, as variables spell their names.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy_authorization"];

/// Parses a name; the error describes the problem.
pub(crate) fn read(text: &str) -> Result<Template, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("it has more than {MAX_BYTES} bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err("it has a control character".to_owned());
    }
    let name = variables::header(text)
        .map_err(|variable| format!("\"{text}\" has {variable}, which is not a known variable"))?;
    if let Some(field) = name.geo_fields().next() {
        return Err(format!(
            "\"{text}\" has ${}, which headers and the access log alone can have",
            field.name()
        ));
    }
    match name.0.iter().find(|part| is_credential(part)) {
        Some(part) => {
            let variable = Template(vec![part.clone()]);
            Err(format!("\"{text}\" has {variable}, which would send credentials to the collector"))
        }
        None => Ok(name),
    }
}

fn is_credential(part: &TemplatePart) -> bool {
    match part {
        TemplatePart::Cookie(_) => true,
        TemplatePart::Header(name) => CREDENTIALS.contains(&&**name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use fairway_model::RuleLabel;

    use super::*;

    #[test]
    fn a_name_has_variables_of_the_request_and_of_its_rule() {
        let text = |text: &str| TemplatePart::Text(text.into());
        let read = read("HTTP $request_method $service_name ${uri}").unwrap();
        let parts = [
            text("HTTP "),
            TemplatePart::Method,
            text(" "),
            TemplatePart::Label(RuleLabel::Service),
            text(" "),
            TemplatePart::Path,
        ];
        assert_eq!(read.0, parts);
    }

    #[test]
    fn an_unknown_variable_and_a_credential_are_reported() {
        for (wrong, named) in [
            ("GET $upstream_addr", "$upstream_addr, which is not a known variable"),
            ("$1", "$1"),
            ("$http_Authorization", "$http_authorization, which would send credentials"),
            ("$http_cookie", "$http_cookie"),
            ("a ${cookie_Sid}", "$cookie_Sid"),
            ("a\tb", "a control character"),
        ] {
            let problem = read(wrong).unwrap_err();
            assert!(problem.contains(named), "{wrong:?}: {problem}");
        }
        assert!(read(&"x".repeat(MAX_BYTES)).is_ok());
        assert!(read(&"x".repeat(MAX_BYTES + 1)).unwrap_err().contains("256 bytes"));
    }
}
