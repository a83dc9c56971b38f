//! `real-ip`: takes the client's address from a header that a CDN or another proxy in front sets.

use fairway_model::RealIp;
use ipnet::IpNet;
use serde::Deserialize;

use crate::annotations::text::parse_range;
use crate::annotations::value::{check_header_name, parse_object};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RealIpAnnotation {
    header: String,
    trusted: Vec<String>,
}

/// Headers that only trusted peers of the whole installation may send: they are removed before a rule is selected.
const FORWARDING_HEADERS: [&str; 7] =
    ["forwarded", "x-forwarded-", "x-original-", "x-real-", "x-scheme", "x-sent-from", "x-ssl-"];

/// Parses the annotation.
///
/// # Errors
/// What is wrong with it.
pub fn real_ip(value: &str) -> Result<RealIp, String> {
    let RealIpAnnotation { header, trusted } = parse_object(value)?;
    check_header_name(&header)?;
    let header = header.to_ascii_lowercase();
    if header != "x-forwarded-for" && FORWARDING_HEADERS.iter().any(|beginning| header.starts_with(beginning))
    {
        return Err(format!(
            "{header} is taken from peers alone that the settings ConfigMap trusts (proxy-real-ip-cidr); X-Forwarded-For and \
             headers such as CF-Connecting-IP work here"
        ));
    }
    if trusted.is_empty() {
        return Err("\"trusted\" is empty, so that nobody would be believed".to_owned());
    }
    let trusted = trusted.iter().map(|range| parse_trusted_range(range)).collect::<Result<Vec<_>, _>>()?;
    Ok(RealIp { header: header.into(), trusted, last_only: false })
}

fn parse_trusted_range(text: &str) -> Result<IpNet, String> {
    match parse_range(text) {
        Ok(range) if range.prefix_len() == 0 => {
            Err(format!("{text} is everybody: each client could claim any address"))
        }
        Ok(range) => Ok(range),
        Err(_) => Err(format!("\"{text}\" is neither an address nor a range")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_and_the_trusted_peers_are_read() {
        let Ok(real_ip_header) =
            real_ip(r#"{"header": "CF-Connecting-IP", "trusted": ["10.0.0.0/8", "2001:db8::1"]}"#)
        else {
            panic!("it is read");
        };
        assert_eq!((&*real_ip_header.header, real_ip_header.trusted.len()), ("cf-connecting-ip", 2));
    }

    #[test]
    fn trusting_every_peer_is_rejected() {
        for (value, words) in [
            (r#"{"header": "X", "trusted": ["0.0.0.0/0"]}"#, "everybody"),
            (r#"{"header": "X", "trusted": ["::/0"]}"#, "everybody"),
            (r#"{"header": "X", "trusted": []}"#, "nobody"),
            (r#"{"header": "X-Real-IP", "trusted": ["10.0.0.1"]}"#, "proxy-real-ip-cidr"),
            (r#"{"header": "X", "trusted": ["a"]}"#, "neither an address nor a range"),
            (r#"{"header": "", "trusted": ["10.0.0.1"]}"#, "no name"),
        ] {
            let problem = real_ip(value).unwrap_err();
            assert!(problem.contains(words), "{value}: {problem}");
        }
    }
}
