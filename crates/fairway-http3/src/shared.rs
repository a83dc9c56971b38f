//! State shared by all streams of a connection: configuration, header compression and the abuse account.

use fairway_http2::PeerEvents;
use fairway_http2::abuse::{Account, Standing, Weight};

use crate::code::{Code, Fault};
use crate::config::Config;
use crate::qpack::Decoder;

/// Encoder instructions that are free initially: two tables of small entries.
const FREE_INSTRUCTIONS: u32 = 256;
/// Further free instructions for every request.
const INSTRUCTIONS_PER_REQUEST: u32 = 64;

/// State shared by the streams of a connection.
#[derive(Debug)]
pub(crate) struct ConnectionShared {
    pub(crate) config: Config,
    pub(crate) qpack: Decoder,
    pub(crate) peer_events: PeerEvents,
    /// A buffer for field sections to be sent.
    pub(crate) section: Vec<u8>,
    pub(crate) account: Account,
    /// Encoder instructions that are not charged.
    free_instructions: u32,
    /// Microseconds since the first poll.
    pub(crate) now: u64,
    /// Bytes reserved for incomplete heads.
    pub(crate) head_memory: usize,
    /// Streams waiting for insertions into the dynamic table.
    pub(crate) blocked: u32,
    /// Whether the account is nearly overdrawn.
    pub(crate) warned: bool,
}

impl ConnectionShared {
    pub(crate) fn new(config: Config) -> Self {
        ConnectionShared {
            config,
            qpack: Decoder::new(config.qpack_table as usize),
            peer_events: PeerEvents::default(),
            section: Vec::new(),
            account: Account::default(),
            free_instructions: FREE_INSTRUCTIONS,
            now: 0,
            head_memory: 0,
            blocked: 0,
            warned: false,
        }
    }

    /// Charges an action that costs us more than the client.
    pub(crate) fn charge(&mut self, weight: Weight, rule: &'static str) -> Result<(), Fault> {
        self.charge_many(weight, 1, rule)
    }

    /// Charges the encoder instructions that are not free.
    pub(crate) fn charge_instructions(&mut self, count: u32) -> Result<(), Fault> {
        let free = count.min(self.free_instructions);
        self.free_instructions -= free;
        self.charge_many(Weight::Light, count - free, "encoder_instructions")
    }

    /// Counts a request.
    pub(crate) fn requested(&mut self) {
        self.free_instructions = (self.free_instructions + INSTRUCTIONS_PER_REQUEST).min(FREE_INSTRUCTIONS);
    }

    fn charge_many(&mut self, weight: Weight, count: u32, rule: &'static str) -> Result<(), Fault> {
        match self.account.charge(self.now, weight, count) {
            Standing::Good => {}
            Standing::Warned => self.warned = true,
            Standing::Overdrawn => return Err(Fault::connection(Code::ExcessiveLoad, rule)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoder_instructions_are_free_as_long_as_requests_come() {
        let mut shared = ConnectionShared::new(Config::default());
        let charged = |shared: &mut ConnectionShared, count| {
            shared.charge_instructions(count).map_err(|fault| fault.code)
        };
        for _ in 0..1_000 {
            assert_eq!(charged(&mut shared, INSTRUCTIONS_PER_REQUEST), Ok(()));
            shared.requested();
        }
        assert_eq!(charged(&mut shared, FREE_INSTRUCTIONS + 700), Ok(()));
        assert!(!shared.warned);
        assert_eq!(charged(&mut shared, 300), Err(Code::ExcessiveLoad));
    }
}
