//! The encoding of messages about shares, before encryption. A share is the part of a fleet's limit that a replica may
//! use for a client. Decodes only complete messages within their bounds.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use fairway_net::counts::{ClientCounts, ClientKey, RequestRate};
use fairway_routing::PolicyId;

/// Maximum clients of a request, and outcomes of a reply.
pub(super) const MAX_CLIENTS_PER_REQUEST: usize = 32;
/// The maximum length of both names of a client that is identified by names instead of an address, in bytes. Shares of
/// clients with longer names are not borrowed.
pub(super) const MAX_IDENTITY_BYTES: usize = 200;

const VERSION: u8 = 1;

/// Asks for the shares of clients.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LendRequest {
    /// The process that asks.
    pub(super) borrower: u64,
    /// Increases with each message of this process.
    pub(super) number: u64,
    /// The number of replicas among which the borrower divides limits.
    pub(super) replicas: u32,
    pub(super) clients: Vec<ClientOfLimit>,
}

/// The response to a [`LendRequest`]: an outcome for each client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) borrower: u64,
    pub(super) number: u64,
    pub(super) outcomes: Vec<LendOutcome>,
}

/// A client of a limit, as all replicas identify it.
#[derive(Clone, Debug)]
pub(super) struct ClientOfLimit {
    pub(super) policy: PolicyId,
    pub(super) client: ClientName,
    /// The rate for all replicas together.
    pub(super) fleet_rate: RequestRate,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientName {
    /// An address, or its network for IPv6.
    Address(IpAddr),
    /// The two names of an authenticated client, such as issuer and claim.
    Identity([Box<str>; 2]),
}

/// Whether a share is lent, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LendOutcome {
    Lent,
    /// The client uses its share at the lender.
    InUse,
    /// Another replica has it, or the client recently needed it back.
    Taken,
    /// The lender has lent as many shares as it may.
    Full,
    /// The lender divides limits among another number of replicas.
    OtherCount,
}

impl LendOutcome {
    pub(super) const ALL: [Self; 5] = [Self::Lent, Self::InUse, Self::Taken, Self::Full, Self::OtherCount];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Lent => "lent",
            Self::InUse => "in_use",
            Self::Taken => "taken",
            Self::Full => "full",
            Self::OtherCount => "other_count",
        }
    }
}

impl PartialEq for ClientOfLimit {
    fn eq(&self, other: &Self) -> bool {
        let all = |it: &Self| (it.policy, it.client.clone(), it.fleet_rate.interval, it.fleet_rate.burst);
        all(self) == all(other)
    }
}

impl ClientName {
    /// `None` if the names are too long.
    pub(super) fn new(address: IpAddr, identity: Option<&[Cow<'_, str>; 2]>) -> Option<Self> {
        let Some([first, second]) = identity else { return Some(Self::Address(address)) };
        let fits = first.len() + second.len() <= MAX_IDENTITY_BYTES;
        fits.then(|| Self::Identity([first.as_ref().into(), second.as_ref().into()]))
    }
}

impl ClientOfLimit {
    /// The key under which this replica counts it.
    pub(super) fn key(&self, counts: &ClientCounts) -> ClientKey {
        match &self.client {
            ClientName::Address(address) => counts.client_key(self.policy, *address),
            ClientName::Identity([first, second]) => {
                let identity: [Cow<'_, str>; 2] = [Cow::Borrowed(first), Cow::Borrowed(second)];
                counts.client_key((self.policy, &identity), Ipv4Addr::UNSPECIFIED.into())
            }
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.policy.number().to_be_bytes());
        for time in [self.fleet_rate.interval, self.fleet_rate.burst] {
            out.extend_from_slice(&nanos(time).to_be_bytes());
        }
        match &self.client {
            ClientName::Address(IpAddr::V4(address)) => {
                out.push(4);
                out.extend_from_slice(&address.octets());
            }
            ClientName::Address(IpAddr::V6(address)) => {
                out.push(6);
                out.extend_from_slice(&address.octets()[..8]);
            }
            ClientName::Identity(names) => {
                out.push(0);
                for name in names {
                    // `ClientName::new` bounds the length.
                    out.push(u8::try_from(name.len()).unwrap_or(0));
                    out.extend_from_slice(name.as_bytes());
                }
            }
        }
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let policy = PolicyId::from_number(read_u64(from)?);
        let [interval, burst] = [read_u64(from)?, read_u64(from)?].map(Duration::from_nanos);
        let client = match read_byte(from)? {
            4 => ClientName::Address(Ipv4Addr::from(read_array::<4>(from)?).into()),
            6 => ClientName::Address(Ipv6Addr::from(u128::from(read_u64(from)?) << 64).into()),
            0 => ClientName::Identity([read_name(from)?, read_name(from)?]),
            _ => return None,
        };
        (!interval.is_zero()).then_some(Self { policy, client, fleet_rate: RequestRate { interval, burst } })
    }
}

impl LendRequest {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.borrower.to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&self.replicas.to_be_bytes());
        for client in self.clients.iter().take(MAX_CLIENTS_PER_REQUEST) {
            client.write(&mut out);
        }
        out
    }

