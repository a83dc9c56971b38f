//! Keys for TLS session tickets. Messages never repeat a value, because one of them is a secret.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fairway_model::{SessionTickets, TicketSecret};
use fairway_objects::annotations::text::parse_bool;

use crate::ingress::settings::problem::KeyProblem;

/// Lengths that nginx accepts: a name, and keys of 128 or 256 bits.
const LENGTHS: [usize; 2] = [48, 80];

/// Reads one of these keys; `None` for any other.
pub(super) fn read(tickets: &mut SessionTickets, name: &str, value: &str) -> Option<Result<(), KeyProblem>> {
    match name {
        "ssl-session-tickets" => Some(enable(tickets, value)),
        "ssl-session-ticket-key" => Some(set_fixed_key(tickets, value)),
        _ => None,
    }
}

fn enable(tickets: &mut SessionTickets, value: &str) -> Result<(), KeyProblem> {
    match parse_bool(value) {
        Some(true) => Ok(()),
        Some(false) => {
            *tickets = SessionTickets::Off;
            Err(KeyProblem::Note(
                "nothing but tickets resumes sessions, and ssl-session-cache has no effect",
                "every TLS handshake is a full one",
            ))
        }
        None => Err(KeyProblem::NotA("true or false")),
    }
}

fn set_fixed_key(tickets: &mut SessionTickets, value: &str) -> Result<(), KeyProblem> {
    if value.is_empty() {
        return Ok(());
    }
    let bytes = STANDARD.decode(value).ok().filter(|bytes| LENGTHS.contains(&bytes.len()));
    let Some(bytes) = bytes else {
        return Err(KeyProblem::NotASecret("48 or 80 bytes in base64"));
    };
    if *tickets != SessionTickets::Off {
        *tickets = SessionTickets::Fixed { secret: TicketSecret::new(bytes) };
    }
    Err(KeyProblem::Note(
        "every replica uses this key, and nothing changes it but you",
        "whoever has it can resume and forge sessions; without it, the key changes by itself every 12 hours",
    ))
}
