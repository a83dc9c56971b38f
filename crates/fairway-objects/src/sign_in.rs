//! The URL of a sign-in page, including the URL that the client requested.

use fairway_model::variables::{self, parse_template};
use fairway_model::{Template, TemplatePart, redact_url};

/// The URL of the page, with the request's URL as `parameter` unless it has that parameter already. A path refers to the
/// request's own host.
///
/// # Errors
/// What is wrong with the URL.
pub fn page(url: &str, parameter: &str) -> Result<Template, String> {
    let schemes = ["http://", "https://", "$scheme://", "$pass_access_scheme://"];
    let is_path = url.starts_with('/') && !url.starts_with("//");
    let is_url = is_path || schemes.iter().any(|scheme| url.starts_with(scheme));
    if !is_url || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("\"{}\" is no http or https URL", redact_url(url)));
    }
    let mut parts = Vec::new();
    if is_path {
        parts.extend([TemplatePart::Scheme, TemplatePart::Text("://".into()), TemplatePart::HttpHost]);
    }
    let read = parse_template(url).map_err(|variable| variables::url_problem(url, &variable))?;
    parts.extend(read.0);
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let parameters = || query.split('&').filter(|part| !part.is_empty());
    let is_there =
        |part: &str| part.split_once('=').is_some_and(|(it, to)| it == parameter && !to.is_empty());
    if !parameters().any(is_there) {
        let mark = match (url.contains('?'), parameters().next()) {
            (_, Some(_)) => "&",
            (true, None) => "",
            (false, None) => "?",
        };
        let parameter_parts = [
            TemplatePart::Text(format!("{mark}{parameter}=").into()),
            TemplatePart::Scheme,
            TemplatePart::Text("://".into()),
            TemplatePart::HttpHost,
            TemplatePart::EscapedRequestUri,
        ];
        parts.extend(parameter_parts);
    }
    Ok(Template(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_gets_the_url_unless_it_has_one() {
        const RETURN_URL: &str = "$scheme://$http_host$escaped_request_uri";
        let page = |url: &str, parameter: &str| page(url, parameter).unwrap().to_string();
        assert_eq!(
            page("https://login.test/start", "rd"),
            format!("https://login.test/start?rd={RETURN_URL}")
        );
        assert_eq!(page("https://a.test/?t=x", "back"), format!("https://a.test/?t=x&back={RETURN_URL}"));
        assert_eq!(page("/start", "rd"), format!("$scheme://$http_host/start?rd={RETURN_URL}"));
        let with_parameter = "https://$host/oauth2/start?rd=$escaped_request_uri";
        assert_eq!(page(with_parameter, "rd"), with_parameter);
    }

    #[test]
    fn invalid_page_urls_are_rejected() {
        for wrong in
            ["u:hunter2@a", "https://a/ u:hunter2@b", "https://u:$hunter2@a/", "https://a/ ?t=hunter2"]
        {
            let problem = page(wrong, "rd").unwrap_err();
            assert!(!problem.contains("hunter2"), "{wrong}: {problem}");
        }
        for wrong in ["login", "javascript:alert(1)", "//a.test/", "https://a.test/$arg_x", "https://a/ b"] {
            assert!(page(wrong, "rd").is_err(), "{wrong}");
        }
    }
}