    pub(super) fn decode(mut from: &[u8]) -> Option<Self> {
        if read_byte(&mut from)? != VERSION {
            return None;
        }
        let (borrower, number) = (read_u64(&mut from)?, read_u64(&mut from)?);
        let replicas = u32::from_be_bytes(read_array(&mut from)?);
        let mut clients = Vec::new();
        while !from.is_empty() {
            if clients.len() == MAX_CLIENTS_PER_REQUEST {
                return None;
            }
            clients.push(ClientOfLimit::read(&mut from)?);
        }
        Some(Self { borrower, number, replicas, clients })
    }
}

impl Reply {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.borrower.to_be_bytes());
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend(self.outcomes.iter().map(|outcome| *outcome as u8));
        out
    }

    pub(super) fn decode(mut from: &[u8]) -> Option<Self> {
        if read_byte(&mut from)? != VERSION {
            return None;
        }
        let (borrower, number) = (read_u64(&mut from)?, read_u64(&mut from)?);
        let outcome = |byte: &u8| LendOutcome::ALL.into_iter().find(|outcome| *outcome as u8 == *byte);
        let outcomes =
            from.iter().take(MAX_CLIENTS_PER_REQUEST + 1).map(outcome).collect::<Option<Vec<_>>>()?;
        (outcomes.len() <= MAX_CLIENTS_PER_REQUEST).then_some(Self { borrower, number, outcomes })
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn read_array<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*array)
}

fn read_byte(from: &mut &[u8]) -> Option<u8> {
    read_array::<1>(from).map(|[byte]| byte)
}

fn read_u64(from: &mut &[u8]) -> Option<u64> {
    read_array(from).map(u64::from_be_bytes)
}

fn read_name(from: &mut &[u8]) -> Option<Box<str>> {
    let length = read_byte(from)?;
    let (name, rest) = from.split_at_checked(length.into())?;
    *from = rest;
    Some(std::str::from_utf8(name).ok()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(client: ClientName) -> ClientOfLimit {
        let full_rate =
            RequestRate { interval: Duration::from_nanos(33_333_333), burst: Duration::from_secs(2) };
        ClientOfLimit { policy: PolicyId::from_name("p"), client, fleet_rate: full_rate }
    }

    fn lend_request() -> LendRequest {
        let identity = [Cow::Borrowed("issuer"), Cow::Borrowed("somebody")];
        let clients = vec![
            client(ClientName::new("192.0.2.1".parse().unwrap(), None).unwrap()),
            client(ClientName::new("2001:db8:0:1::".parse().unwrap(), None).unwrap()),
            client(ClientName::new("192.0.2.1".parse().unwrap(), Some(&identity)).unwrap()),
        ];
        LendRequest { borrower: 7, number: 8, replicas: 3, clients }
    }

    #[test]
    fn a_written_message_is_read_back_and_nothing_else_is_accepted() {
        let (request, counts) = (lend_request(), ClientCounts::new());
        let bytes = request.encode();
        assert_eq!(LendRequest::decode(&bytes), Some(request.clone()));
        for client in &request.clients {
            assert_eq!(
                LendRequest::decode(&bytes)
                    .unwrap()
                    .clients
                    .iter()
                    .filter(|it| it.key(&counts) == client.key(&counts))
                    .count(),
                1
            );
        }
        let prefixes: Vec<_> = (0..=request.clients.len())
            .map(|count| {
                LendRequest { clients: request.clients[..count].to_vec(), ..request.clone() }.encode().len()
            })
            .collect();
        for length in (0..bytes.len()).filter(|length| !prefixes.contains(length)) {
            assert_eq!(LendRequest::decode(&bytes[..length]), None, "{length} bytes");
        }
        let many =
            LendRequest { clients: vec![request.clients[0].clone(); MAX_CLIENTS_PER_REQUEST], ..request };
        let mut bytes = many.encode();
        assert_eq!(LendRequest::decode(&bytes), Some(many.clone()));
        many.clients[0].write(&mut bytes);
        assert_eq!(LendRequest::decode(&bytes), None);
        let reply = Reply { borrower: 7, number: 8, outcomes: LendOutcome::ALL.to_vec() };
        let mut bytes = reply.encode();
        assert_eq!(Reply::decode(&bytes), Some(reply));
        bytes.push(9);
        assert_eq!(Reply::decode(&bytes), None);
    }

    #[test]
    fn names_that_are_too_long_are_none() {
        let (long, address) = ("x".repeat(MAX_IDENTITY_BYTES), "192.0.2.1".parse().unwrap());
        let name =
            |first: &str| ClientName::new(address, Some(&[first.to_owned().into(), long.clone().into()]));
        assert!(name("").is_some() && name("y").is_none());
    }
}
