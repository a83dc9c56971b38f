//! Caching of auth responses: `auth-cache-key` and `auth-cache-duration`, or the keys of the settings ConfigMap.

use std::time::Duration;

use fairway_model::{Template, TemplatePart, variables};

/// ingress-nginx: default of `auth-cache-duration`.
const DEFAULT_DURATION: &str = "200 202 401 5m";

/// Parses a cache key; `None` if it is empty. A key that is equal for all clients would admit everyone once the
/// service has admitted one client.
pub(crate) fn key(text: &str) -> Result<Option<Template>, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_${}".contains(&byte);
    if !text.bytes().all(plain) {
        return Err(format!("\"{text}\" has characters other than letters, digits and -_${{}}"));
    }
    let key = variables::parse_compared(text).map_err(|name| {
        format!(
            "\"{text}\" has {name}, and besides {} only {} work",
            variables::CLIENT_VARIABLES,
            variables::URL_VARIABLES
        )
    })?;
    let tells_clients_apart = |part: &TemplatePart| {
        use TemplatePart::{Address, BasicUser, Cookie, Header};
        matches!(part, Address | BasicUser | Cookie(_) | Header(_))
    };
    if !text.is_empty() && !key.0.iter().any(tells_clients_apart) {
        let (compared, address) = (variables::CLIENT_VARIABLES, "$remote_addr");
        return Err(format!(
            "\"{text}\" has none of {compared} and {address}, so that all clients would share one decision"
        ));
    }
    Ok((!text.is_empty()).then_some(key))
}

/// Parses times by status, each as in nginx's `proxy_cache_valid`: statuses, `any` or neither, then a time.
pub(crate) fn cache_times(text: &str) -> Result<Vec<(Option<u16>, Duration)>, String> {
    let rules = |text: &str| -> Option<Vec<_>> {
        let rules = text.split(',').map(str::trim).filter(|rule| !rule.is_empty());
        Some(rules.map(parse_rule).collect::<Option<Vec<_>>>()?.concat())
    };
    match rules(text) {
        Some(times) if times.is_empty() => Ok(rules(DEFAULT_DURATION).expect("the default is good")),
        Some(times) => Ok(times),
        None => Err(format!("\"{text}\" is no list of statuses and a time, as in \"200 202 10m, 401 1m\"")),
    }
}

/// nginx: "If only caching time is specified then only 200, 301, and 302 responses are cached."
fn parse_rule(text: &str) -> Option<Vec<(Option<u16>, Duration)>> {
    let (statuses, time) = text.rsplit_once(' ').map_or(("", text), |(statuses, time)| (statuses, time));
    let time = parse_time(time)?;
    let status = |text: &str| match text {
        "any" => Some(None),
        _ => text.parse().ok().filter(|status| (100..600).contains(status)).map(Some),
    };
    let statuses: Vec<_> = statuses.split_ascii_whitespace().map(status).collect::<Option<_>>()?;
    let statuses = if statuses.is_empty() { [200, 301, 302].map(Some).into() } else { statuses };
    Some(statuses.into_iter().map(|status| (status, time)).collect())
}

/// A number with a unit, which ingress-nginx requires.
fn parse_time(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        "M" => 30 * 86_400,
        "y" => 365 * 86_400,
        _ => return None,
    };
    let number: u64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    number.checked_mul(unit).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_belong_to_the_statuses_before_them() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let default = vec![(Some(200), minutes(5)), (Some(202), minutes(5)), (Some(401), minutes(5))];
        assert_eq!(cache_times(""), Ok(default.clone()));
        assert_eq!(cache_times(" , "), Ok(default));
        let read = cache_times("200  202 10m, any 1h,30s").unwrap();
        let second = Duration::from_secs(30);
        let expected = [
            (Some(200), minutes(10)),
            (Some(202), minutes(10)),
            (None, minutes(60)),
            (Some(200), second),
            (Some(301), second),
            (Some(302), second),
        ];
        assert_eq!(read, expected);
        for wrong in
            ["200", "200 5", "5m 200", "1h 30m", "2000 5m", "200 5x", "x 5m", "200 -5m", "200 5m, 401"]
        {
            assert!(cache_times(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_is_text_and_variables() {
        assert_eq!(key(""), Ok(None));
        for right in ["$remote_user$http_authorization", "$remote_addr", "$host-$cookie_sid"] {
            assert!(key(right).unwrap().is_some(), "{right}");
        }
        for wrong in
            ["$arg_token", "a b", "$http_x:$host", "$host", "constant", "$request_uri$request_method"]
        {
            assert!(key(wrong).is_err(), "{wrong}");
        }
    }
}
