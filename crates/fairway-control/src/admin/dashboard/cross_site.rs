//! Requests that another web site makes a browser send. They are refused, except navigations to a page: the other site cannot
//! read that page (Fetch Metadata Request Headers, `Sec-Fetch-Site`).

use hyper::HeaderMap;

/// Why a request is refused.
pub(super) const REFUSED_TEXT: &str =
    "another web site sent this request; open the dashboard in a window of its own\n";

/// Whether to refuse a request with these headers; `is_document` tells whether it is for a page.
pub(super) fn is_refused(headers: &HeaderMap, is_document: bool) -> bool {
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|it| it.as_bytes() == value.as_bytes());
    let opens_page = is_document && is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document");
    is("sec-fetch-site", "cross-site") && !opens_page
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn another_site_may_only_navigate_to_a_page() {
        for (site, mode, dest, is_document, refused) in [
            ("cross-site", "navigate", "document", true, false),
            ("cross-site", "navigate", "iframe", true, true),
            ("cross-site", "no-cors", "image", true, true),
            ("cross-site", "cors", "empty", true, true),
            ("cross-site", "navigate", "document", false, true),
            ("same-origin", "cors", "empty", false, false),
            ("same-site", "no-cors", "script", false, false),
            ("none", "navigate", "document", true, false),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in
                [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)]
            {
                headers.insert(name, HeaderValue::from_static(value));
            }
            assert_eq!(is_refused(&headers, is_document), refused, "{site} {mode} {dest} {is_document}");
        }
        assert!(!is_refused(&HeaderMap::new(), false), "programs send none of these");
    }
}
