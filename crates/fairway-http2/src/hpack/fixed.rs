//! The static table (RFC 7541 Appendix A) as prepared lines, with lookup by name.

use super::static_table::NameIndex;
use crate::verdict::{Defect, Verdict};

/// The number of entries; the dynamic table begins after them.
pub(super) const COUNT: usize = TABLE.len();

const REGULAR: Verdict = Verdict::Regular;
const HOP: Verdict = Verdict::Bad(Defect::ConnectionField);

static_table! {
    ":authority", "", Other, Verdict::Authority, Verdict::Bad(Defect::Authority);
    ":method", "GET", Other, Verdict::Method;
    ":method", "POST", Other, Verdict::Method;
    ":path", "/", Other, Verdict::Path;
    ":path", "/index.html", Other, Verdict::Path;
    ":scheme", "http", Other, Verdict::Scheme;
    ":scheme", "https", Other, Verdict::Scheme;
    ":status", "200", Other, Verdict::Status;
    ":status", "204", Other, Verdict::Status;
    ":status", "206", Other, Verdict::Status;
    ":status", "304", Other, Verdict::Status;
    ":status", "400", Other, Verdict::Status;
    ":status", "404", Other, Verdict::Status;
    ":status", "500", Other, Verdict::Status;
    "accept-charset", "", Other, REGULAR;
    "accept-encoding", "gzip, deflate", Other, REGULAR;
    "accept-language", "", Other, REGULAR;
    "accept-ranges", "", Other, REGULAR;
    "accept", "", Other, REGULAR;
    "access-control-allow-origin", "", Other, REGULAR;
    "age", "", Other, REGULAR;
    "allow", "", Other, REGULAR;
    "authorization", "", Other, REGULAR;
    "cache-control", "", Other, REGULAR;
    "content-disposition", "", Other, REGULAR;
    "content-encoding", "", Other, REGULAR;
    "content-language", "", Other, REGULAR;
    "content-length", "", ContentLength, Verdict::Length, Verdict::Bad(Defect::ContentLength);
    "content-location", "", Other, REGULAR;
    "content-range", "", Other, REGULAR;
    "content-type", "", ContentType, REGULAR;
    "cookie", "", Other, Verdict::Cookie;
    "date", "", Date, REGULAR;
    "etag", "", Other, REGULAR;
    "expect", "", Expect, REGULAR;
    "expires", "", Other, REGULAR;
    "from", "", Other, REGULAR;
    "host", "", Host, Verdict::Host;
    "if-match", "", Other, REGULAR;
    "if-modified-since", "", Other, REGULAR;
    "if-none-match", "", Other, REGULAR;
    "if-range", "", Other, REGULAR;
    "if-unmodified-since", "", Other, REGULAR;
    "last-modified", "", Other, REGULAR;
    "link", "", Other, REGULAR;
    "location", "", Location, REGULAR;
    "max-forwards", "", Other, REGULAR;
    "proxy-authenticate", "", Other, REGULAR;
    "proxy-authorization", "", Other, REGULAR;
    "range", "", Other, REGULAR;
    "referer", "", Referer, REGULAR;
    "refresh", "", Other, REGULAR;
    "retry-after", "", Other, REGULAR;
    "server", "", Server, REGULAR;
    "set-cookie", "", Other, REGULAR;
    "strict-transport-security", "", StrictTransportSecurity, REGULAR;
    "transfer-encoding", "", TransferEncoding, HOP;
    "user-agent", "", UserAgent, REGULAR;
    "vary", "", Other, REGULAR;
    "via", "", Other, REGULAR;
    "www-authenticate", "", Other, REGULAR;
}

static NAMES: NameIndex<COUNT> = NameIndex::new(&TABLE);

/// The lowest index of a name in any case, if there is one.
#[inline]
pub(super) fn index_of(name: &[u8]) -> Option<usize> {
    NAMES.indices_of(name).next().map(|place| place + 1)
}

/// The index of a field with this value and a name whose lowest index is `lowest`.
#[inline]
pub(super) fn with_value(lowest: usize, value: &[u8]) -> Option<usize> {
    let name = TABLE[lowest - 1].name;
    let mut index = lowest;
    while let Some(entry) = TABLE.get(index - 1).filter(|entry| entry.name == name) {
        if entry.value == value && !value.is_empty() {
            return Some(index);
        }
        index += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairway_http::Known;

    #[test]
    fn rfc7541_a_the_static_table_has_61_entries_with_known_indices() {
        assert_eq!(COUNT, 61);
        for entry in &TABLE {
            let line = [entry.name, b": ", entry.value, b"\r\n"].concat();
            assert_eq!(entry.bytes, line);
            assert_eq!(entry.known, Known::from_name(entry.name), "{:?}", str::from_utf8(entry.name));
            assert_eq!(entry.name_verdict, Verdict::for_name(entry.name));
            assert_eq!(entry.verdict, Verdict::for_field(entry.name, entry.value));
        }
        assert_eq!((TABLE[1].value, TABLE[60].name), (&b"GET"[..], &b"www-authenticate"[..]));
        assert_eq!((TABLE[15].value, TABLE[57].name), (&b"gzip, deflate"[..], &b"user-agent"[..]));
    }

    #[test]
    fn names_lead_to_their_lowest_index() {
        for entry in &TABLE {
            let lowest = TABLE.iter().position(|other| other.name == entry.name).unwrap() + 1;
            assert_eq!(index_of(entry.name), Some(lowest));
            assert_eq!(index_of(&entry.name.to_ascii_uppercase()), Some(lowest));
        }
        for name in ["", "x", "accept-", "content-lengtH1", ":pat"] {
            assert_eq!(index_of(name.as_bytes()), None, "{name}");
        }
        for entry in &TABLE {
            for at in 0..entry.name.len() {
                let mut other = entry.name.to_vec();
                other[at] ^= 2;
                assert_eq!(index_of(&other), None, "{:?}", str::from_utf8(&other));
            }
        }
    }

    #[test]
    fn values_lead_to_whole_entries() {
        assert_eq!(with_value(2, b"POST"), Some(3));
        assert_eq!(with_value(8, b"500"), Some(14));
        assert_eq!(with_value(8, b"201"), None);
        assert_eq!(with_value(16, b"gzip, deflate"), Some(16));
        assert_eq!(with_value(61, b""), None);
    }
}
