//! Encodes the Secret with the ticket keys: 32 bytes and a creation time per key, and the logouts that replicas tell each other,
//! one per line.

use std::collections::BTreeMap;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fairway_gateway::fleet::names::{MANAGED_BY, MANAGED_BY_FAIRWAY};
use fairway_model::{Logout, TicketSecret};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use zeroize::Zeroize;

/// The type of the Secret. A type is immutable, so a Secret of another type is never mistaken for this one.
pub(super) const SECRET_TYPE: &str = "fairway.dev/session-ticket-keys";
const SECRET_BYTES: usize = 32;
const CURRENT_KEYS: [&str; 2] = ["current", "current-made"];
const PREVIOUS_KEYS: [&str; 2] = ["previous", "previous-made"];
const LOGOUTS_KEY: &str = "logouts";
/// No further logouts are added beyond this: a Secret holds 1 MiB.
pub(super) const MAX_LOGOUTS: usize = 8000;
/// No more are read. Several replicas can add the last ones concurrently.
const MAX_READ_LOGOUTS: usize = 2 * MAX_LOGOUTS;

/// A ticket key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyRecord {
    pub(super) secret: TicketSecret,
    /// By the clock of the replica that created it.
    pub(super) created_at: Timestamp,
}

/// The content of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SecretContent {
    /// There is no Secret.
    Missing,
    /// It was created to be filled, or emptied to invalidate all tickets.
    Empty,
    /// One or two keys, newest first.
    Keys(Vec<KeyRecord>),
    /// Not in Fairway's format.
    Malformed(&'static str),
    /// A Secret of another type belongs to another program.
    Foreign,
}

impl KeyRecord {
    /// A new key.
    pub(super) fn new(creation_time: Timestamp) -> Option<Self> {
        let mut bytes = vec![0; SECRET_BYTES];
        aws_lc_rs::rand::fill(&mut bytes).ok()?;
        Some(Self { secret: TicketSecret::new(bytes), created_at: creation_time })
    }
}

/// Decodes a Secret, and wipes the keys in it.
pub(super) fn decode_secret(secret: &mut Secret) -> (SecretContent, Vec<Logout>) {
    let mut data = secret.data.take().unwrap_or_default();
    let mut ended = Vec::new();
    let content = if secret.type_.as_deref() == Some(SECRET_TYPE) {
        let read = decode_logouts(&data).and_then(|logouts| {
            ended = logouts;
            decode_keys(&data)
        });
        read.unwrap_or_else(SecretContent::Malformed)
    } else {
        SecretContent::Foreign
    };
    data.values_mut().for_each(|value| value.0.zeroize());
    (content, ended)
}

/// The Secret with these keys and logouts, in place of the one with this metadata.
pub(super) fn encode_secret<'l>(
    mut metadata: ObjectMeta,
    keys: &[KeyRecord],
    logouts: impl IntoIterator<Item = &'l Logout>,
) -> Secret {
    metadata
        .labels
        .get_or_insert_default()
        .entry(MANAGED_BY.to_owned())
        .or_insert_with(|| MANAGED_BY_FAIRWAY.to_owned());
    let mut data = BTreeMap::new();
    for (names, key) in [CURRENT_KEYS, PREVIOUS_KEYS].into_iter().zip(keys) {
        let [secret, made] = names.map(str::to_owned);
        data.insert(secret, ByteString(key.secret.bytes().to_vec()));
        let mut time = String::new();
        write!(time, "{:.0}", key.created_at).expect("writing to a String cannot fail");
        data.insert(made, ByteString(time.into_bytes()));
    }
    let mut lines = String::new();
    for Logout { id, until_login_at, ends } in logouts {
        writeln!(lines, "{} {until_login_at} {ends}", URL_SAFE_NO_PAD.encode(id))
            .expect("writing to a String cannot fail");
    }
    if !lines.is_empty() {
        data.insert(LOGOUTS_KEY.to_owned(), ByteString(lines.into_bytes()));
    }
    Secret { metadata, data: Some(data), type_: Some(SECRET_TYPE.to_owned()), ..Secret::default() }
}

/// Wipes the keys of a Secret after it was sent.
pub(super) fn wipe_keys(secret: &mut Secret) {
    secret.data.iter_mut().flat_map(BTreeMap::values_mut).for_each(|value| value.0.zeroize());
}

