//! The content codings that a client accepts (RFC 9110 §12.5.3).

use fairway_http::{Head, Version};
use fairway_model::{CodingRule, ContentCoding};

/// The weight of each coding in thousandths, as the client gave it; 0 means not accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accepted {
    brotli: u16,
    gzip: u16,
    zstd: u16,
}

/// The weights in `Accept-Encoding`. The first mention of a coding counts.
#[derive(Default)]
struct Weights {
    brotli: Option<u16>,
    gzip: Option<u16>,
    zstd: Option<u16>,
    identity: Option<u16>,
    /// `*`: any coding that is not named.
    others: Option<u16>,
}

/// The weight of a coding without an explicit one.
const FULL_WEIGHT: u16 = 1000;

impl Accepted {
    /// No coding is accepted.
    pub(crate) const NONE: Self = Self { brotli: 0, gzip: 0, zstd: 0 };

    /// Reads the request head as the client sent it. `has_certificate`: the connection may have a client certificate.
    pub(crate) fn from_request(request: &Head, has_certificate: bool) -> Self {
        // nginx: `gzip_http_version` 1.1.
        if request.version() < Version::Http11 || could_reveal_secrets(request, has_certificate) {
            return Self::NONE;
        }
        Self::parse(request.all_named(b"Accept-Encoding"))
    }

    fn parse<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut weights = Weights::default();
        for element in values.flat_map(|value| value.split(|byte| *byte == b',')) {
            weights.add_element(element);
        }
        // "*" in an Accept-Encoding field matches any available content coding not explicitly listed. If no coding is
        // acceptable, the response is not changed, and never 406. A client that prefers `identity` gets that.
        let Weights { brotli, gzip, zstd, identity, others } = weights;
        let weight_of = |weight: Option<u16>| {
            weight.or(others).filter(|weight| *weight >= identity.unwrap_or_default()).unwrap_or_default()
        };
        Self { brotli: weight_of(brotli), gzip: weight_of(gzip), zstd: weight_of(zstd) }
    }

    /// The coding that the client prefers; the first among equals.
    pub(super) fn choose<'r>(self, rules: impl Iterator<Item = &'r CodingRule>) -> Option<&'r CodingRule> {
        let weight = |rule: &CodingRule| match rule.coding {
            ContentCoding::Brotli => self.brotli,
            ContentCoding::Gzip => self.gzip,
            ContentCoding::Zstd => self.zstd,
        };
        let better = |best: Option<&'r CodingRule>, rule: &'r CodingRule| {
            if weight(rule) > best.map_or(0, weight) { Some(rule) } else { best }
        };
        rules.fold(None, better)
    }
}

impl Weights {
    /// Reads one element of the list: `codings [ weight ]`.
    fn add_element(&mut self, element: &[u8]) {
        let end = element.iter().position(|byte| *byte == b';');
        let (coding, weight) = match end {
            Some(end) => (&element[..end], weight(&element[end + 1..])),
            None => (element, FULL_WEIGHT),
        };
        let slot = match coding.trim_ascii().to_ascii_lowercase().as_slice() {
            b"br" => &mut self.brotli,
            // "A recipient SHOULD consider "x-gzip" to be equivalent to "gzip"" (§8.4.1.3).
            b"gzip" | b"x-gzip" => &mut self.gzip,
            b"zstd" => &mut self.zstd,
            b"identity" => &mut self.identity,
            b"*" => &mut self.others,
            _ => return,
        };
        slot.get_or_insert(weight);
    }
}

/// `OWS "q=" qvalue OWS` (§12.4.2) in thousandths. A malformed weight is 0: an uncompressed response is never wrong.
fn weight(text: &[u8]) -> u16 {
    let text = text.trim_ascii();
    let value = text.strip_prefix(b"q=").or_else(|| text.strip_prefix(b"Q="));
    let Some([whole @ (b'0' | b'1'), rest @ ..]) = value else { return 0 };
    let digits = match rest {
        [] => rest,
        [b'.', digits @ ..] if digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit) => digits,
        _ => return 0,
    };
    let value = (0..3).fold(u16::from(whole - b'0'), |value, at| {
        value * 10 + digits.get(at).map_or(0, |digit| u16::from(digit - b'0'))
    });
    if value > FULL_WEIGHT { 0 } else { value }
}

