//! The form of the Secret with the ticket keys: for each key 32 bytes and the time when they were made, and beside them the logouts that
//! replicas tell each other, a line for each.

use std::collections::BTreeMap;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fairway_gateway::fleet::names::{FAIRWAY, MANAGED_BY};
use fairway_model::{Logout, TicketSecret};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use zeroize::Zeroize;

/// The type of the Secret. The API server lets nobody change a type, so that a Secret of another one is never taken for ours.
pub(super) const TYPE: &str = "fairway.dev/session-ticket-keys";
const SECRET_BYTES: usize = 32;
const CURRENT: [&str; 2] = ["current", "current-made"];
const PREVIOUS: [&str; 2] = ["previous", "previous-made"];
const LOGOUTS: &str = "logouts";
/// More logouts are not begun: a Secret holds 1 MiB.
pub(super) const MAX_LOGOUTS: usize = 8000;
/// More are not read. Several replicas can begin the last ones at the same time.
const MAX_READ: usize = 2 * MAX_LOGOUTS;

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyRecord {
    pub(super) secret: TicketSecret,
    /// By the clock of the replica that made it.
    pub(super) made: Timestamp,
}

/// What a Secret holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// There is none.
    Missing,
    /// It was made to be filled, or emptied to make all tickets worthless.
    Empty,
    /// One or two keys, the newest first.
    Keys(Vec<KeyRecord>),
    /// Not what Fairway writes.
    Torn(&'static str),
    /// Another type: it is somebody else's.
    Foreign,
}

impl KeyRecord {
    /// A new key.
    pub(super) fn new(made: Timestamp) -> Option<Self> {
        let mut bytes = vec![0; SECRET_BYTES];
        aws_lc_rs::rand::fill(&mut bytes).ok()?;
        Some(Self { secret: TicketSecret::new(bytes), made })
    }
}

/// Reads a Secret, and overwrites the keys in it.
pub(super) fn read(secret: &mut Secret) -> (Content, Vec<Logout>) {
    let mut data = secret.data.take().unwrap_or_default();
    let mut ended = Vec::new();
    let content = if secret.type_.as_deref() == Some(TYPE) {
        let read = logouts(&data).and_then(|logouts| {
            ended = logouts;
            content(&data)
        });
        read.unwrap_or_else(Content::Torn)
    } else {
        Content::Foreign
    };
    data.values_mut().for_each(|value| value.0.zeroize());
    (content, ended)
}

/// The Secret with these keys and logouts in it, in place of what `metadata` is of.
pub(super) fn write<'l>(
    mut metadata: ObjectMeta,
    keys: &[KeyRecord],
    logouts: impl IntoIterator<Item = &'l Logout>,
) -> Secret {
    metadata
        .labels
        .get_or_insert_default()
        .entry(MANAGED_BY.to_owned())
        .or_insert_with(|| FAIRWAY.to_owned());
    let mut data = BTreeMap::new();
    for (names, key) in [CURRENT, PREVIOUS].into_iter().zip(keys) {
        let [secret, made] = names.map(str::to_owned);
        data.insert(secret, ByteString(key.secret.bytes().to_vec()));
        let mut time = String::new();
        write!(time, "{:.0}", key.made).expect("writing to a String cannot fail");
        data.insert(made, ByteString(time.into_bytes()));
    }
    let mut lines = String::new();
    for Logout { id, until_login_at, ends } in logouts {
        writeln!(lines, "{} {until_login_at} {ends}", URL_SAFE_NO_PAD.encode(id))
            .expect("writing to a String cannot fail");
    }
    if !lines.is_empty() {
        data.insert(LOGOUTS.to_owned(), ByteString(lines.into_bytes()));
    }
    Secret { metadata, data: Some(data), type_: Some(TYPE.to_owned()), ..Secret::default() }
}

/// Overwrites the keys of a Secret that was sent.
pub(super) fn wipe(secret: &mut Secret) {
    secret.data.iter_mut().flat_map(BTreeMap::values_mut).for_each(|value| value.0.zeroize());
}

fn content(data: &BTreeMap<String, ByteString>) -> Result<Content, &'static str> {
    if data.is_empty() {
        return Ok(Content::Empty);
    }
    let current = key(data, CURRENT)?.ok_or("data.current is missing")?;
    let Some(previous) = key(data, PREVIOUS)? else { return Ok(Content::Keys(vec![current])) };
    if previous.secret == current.secret {
        return Err("data.previous and data.current are the same key");
    }
    if previous.made > current.made {
        return Err("data.previous is younger than data.current");
    }
    Ok(Content::Keys(vec![current, previous]))
}

