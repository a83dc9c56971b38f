//! The rules of each frame type.

use super::*;
use crate::fault::{Code, Fault, Scope};

const ALL: [FrameKind; 11] = [
    FrameKind::Data,
    FrameKind::Headers,
    FrameKind::Priority,
    FrameKind::Reset,
    FrameKind::Settings,
    FrameKind::PushPromise,
    FrameKind::Ping,
    FrameKind::GoAway,
    FrameKind::WindowUpdate,
    FrameKind::Continuation,
    FrameKind::PriorityUpdate,
];

fn judged(kind: FrameKind, length: u32, stream: u32) -> Result<Option<FrameKind>, (Scope, Code)> {
    let header = Header { length, kind: kind.number(), flags: 0, stream };
    check_header(&header, MAX_FRAME_BYTES).map_err(|fault| (fault.scope, fault.code))
}

const C_PE: Result<Option<FrameKind>, (Scope, Code)> = Err((Scope::Connection, Code::Protocol));
const C_FS: Result<Option<FrameKind>, (Scope, Code)> = Err((Scope::Connection, Code::FrameSize));
const S_FS: Result<Option<FrameKind>, (Scope, Code)> = Err((Scope::Stream, Code::FrameSize));

#[test]
fn rfc9113_4_1_headers_read_back_without_the_reserved_bit() {
    let header = Header { length: 0x01_0203, kind: 4, flags: 5, stream: 0x7fff_fffe };
    let mut bytes = header.bytes();
    assert_eq!(bytes, [1, 2, 3, 4, 5, 0x7f, 0xff, 0xff, 0xfe]);
    bytes[5] |= 0x80;
    assert_eq!(Header::read(&bytes), header);
}

#[test]
fn rfc9113_4_1_every_type_has_its_number_and_others_are_ignored() {
    for kind in ALL {
        assert_eq!(FrameKind::from_number(kind.number()), Some(kind));
    }
    let known = (0..=255).filter(|&number| FrameKind::from_number(number).is_some()).count();
    assert_eq!(known, ALL.len());
    let unknown =
        |length| check_header(&Header { length, kind: 0x20, flags: 0xff, stream: 7 }, MAX_FRAME_BYTES);
    assert_eq!(unknown(MAX_FRAME_BYTES), Ok(None));
    assert!(unknown(MAX_FRAME_BYTES + 1).is_err());
}

#[test]
fn rfc9113_4_2_frames_that_are_too_long() {
    let long = MAX_FRAME_BYTES + 1;
    assert_eq!(judged(FrameKind::Data, long, 1), S_FS);
    assert_eq!(judged(FrameKind::Headers, long, 1), C_FS);
    assert_eq!(judged(FrameKind::Continuation, long, 1), C_FS);
    assert_eq!(judged(FrameKind::Settings, 6 * 3000, 0), C_FS);
    assert_eq!(judged(FrameKind::GoAway, long, 0), C_FS);
    assert_eq!(judged(FrameKind::PriorityUpdate, long, 0), C_FS);
    assert_eq!(judged(FrameKind::Data, MAX_FRAME_BYTES, 1), Ok(Some(FrameKind::Data)));
}

#[test]
fn rfc9113_6_each_type_stands_on_a_stream_or_on_the_connection() {
    use FrameKind::{Continuation, Data, GoAway, Headers, Ping, Priority, PriorityUpdate, Reset, Settings};
    for (kind, length) in [(Data, 9), (Headers, 9), (Continuation, 9), (Priority, 5), (Reset, 4)] {
        assert_eq!(judged(kind, length, 0), C_PE, "{kind:?}");
        assert_eq!(judged(kind, length, 1), Ok(Some(kind)), "{kind:?}");
    }
    for (kind, length) in [(Settings, 12), (Ping, 8), (GoAway, 8), (PriorityUpdate, 4)] {
        assert_eq!(judged(kind, length, 1), C_PE, "{kind:?}");
        assert_eq!(judged(kind, length, 0), Ok(Some(kind)), "{kind:?}");
    }
    for stream in [0, 1] {
        assert_eq!(judged(FrameKind::WindowUpdate, 4, stream), Ok(Some(FrameKind::WindowUpdate)));
    }
}

