//! Writes address databases in MaxMind's format (MMDB 2.0) from JSON records.

use std::net::{IpAddr, Ipv6Addr};

use serde_json::{Map, Value, json};

/// A database in the making: addresses of IPv4 are in `::/96` of a tree for IPv6, as MaxMind has them.
pub struct Mmdb {
    type_name: String,
    built: u64,
    /// Each node has two records.
    nodes: Vec<[Record; 2]>,
    data: Vec<u8>,
}

const UINT16: u8 = 5;
const UINT32: u8 = 6;
const UINT64: u8 = 9;

#[derive(Clone, Copy)]
enum Record {
    Nothing,
    Node(usize),
    Data(usize),
}

impl Mmdb {
    /// Without a network. `type_name` is such as `GeoLite2-City`; `built` is in seconds since 1970.
    #[must_use]
    pub fn new(type_name: &str, built: u64) -> Self {
        Self { type_name: type_name.to_owned(), built, nodes: vec![[Record::Nothing; 2]], data: Vec::new() }
    }

    /// Adds a record for a network, such as `203.0.113.0/24`. A network within another must be added after it.
    ///
    /// # Panics
    /// The network is malformed.
    #[must_use]
    pub fn with_network(mut self, network: &str, record: &Value) -> Self {
        let (address, bits) = network.split_once('/').expect("an address and the bits of its network");
        let address: IpAddr = address.parse().expect("an address");
        let bits: usize = bits.parse().expect("bits of the network");
        let at = self.data.len();
        write(record, &mut self.data);
        match address {
            IpAddr::V4(address) => self.insert(u128::from(u32::from(address)), 96 + bits, at),
            IpAddr::V6(address) => self.insert(Ipv6Addr::to_bits(address), bits, at),
        }
        self
    }

    fn insert(&mut self, address: u128, bits: usize, at: usize) {
        let mut node = 0;
        for bit in 0..bits {
            let side = usize::from((address >> (127 - bit)) & 1 == 1);
            if bit + 1 == bits {
                self.nodes[node][side] = Record::Data(at);
                return;
            }
            node = match self.nodes[node][side] {
                Record::Node(next) => next,
                record => {
                    let next = self.nodes.len();
                    self.nodes.push([record; 2]);
                    self.nodes[node][side] = Record::Node(next);
                    next
                }
            };
        }
    }

    /// The bytes of the file.
    ///
    /// # Panics
    /// It is larger than four gigabytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let count = self.nodes.len();
        let value = |record: Record| match record {
            Record::Nothing => count,
            Record::Node(next) => next,
            Record::Data(at) => count + 16 + at,
        };
        let records = self.nodes.iter().flatten().map(|record| value(*record));
        let records = records.map(|record| u32::try_from(record).expect("four bytes for a record"));
        let mut bytes: Vec<u8> = records.flat_map(u32::to_be_bytes).collect();
        bytes.extend([0; 16]);
        bytes.extend(&self.data);
        bytes.extend(b"\xab\xcd\xefMaxMind.com");
        self.write_metadata(count, &mut bytes);
        bytes
    }

    /// Numbers have the types that the format gives them there (MMDB 2.0, "Database Metadata").
    fn write_metadata(&self, nodes: usize, out: &mut Vec<u8>) {
        let texts = json!({
            "database_type": self.type_name, "description": {"en": "for tests"}, "languages": ["en"],
        });
        let texts = texts.as_object().expect("it is one");
        let numbers = [
            ("binary_format_major_version", UINT16, 2),
            ("binary_format_minor_version", UINT16, 0),
            ("build_epoch", UINT64, self.built),
            ("ip_version", UINT16, 6),
            ("node_count", UINT32, nodes as u64),
            ("record_size", UINT16, 32),
        ];
        control(7, texts.len() + numbers.len(), out);
        for (name, text) in texts {
            write_text(name, out);
            write(text, out);
        }
        for (name, kind, number) in numbers {
            write_text(name, out);
            write_whole(kind, number, out);
        }
    }
}

/// A record of a country.
#[must_use]
pub fn country(code: &str, name: &str) -> Value {
    json!({"country": {"iso_code": code, "names": {"en": name}}})
}

/// A record of an autonomous system.
#[must_use]
pub fn network(asn: u32, organization: &str) -> Value {
    json!({"autonomous_system_number": asn, "autonomous_system_organization": organization})
}

/// Writes a value (MMDB 2.0, "Data Section").
fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => write_text(text, out),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(whole), _) => {
                write_whole(if whole > u64::from(u32::MAX) { UINT64 } else { UINT32 }, whole, out);
            }
            (None, fraction) => {
                control(3, 8, out);
                out.extend(fraction.unwrap_or_default().to_be_bytes());
            }
        },
        Value::Object(members) => write_map(members, out),
        Value::Array(members) => {
            control(11, members.len(), out);
            members.iter().for_each(|member| write(member, out));
        }
        Value::Bool(truth) => control(14, usize::from(*truth), out),
        Value::Null => panic!("the format has no null"),
    }
}

fn write_map(members: &Map<String, Value>, out: &mut Vec<u8>) {
    control(7, members.len(), out);
    for (name, member) in members {
        write_text(name, out);
        write(member, out);
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    control(2, text.len(), out);
    out.extend(text.as_bytes());
}

/// Bytes of zeros in front are left out.
fn write_whole(kind: u8, number: u64, out: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    let used = &bytes[number.leading_zeros() as usize / 8..];
    control(kind, used.len(), out);
    out.extend(used);
}

/// The type and size of the next value. Types above 7 use a second byte.
fn control(kind: u8, size: usize, out: &mut Vec<u8>) {
    let (first, extended) = if kind > 7 { (0, Some(kind - 7)) } else { (kind << 5, None) };
    let (in_control, behind) = match size {
        0..29 => (size, Vec::new()),
        29..285 => (29, vec![size - 29]),
        _ => (30, vec![(size - 285) >> 8, size - 285]),
    };
    let byte = |it: usize| u8::try_from(it & 0xff).expect("eight bits");
    out.push(first | byte(in_control));
    out.extend(extended);
    out.extend(behind.into_iter().map(byte));
}
