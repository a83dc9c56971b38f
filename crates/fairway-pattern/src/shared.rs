//! Patterns by their text, so that what judges one and what serves it do not compile it twice, and a host that changes
//! does not compile again what it had. Invisible but for the time it saves: a pattern depends on nothing but its text.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::refusal::Refusal;
use crate::way::Anchor;

/// Patterns are kept for this long after nothing uses them: until so many others were compiled.
const RECENT: usize = 512;
/// Or until those have so many bytes.
const RECENT_MEMORY: u64 = 8 << 20;
/// So many are remembered before those that are gone are forgotten.
const REMEMBERED: usize = 1024;

type Key = (Box<str>, Anchor, bool);

/// Compiled patterns that are in use, and some that are not.
pub(crate) struct Shared<T> {
    memory: fn(&T) -> u64,
    state: Mutex<State<T>>,
}

struct State<T> {
    known: HashMap<Key, Result<Weak<T>, Refusal>>,
    recent: VecDeque<Arc<T>>,
    recent_memory: u64,
    /// How many may be known until the next time that the gone ones are forgotten.
    limit: usize,
}

impl<T> Shared<T> {
    pub(crate) fn new(memory: fn(&T) -> u64) -> Self {
        let state =
            State { known: HashMap::new(), recent: VecDeque::new(), recent_memory: 0, limit: REMEMBERED };
        Self { memory, state: Mutex::new(state) }
    }

    /// What is known of `key`, or what `compile` gives.
    pub(crate) fn get(
        &self,
        key: Key,
        compile: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<Arc<T>, Refusal> {
        let known = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.known.get(&key).map(|known| known.as_ref().map(Weak::upgrade).map_err(Clone::clone))
        };
        match known {
            Some(Ok(Some(pattern))) => return Ok(pattern),
            Some(Err(refusal)) => return Err(refusal),
            Some(Ok(None)) | None => {}
        }
        // Not under the lock: it takes its time.
        let made = compile().map(Arc::new);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.known.insert(key, made.as_ref().map(Arc::downgrade).map_err(Clone::clone));
        if let Ok(pattern) = &made {
            state.recent_memory += (self.memory)(pattern);
            state.recent.push_back(pattern.clone());
        }
        while state.recent.len() > RECENT || state.recent_memory > RECENT_MEMORY {
            let Some(gone) = state.recent.pop_front() else { break };
            state.recent_memory -= (self.memory)(&gone);
        }
        if state.known.len() > state.limit {
            state.known.retain(|_, known| known.as_ref().is_ok_and(|pattern| pattern.strong_count() > 0));
            state.limit = REMEMBERED.max(2 * state.known.len());
        }
        made
    }
}