fn logouts(data: &BTreeMap<String, ByteString>) -> Result<Vec<Logout>, &'static str> {
    let Some(text) = data.get(LOGOUTS) else { return Ok(Vec::new()) };
    let read = |line: &str| {
        let mut words = line.split(' ');
        let id = URL_SAFE_NO_PAD.decode(words.next()?).ok()?.try_into().ok()?;
        let [until_login_at, ends] = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
        words.next().is_none().then_some(Logout { id, until_login_at, ends })
    };
    let lines = std::str::from_utf8(&text.0).ok().filter(|text| text.lines().count() <= MAX_READ);
    let logouts = lines.and_then(|text| text.lines().map(read).collect());
    logouts.ok_or("data.logouts is no list of logouts")
}

fn key(
    data: &BTreeMap<String, ByteString>,
    [secret, made]: [&'static str; 2],
) -> Result<Option<KeyRecord>, &'static str> {
    let (secret, made) = match (data.get(secret), data.get(made)) {
        (None, None) => return Ok(None),
        (Some(secret), Some(made)) => (secret, made),
        _ => return Err("a key is there without its time, or a time without its key"),
    };
    if secret.0.len() != SECRET_BYTES {
        return Err("a key has not 32 bytes");
    }
    let made = std::str::from_utf8(&made.0).ok().and_then(|text| text.trim().parse().ok());
    let made = made.ok_or("the time of a key is no time such as 2026-01-31T12:00:00Z")?;
    Ok(Some(KeyRecord { secret: TicketSecret::new(secret.0.clone()), made }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> [KeyRecord; 2] {
        ["2026-01-31T12:00:00Z", "2026-01-31T00:00:00Z"]
            .map(|made| KeyRecord::new(made.parse().unwrap()).unwrap())
    }

    #[test]
    fn what_is_written_is_read_and_wiped() {
        let keys = keys();
        let logouts = [1, 2].map(|ends| Logout { id: [7; 16], until_login_at: u64::MAX, ends });
        for count in [1, 2] {
            let mut secret = write(ObjectMeta::default(), &keys[..count], &logouts[count..]);
            let expected = (Content::Keys(keys[..count].to_vec()), logouts[count..].to_vec());
            assert_eq!(read(&mut secret), expected);
            assert_eq!(secret.data, None);
        }
        let mut secret = write(ObjectMeta::default(), &keys, &[]);
        wipe(&mut secret);
        assert!(secret.data.unwrap().values().all(|value| value.0.is_empty()));
    }

    #[test]
    fn anything_else_is_torn_foreign_or_empty() {
        let keys = keys();
        let read_with = |change: &dyn Fn(&mut BTreeMap<String, ByteString>)| {
            let mut secret = write(ObjectMeta::default(), &keys, &[]);
            change(secret.data.get_or_insert_default());
            read(&mut secret).0
        };
        for gone in ["current", "current-made", "previous", "previous-made"] {
            assert!(matches!(read_with(&|data| drop(data.remove(gone))), Content::Torn(_)), "{gone}");
        }
        for (name, value) in [
            ("current", &b"short"[..]),
            ("previous", b""),
            ("current-made", b"today"),
            ("previous-made", b"\xff"),
            ("previous-made", b"2026-02-01T00:00:00Z"),
            ("logouts", b"AAAA 1 2"),
            ("logouts", b"AAAAAAAAAAAAAAAAAAAAAA 1 2 3"),
            ("logouts", b"AAAAAAAAAAAAAAAAAAAAAA 1 -2"),
            ("logouts", b"\n"),
            ("logouts", b"\xff"),
        ] {
            let change = |data: &mut BTreeMap<String, ByteString>| {
                data.insert(name.to_owned(), ByteString(value.to_vec()));
            };
            assert!(matches!(read_with(&change), Content::Torn(_)), "{name}");
        }
        let same = |data: &mut BTreeMap<String, ByteString>| {
            data.insert("previous".to_owned(), data["current"].clone());
        };
        assert!(matches!(read_with(&same), Content::Torn(_)));
        assert_eq!(read_with(&BTreeMap::clear), Content::Empty);
        let mut secret = write(ObjectMeta::default(), &keys, &[]);
        secret.type_ = Some("Opaque".to_owned());
        assert_eq!(read(&mut secret), (Content::Foreign, Vec::new()));
    }
}