#[test]
fn rfc9113_6_each_type_has_its_lengths() {
    for length in [0, 4, 6] {
        assert_eq!(judged(FrameKind::Priority, length, 1), S_FS);
    }
    for length in [1, 3, 5] {
        assert_eq!(judged(FrameKind::Reset, length, 1), C_FS);
        assert_eq!(judged(FrameKind::WindowUpdate, length, 1), C_FS);
        assert_eq!(judged(FrameKind::WindowUpdate, length, 0), C_FS);
        assert_eq!(judged(FrameKind::Settings, length, 0), C_FS);
        assert_eq!(judged(FrameKind::Ping, length, 0), C_FS);
        assert_eq!(judged(FrameKind::GoAway, length, 0), C_FS);
    }
    assert_eq!(judged(FrameKind::PriorityUpdate, 3, 0), C_FS);
    assert_eq!(judged(FrameKind::GoAway, 100, 0), Ok(Some(FrameKind::GoAway)));
}

#[test]
fn rfc9113_6_1_padding_is_shorter_than_the_payload() {
    let header = Header { length: 0, kind: 0, flags: FLAG_PADDED, stream: 1 };
    let fault = Err(Fault::connection(Code::Protocol, "padding"));
    assert_eq!(strip_padding(&header, &[]), fault);
    assert_eq!(strip_padding(&header, &[1]), fault);
    assert_eq!(strip_padding(&header, &[3, 1, 2]), fault);
    assert_eq!(strip_padding(&header, &[0]), Ok(&[][..]));
    assert_eq!(strip_padding(&header, &[2, 9, 0, 0]), Ok(&[9][..]));
}

#[test]
fn rfc9113_6_2_headers_carry_padding_and_priority() {
    let header = Header { length: 0, kind: 1, flags: FLAG_PADDED | FLAG_PRIORITY, stream: 3 };
    let (own, other) = ([1, 0x80, 0, 0, 3, 9, 7, 0], [1, 0, 0, 0, 1, 9, 7, 0]);
    assert_eq!(headers_payload(&header, &own), Ok(Block { fragment: &[7], depends_on_itself: true }));
    assert_eq!(headers_payload(&header, &other), Ok(Block { fragment: &[7], depends_on_itself: false }));
    assert!(headers_payload(&header, &[0, 0, 0, 0, 0]).is_err());
}

#[test]
fn frames_are_written_as_they_are_read() {
    let mut out = Vec::new();
    write_settings(&[(Setting::EnablePush, 0), (Setting::InitialWindowSize, 65_536)], &mut out);
    assert_eq!(out, [0, 0, 12, 4, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0]);
    assert_eq!(settings(&out[9..]).collect::<Vec<_>>(), [(2, 0), (4, 65_536)]);
    out.clear();
    write_go_away(5, Code::EnhanceYourCalm, "why", &mut out);
    assert_eq!(go_away(&out[9..]), (5, Code::EnhanceYourCalm));
    out.clear();
    write_priority_update(5, b"u=1", &mut out);
    assert_eq!(priority_update(&out[9..]), (5, &b"u=1"[..]));
    out.clear();
    write_reset(1, Code::Cancel, &mut out);
    write_window_update(0, 7, &mut out);
    assert_eq!(out, [0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    out.clear();
    write_ping([1; 8], true, &mut out);
    write_settings_ack(&mut out);
    write_data_header(1, 3, true, &mut out);
    let headers: Vec<_> =
        [0, 17, 26].map(|at| Header::read(out[at..at + 9].try_into().unwrap())).into_iter().collect();
    assert!(
        headers[0].has_flag(FLAG_ACK)
            && headers[1].has_flag(FLAG_ACK)
            && headers[2].has_flag(FLAG_END_STREAM)
    );
    assert_eq!(headers.iter().map(|header| header.length).collect::<Vec<_>>(), [8, 0, 3]);
}