fn decode_keys(data: &BTreeMap<String, ByteString>) -> Result<SecretContent, &'static str> {
    if data.is_empty() {
        return Ok(SecretContent::Empty);
    }
    let current = decode_key(data, CURRENT_KEYS)?.ok_or("data.current is missing")?;
    let Some(previous) = decode_key(data, PREVIOUS_KEYS)? else {
        return Ok(SecretContent::Keys(vec![current]));
    };
    if previous.secret == current.secret {
        return Err("data.previous and data.current are the same key");
    }
    if previous.created_at > current.created_at {
        return Err("data.previous is younger than data.current");
    }
    Ok(SecretContent::Keys(vec![current, previous]))
}

fn decode_logouts(data: &BTreeMap<String, ByteString>) -> Result<Vec<Logout>, &'static str> {
    let Some(text) = data.get(LOGOUTS_KEY) else { return Ok(Vec::new()) };
    let read = |line: &str| {
        let mut words = line.split(' ');
        let id = URL_SAFE_NO_PAD.decode(words.next()?).ok()?.try_into().ok()?;
        let [until_login_at, ends] = [words.next()?.parse().ok()?, words.next()?.parse().ok()?];
        words.next().is_none().then_some(Logout { id, until_login_at, ends })
    };
    let lines = std::str::from_utf8(&text.0).ok().filter(|text| text.lines().count() <= MAX_READ_LOGOUTS);
    let logouts = lines.and_then(|text| text.lines().map(read).collect());
    logouts.ok_or("data.logouts is no list of logouts")
}

fn decode_key(
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
    let creation_time = std::str::from_utf8(&made.0).ok().and_then(|text| text.trim().parse().ok());
    let creation_time = creation_time.ok_or("the time of a key is no time such as 2026-01-31T12:00:00Z")?;
    Ok(Some(KeyRecord { secret: TicketSecret::new(secret.0.clone()), created_at: creation_time }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> [KeyRecord; 2] {
        ["2026-01-31T12:00:00Z", "2026-01-31T00:00:00Z"]
            .map(|made| KeyRecord::new(made.parse().unwrap()).unwrap())
    }

    #[test]
    fn an_encoded_secret_is_decoded_and_wiped() {
        let keys = keys();
        let logouts = [1, 2].map(|ends| Logout { id: [7; 16], until_login_at: u64::MAX, ends });
        for count in [1, 2] {
            let mut secret = encode_secret(ObjectMeta::default(), &keys[..count], &logouts[count..]);
            let expected = (SecretContent::Keys(keys[..count].to_vec()), logouts[count..].to_vec());
            assert_eq!(decode_secret(&mut secret), expected);
            assert_eq!(secret.data, None);
        }
        let mut secret = encode_secret(ObjectMeta::default(), &keys, &[]);
        wipe_keys(&mut secret);
        assert!(secret.data.unwrap().values().all(|value| value.0.is_empty()));
    }

    #[test]
    fn anything_else_is_malformed_foreign_or_empty() {
        let keys = keys();
        let read_with = |change: &dyn Fn(&mut BTreeMap<String, ByteString>)| {
            let mut secret = encode_secret(ObjectMeta::default(), &keys, &[]);
            change(secret.data.get_or_insert_default());
            decode_secret(&mut secret).0
        };
        for gone in ["current", "current-made", "previous", "previous-made"] {
            assert!(
                matches!(read_with(&|data| drop(data.remove(gone))), SecretContent::Malformed(_)),
                "{gone}"
            );
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
            assert!(matches!(read_with(&change), SecretContent::Malformed(_)), "{name}");
        }
        let same = |data: &mut BTreeMap<String, ByteString>| {
            data.insert("previous".to_owned(), data["current"].clone());
        };
        assert!(matches!(read_with(&same), SecretContent::Malformed(_)));
        assert_eq!(read_with(&BTreeMap::clear), SecretContent::Empty);
        let mut secret = encode_secret(ObjectMeta::default(), &keys, &[]);
        secret.type_ = Some("Opaque".to_owned());
        assert_eq!(decode_secret(&mut secret), (SecretContent::Foreign, Vec::new()));
    }
}
