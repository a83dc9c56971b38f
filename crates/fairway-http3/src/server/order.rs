//! The order of responses (RFC 9218 §10): which stream QUIC sends next, and which one may fill its buffer first.
//!
//! QUIC sends the highest order that has data; equal orders take turns. So the urgency decides first; then come
//! non-incremental streams, each with its own order by stream id; then all others with the same order.

use std::cmp::Reverse;

use fairway_http2::Priority;
use quinn_proto::{Connection, StreamId};

use super::Server;
use crate::event::Event;
use crate::requests::RequestRecord;
use crate::transport;

/// Orders of one urgency. Those of non-incremental streams repeat after this many streams, more than any connection has
/// open.
const ORDERS: i32 = 1 << 27;

/// Higher comes first. 0, which needs not be set, is that of [`Priority::UNSPECIFIED`].
pub(super) fn order(priority: Priority, stream: StreamId) -> i32 {
    let urgency = i32::from(Priority::UNSPECIFIED.urgency) - i32::from(priority.urgency.min(7));
    let slot = (stream.index() % (ORDERS as u64 - 1)) as i32;
    urgency * ORDERS + if priority.incremental { 0 } else { ORDERS - 1 - slot }
}

impl RequestRecord {
    /// Changes the priority of the stream. QUIC applies the new order from the next packet of the stream on.
    pub(super) fn prioritize(&mut self, quic: &mut Connection, priority: Priority) {
        if std::mem::replace(&mut self.priority, priority) != priority {
            transport::set_order(quic, self.id, order(priority, self.id));
        }
    }
}

impl Server {
    /// QUIC accepts data of a stream again.
    pub(super) fn unblocked_by_quic(&mut self, id: StreamId) {
        if !self.sendable.contains(&id) {
            self.sendable.push(id);
        }
    }

    /// Reports the next stream to send. All streams share QUIC's buffer, and the first to send can fill it, so the next
    /// one is reported when this one has sent, or when `poll` is called again after it had nothing to report. Among
    /// equal streams, the one that has not sent for the longest time is next.
    pub(super) fn next_writable(&mut self, quic: &mut Connection) -> Option<Event> {
        if self.last_served.take().is_some() {
            return None;
        }
        loop {
            let urgency = |id: &StreamId| {
                let record = self.requests.get(*id)?;
                Some((Reverse(order(record.priority, *id)), record.outgoing.sent_at))
            };
            let next = self.sendable.iter().enumerate().min_by_key(|(_, id)| urgency(id));
            let (at, _) = next?;
            let id = self.sendable.swap_remove(at);
            if let Some(event) = self.writable(quic, id) {
                self.last_served = Some(id);
                return Some(event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quinn_proto::{Dir, Side};

    #[test]
    fn orders_follow_urgency_then_stream_id() {
        let order = |urgency, incremental, index| {
            order(Priority { urgency, incremental }, StreamId::new(Side::Client, Dir::Bi, index))
        };
        assert_eq!((order(3, true, 0), order(3, true, 9)), (0, 0));
        for urgency in 0..8 {
            let last = ORDERS as u64 - 2;
            assert!(order(urgency, false, 0) > order(urgency, false, 1));
            assert!(order(urgency, false, last) > order(urgency, true, 0));
            assert!(order(urgency, true, 0) > order(urgency + 1, false, 0) || urgency == 7);
            assert!(order(urgency, false, (1 << 60) - 1) > order(urgency, true, 0));
        }
    }
}
