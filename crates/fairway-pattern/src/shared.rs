//! A cache of compiled patterns, so that checking and serving a pattern, or changing a host, does not compile it
//! again. Patterns depend only on their text, so the cache has no other effect.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::refusal::Refusal;
use crate::way::Anchor;

/// Unused patterns are kept until this many others have been compiled.
const MAX_RECENT: usize = 512;
/// Or until those have this many bytes.
const MAX_RECENT_MEMORY: u64 = 8 << 20;
/// Minimum number of entries before dropped ones are purged.
const MIN_PURGE_SIZE: usize = 1024;

type CacheKey = (Box<str>, Anchor, bool);

/// Compiled patterns that are or recently were in use.
pub(crate) struct PatternCache<T> {
    memory: fn(&T) -> u64,
    state: Mutex<CacheState<T>>,
}

struct CacheState<T> {
    known_entries: HashMap<CacheKey, Result<Weak<T>, Refusal>>,
    recent: VecDeque<Arc<T>>,
    recent_memory: u64,
    /// Number of entries at which dropped ones are purged.
    limit: usize,
}

impl<T> PatternCache<T> {
    pub(crate) fn new(memory: fn(&T) -> u64) -> Self {
        let state = CacheState {
            known_entries: HashMap::new(),
            recent: VecDeque::new(),
            recent_memory: 0,
            limit: MIN_PURGE_SIZE,
        };
        Self { memory, state: Mutex::new(state) }
    }

    /// Returns the cached pattern for `key`, or compiles it.
    pub(crate) fn get_or_compile(
        &self,
        key: CacheKey,
        compile: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<Arc<T>, Refusal> {
        let known = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.known_entries.get(&key).map(|known| known.as_ref().map(Weak::upgrade).map_err(Clone::clone))
        };
        match known {
            Some(Ok(Some(pattern))) => return Ok(pattern),
            Some(Err(refusal)) => return Err(refusal),
            Some(Ok(None)) | None => {}
        }
        // Not under the lock, because it is slow.
        let compiled = compile().map(Arc::new);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.known_entries.insert(key, compiled.as_ref().map(Arc::downgrade).map_err(Clone::clone));
        if let Ok(pattern) = &compiled {
            state.recent_memory += (self.memory)(pattern);
            state.recent.push_back(pattern.clone());
        }
        while state.recent.len() > MAX_RECENT || state.recent_memory > MAX_RECENT_MEMORY {
            let Some(gone) = state.recent.pop_front() else { break };
            state.recent_memory -= (self.memory)(&gone);
        }
        if state.known_entries.len() > state.limit {
            state
                .known_entries
                .retain(|_, known| known.as_ref().is_ok_and(|pattern| pattern.strong_count() > 0));
            state.limit = MIN_PURGE_SIZE.max(2 * state.known_entries.len());
        }
        compiled
    }
}
