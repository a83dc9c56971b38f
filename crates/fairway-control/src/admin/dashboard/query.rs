//! The query parameters of a page.

use super::problem::Problem;

/// The decoded query parameters of a page.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the part after `?`, if there is one.
    pub(super) fn parse(text: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(text.unwrap_or_default().as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// The first value of a parameter. Browsers send empty form fields: those count as absent.
    pub(super) fn value(&self, parameter: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(name, _)| name == parameter)?;
        Some(value.trim()).filter(|value| !value.is_empty())
    }

    /// The value of a required parameter.
    pub(super) fn required(&self, parameter: &str) -> Result<&str, Problem> {
        self.value(parameter).ok_or_else(|| Problem::bad_parameter(parameter, "it is missing"))
    }

    /// The index in a parameter, counted from 0.
    pub(super) fn position(&self, parameter: &str) -> Result<usize, Problem> {
        let text = self.required(parameter)?;
        text.parse().map_err(|_| Problem::bad_parameter(parameter, format!("{text:?} is not a number")))
    }

    /// The requested page of a listing, counted from 1.
    pub(super) fn page(&self) -> Result<usize, Problem> {
        let Some(text) = self.value("page") else { return Ok(1) };
        match text.parse() {
            Ok(page) if page >= 1 => Ok(page),
            _ => Err(Problem::bad_parameter("page", format!("{text:?} is not a number from 1"))),
        }
    }

    /// The same parameters for another page of the listing.
    pub(super) fn with_page(&self, page: usize) -> String {
        let others = self.0.iter().filter(|(name, value)| name != "page" && !value.is_empty());
        let mut pairs: Vec<(&str, &str)> = others.map(|(name, value)| (&**name, &**value)).collect();
        let page = page.to_string();
        pairs.push(("page", &page));
        parameters(&pairs)
    }
}

/// Encodes parameters as they appear after `?`.
pub(super) fn parameters(pairs: &[(&str, &str)]) -> String {
    let mut written = form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs {
        written.append_pair(name, value);
    }
    written.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_they_were_written() {
        let written = parameters(&[("q", "a b&c=/ä%"), ("empty", "")]);
        let query = Query::parse(Some(&written));
        assert_eq!(
            (query.value("q"), query.value("empty"), query.value("page")),
            (Some("a b&c=/ä%"), None, None)
        );
        assert_eq!(Query::parse(Some(&query.with_page(7))).page().unwrap(), 7);
        assert_eq!(Query::parse(Some(&query.with_page(7))).value("q"), Some("a b&c=/ä%"));
    }

    #[test]
    fn a_problem_names_its_parameter() {
        let query = Query::parse(Some("page=0&rule=x"));
        for problem in [query.page().unwrap_err(), query.position("rule").unwrap_err()] {
            assert!(problem.text.contains("page") || problem.text.contains("rule"), "{problem:?}");
        }
        assert!(query.required("host").unwrap_err().text.contains("host"));
    }
}
