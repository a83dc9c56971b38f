//! SETTINGS (RFC 9114 §7.2.4): checks the client's and writes ours. The client's are not kept: none of them changes
//! what this server sends.

use bytes::Bytes;

use crate::code::{Code, Fault};
use crate::config::Config;
use crate::{frame, varint};

const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
const QPACK_BLOCKED_STREAMS: u64 = 0x7;
const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
const H3_DATAGRAM: u64 = 0x33;

/// Identifiers of HTTP/2 without a meaning here: "their receipt MUST be treated as a connection error of type H3_SETTINGS_ERROR"
/// (RFC 9114 §7.2.4.1).
const HTTP2: [u64; 4] = [0x2, 0x3, 0x4, 0x5];

/// Maximum settings in a frame. Known clients send fewer than ten.
const MAX_SETTINGS: usize = 64;

/// Checks the payload of the client's SETTINGS.
///
/// # Errors
/// H3_SETTINGS_ERROR for a repeated identifier (RFC 9114 §7.2.4), one of HTTP/2, or an invalid value; H3_FRAME_ERROR
/// for a truncated payload; H3_EXCESSIVE_LOAD for too many settings.
pub(crate) fn check(mut payload: &[u8]) -> Result<(), Fault> {
    let error = |rule| Err(Fault::connection(Code::Settings, rule));
    let mut identifiers: Vec<u64> = Vec::new();
    while !payload.is_empty() {
        let setting = varint::read(payload).and_then(|(identifier, first)| {
            let (value, second) = varint::read(&payload[first..])?;
            Some((identifier, value, first + second))
        });
        let Some((identifier, value, used)) = setting else {
            return Err(Fault::connection(Code::Frame, "settings_truncated"));
        };
        payload = &payload[used..];
        if HTTP2.contains(&identifier) {
            return error("setting_of_http2");
        }
        if identifiers.contains(&identifier) {
            return error("setting_repeated");
        }
        if identifiers.len() == MAX_SETTINGS {
            return Err(Fault::connection(Code::ExcessiveLoad, "too_many_settings"));
        }
        identifiers.push(identifier);
        // RFC 9220 §3 with RFC 8441 §3, and RFC 9297 §2.1.1: 0 or 1.
        if matches!(identifier, ENABLE_CONNECT_PROTOCOL | H3_DATAGRAM) && value > 1 {
            return error("setting_value");
        }
    }
    Ok(())
}

/// Our SETTINGS frame.
pub(crate) fn frame(config: &Config) -> Bytes {
    let mut payload = Vec::with_capacity(32);
    let mut setting = |identifier, value: u32| {
        varint::write(identifier, &mut payload);
        varint::write(u64::from(value), &mut payload);
    };
    setting(MAX_FIELD_SECTION_SIZE, config.limits.list_bytes);
    // "0" is their default.
    if config.qpack_table > 0 {
        setting(QPACK_MAX_TABLE_CAPACITY, config.qpack_table);
        setting(QPACK_BLOCKED_STREAMS, config.blocked_streams);
    }
    if config.extended_connect {
        setting(ENABLE_CONNECT_PROTOCOL, 1);
    }
    frame::complete_frame(frame::SETTINGS, &payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_have_a_valid_payload() {
        let config = Config { extended_connect: true, ..Config::default() };
        let out = frame(&config);
        assert_eq!(out[..2], [4, out.len() as u8 - 2]);
        assert_eq!(check(&out[2..]), Ok(()));
        assert_eq!(out[2..], [6, 0x80, 0, 0x80, 0, 1, 0x50, 0, 7, 16, 8, 1]);
        let none = Config { qpack_table: 0, ..Config::default() };
        assert_eq!(frame(&none)[..], [4, 5, 6, 0x80, 0, 0x80, 0]);
    }

    #[test]
    fn rfc9114_7_2_4_bad_payloads_are_refused() {
        let code = |payload: &[u8]| check(payload).map_err(|fault| fault.code);
        assert_eq!(code(&[]), Ok(()));
        assert_eq!(code(&[0x21, 7, 0x40, 0x40, 0]), Ok(()), "a reserved and an unknown one");
        for identifier in 2..=5 {
            assert_eq!(code(&[identifier, 0]), Err(Code::Settings));
        }
        assert_eq!(code(&[6, 1, 6, 1]), Err(Code::Settings));
        assert_eq!(code(&[0x21, 1, 0x40, 0x21, 1]), Err(Code::Settings), "the same in a longer form");
        assert_eq!(code(&[8, 2]), Err(Code::Settings));
        for truncated in [&[6][..], &[0x40], &[6, 0x80, 0]] {
            assert_eq!(code(truncated), Err(Code::Frame));
        }
        let many: Vec<u8> = (0x40..=0x80).flat_map(|low| [0x41, low, 0]).collect();
        assert_eq!(code(&many), Err(Code::ExcessiveLoad));
    }
}