/// Whether the length of a compressed response could reveal its content to another site (BREACH): that site makes the request,
/// which is answered with the user's credentials.
fn could_reveal_secrets(request: &Head, has_certificate: bool) -> bool {
    let is_cross_site =
        request.all_named(b"Sec-Fetch-Site").any(|value| value.eq_ignore_ascii_case(b"cross-site"));
    let has_credentials = || {
        // Browsers send certificates with cross-site requests as they send cookies (Fetch, "credentials").
        has_certificate || [&b"Cookie"[..], b"Authorization"].iter().any(|name| request.named(name).is_some())
    };
    is_cross_site && has_credentials()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Vec<CodingRule> {
        let rule = |coding| CodingRule {
            coding,
            level: 1,
            min_length: 0,
            types: [std::sync::Arc::from("*")].into(),
        };
        vec![rule(ContentCoding::Zstd), rule(ContentCoding::Brotli), rule(ContentCoding::Gzip)]
    }

    fn request(fields: &[(&str, &str)]) -> Head {
        let mut head = Head::new();
        head.start_request(b"GET", b"/");
        fields.iter().for_each(|(name, value)| head.append(name.as_bytes(), value.as_bytes()));
        head
    }

    fn chosen_coding(request: &Head) -> &'static str {
        let rules = rules();
        Accepted::from_request(request, false).choose(rules.iter()).map_or("", |rule| rule.coding.name())
    }

    #[test]
    fn the_coding_that_the_client_likes_best_is_chosen() {
        for (lines, expected) in [
            (&[][..], ""),
            (&[""], ""),
            (&["gzip"], "gzip"),
            (&["x-gzip"], "gzip"),
            (&["GZip"], "gzip"),
            (&["br"], "br"),
            (&["zstd"], "zstd"),
            (&["ZSTD;q=0.1"], "zstd"),
            (&["gzip, deflate, br, zstd"], "zstd"),
            (&["gzip, br, zstd;q=0.9"], "br"),
            (&["zstd;q=0, *"], "br"),
            (&["zst", "zstandard", "x-zstd", "deflate, compress, dcz"], ""),
            (&["gzip, br"], "br"),
            (&["gzip", "br"], "br"),
            (&["gzip;q=1.0, br;q=0.9"], "gzip"),
            (&["br;q=0.5", "gzip;q=0.501"], "gzip"),
            (&["gzip;q=0.001"], "gzip"),
            (&["gzip;q=0"], ""),
            (&["gzip;q=0.000, br;q=0."], ""),
            (&["gzip ; q=0.5 ,br; Q=0.4"], "gzip"),
            (&["gzip\t;\tq=1.\t"], "gzip"),
            (&[" , ,gzip,"], "gzip"),
            (&["*"], "zstd"),
            (&["*;q=0"], ""),
            (&["*;q=0, gzip"], "gzip"),
            (&["br;q=0, *"], "zstd"),
            (&["br;q=0, zstd;q=0, *"], "gzip"),
            (&["*;q=0.5, gzip;q=0.4"], "zstd"),
            (&["identity"], ""),
            (&["identity;q=0"], ""),
            (&["identity;q=0, *;q=0"], ""),
            (&["identity, gzip"], "gzip"),
            (&["identity, gzip;q=0.9"], ""),
            (&["identity;q=0.5, gzip;q=0.4, br;q=0.6"], "br"),
            (&["identity, *;q=0.5"], ""),
            // The first mention counts, also of the same coding by another name.
            (&["gzip;q=0, gzip"], ""),
            (&["x-gzip;q=0, gzip"], ""),
            // Malformed weights are 0.
            (&["gzip;q=2"], ""),
            (&["gzip;q=1.001"], ""),
            (&["gzip;q=0.0001"], ""),
            (&["gzip;q=-1"], ""),
            (&["gzip;q=a"], ""),
            (&["gzip;q="], ""),
            (&["gzip;q"], ""),
            (&["gzip;"], ""),
            (&["gzip;q =1"], ""),
            (&["gzip;q=1;a=b"], ""),
            (&["gzip;level=9"], ""),
            (&["gzip;q=1 0"], ""),
            (&["gzip;q=a, *"], "zstd"),
            (&["zstd;q=a, br;q=a, *"], "gzip"),
            (&["gzi", "gzipp", "b r"], ""),
        ] {
            let fields: Vec<_> = lines.iter().map(|line| ("accept-encoding", *line)).collect();
            assert_eq!(chosen_coding(&request(&fields)), expected, "{lines:?}");
        }
    }

    #[test]
    fn weights_are_read_to_the_thousandth() {
        for (text, expected) in [
            ("q=0", 0),
            ("q=0.1", 100),
            ("q=0.12", 120),
            ("q=0.123", 123),
            ("q=1", 1000),
            ("q=1.", 1000),
            ("q=1.000", 1000),
            (" Q=0.5 ", 500),
            ("q=1.1", 0),
            ("q=.5", 0),
            ("q=00", 0),
            ("0.5", 0),
        ] {
            assert_eq!(weight(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn clients_of_http_1_0_and_requests_that_could_reveal_secrets_get_none() {
        let all = ("Accept-Encoding", "br, gzip");
        let cross = ("Sec-Fetch-Site", "cross-site");
        let cookie = ("Cookie", "a=b");
        let authorization = ("Authorization", "Basic YTpi");
        for (fields, expected) in [
            (&[all][..], "br"),
            (&[all, cross], "br"),
            (&[all, cookie, authorization], "br"),
            (&[all, cross, cookie], ""),
            (&[all, authorization, ("sec-fetch-site", "Cross-Site")], ""),
            (&[all, ("Sec-Fetch-Site", "same-site"), cookie], "br"),
            (&[all, ("Sec-Fetch-Site", "same-origin"), cookie], "br"),
            (&[all, ("Sec-Fetch-Site", "none"), cookie], "br"),
            (&[all, ("Sec-Fetch-Site", "none"), cross, cookie], ""),
        ] {
            assert_eq!(chosen_coding(&request(fields)), expected, "{fields:?}");
        }
        let mut old = request(&[all]);
        old.set_version(Version::Http10);
        assert_eq!(chosen_coding(&old), "");
        old.set_version(Version::Http2);
        assert_eq!(chosen_coding(&old), "br");
    }

    #[test]
    fn only_codings_that_the_response_can_get_are_chosen() {
        let rules = rules();
        let accepted = Accepted::from_request(&request(&[("Accept-Encoding", "br, gzip;q=0.1")]), false);
        let name = |rule: Option<&CodingRule>| rule.map(|rule| rule.coding.name());
        assert_eq!(name(accepted.choose(rules.iter())), Some("br"));
        assert_eq!(name(accepted.choose(rules[2..].iter())), Some("gzip"));
        assert_eq!(name(accepted.choose(rules[..0].iter())), None);
    }
}
