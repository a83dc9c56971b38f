//! A bounded queue of work from many owners for a few threads. It is fair: a flooded owner takes neither the room nor the time
//! of another. It does not know what the work is.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Pieces of work, each with its owner. Owners are served round robin.
pub(crate) struct Queue<T> {
    state: Mutex<QueueState<T>>,
    work_arrived: Condvar,
    /// The maximum number of waiting tasks.
    capacity: usize,
}

struct QueueState<T> {
    /// The owners with waiting tasks, the next to be served first.
    owners: VecDeque<Owner<T>>,
    is_closed: bool,
}

struct Owner<T> {
    name: Arc<str>,
    tasks: VecDeque<T>,
}

impl<T> Queue<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        let state = QueueState { owners: VecDeque::new(), is_closed: false };
        Self { state: Mutex::new(state), work_arrived: Condvar::new(), capacity }
    }

    /// Adds a task. If the queue is full, the newest task of the owner with the most is dropped, unless that is the
    /// owner of this one or would then have fewer.
    ///
    /// # Errors
    /// There is no room; the task is returned.
    pub(crate) fn push(&self, owner: &Arc<str>, task: T) -> Result<(), T> {
        let mut state = self.lock();
        let has = state.tasks_of(owner);
        if state.len() >= self.capacity && !state.make_room(has + 1) {
            return Err(task);
        }
        state.push(owner, task);
        self.work_arrived.notify_one();
        Ok(())
    }

    /// Waits for a task; `None` once the queue is closed.
    pub(crate) fn next(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(task) = state.pop() {
                return Some(task);
            }
            state = self.work_arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes the queue and drops what waits.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.owners.clear();
        self.work_arrived.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> QueueState<T> {
    fn len(&self) -> usize {
        self.owners.iter().map(|owner| owner.tasks.len()).sum()
    }

    fn tasks_of(&self, name: &str) -> usize {
        self.owners.iter().find(|owner| *owner.name == *name).map_or(0, |owner| owner.tasks.len())
    }

    fn push(&mut self, name: &Arc<str>, task: T) {
        match self.owners.iter_mut().find(|owner| owner.name == *name) {
            Some(owner) => owner.tasks.push_back(task),
            None => self.owners.push_back(Owner { name: Arc::clone(name), tasks: VecDeque::from([task]) }),
        }
    }

    /// Drops the newest task of the owner with the most, if that is more than `others`.
    fn make_room(&mut self, others: usize) -> bool {
        let longest = self.owners.iter_mut().max_by_key(|owner| owner.tasks.len());
        let Some(longest) = longest.filter(|owner| owner.tasks.len() > others) else { return false };
        longest.tasks.pop_back();
        true
    }

    /// Takes the oldest task of the next owner, who then goes last.
    fn pop(&mut self) -> Option<T> {
        let mut owner = self.owners.pop_front()?;
        let task = owner.tasks.pop_front();
        if !owner.tasks.is_empty() {
            self.owners.push_back(owner);
        }
        task
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue_of(room: usize, tasks: &[(&str, u32)]) -> Queue<u32> {
        let queue = Queue::new(room);
        for (owner, task) in tasks {
            assert_eq!(queue.push(&Arc::from(*owner), *task), Ok(()));
        }
        queue
    }

    fn next(queue: &Queue<u32>, count: usize) -> Vec<u32> {
        (0..count).filter_map(|_| queue.next()).collect()
    }

    #[test]
    fn owners_have_their_turn_one_after_the_other() {
        let queue = queue_of(9, &[("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("b", 6)]);
        assert_eq!(next(&queue, 6), [1, 4, 5, 2, 6, 3]);
    }

    #[test]
    fn without_room_the_newest_item_of_the_largest_owner_is_dropped() {
        let queue = queue_of(3, &[("a", 1), ("a", 2), ("a", 3)]);
        assert_eq!(queue.push(&"a".into(), 4), Err(4), "its own does not");
        assert_eq!(queue.push(&"b".into(), 5), Ok(()));
        assert_eq!(queue.push(&"b".into(), 6), Err(6), "as many as the other has");
        assert_eq!(next(&queue, 3), [1, 5, 2]);
    }

    #[test]
    fn a_closed_queue_ends_its_waiters_and_drops_its_items() {
        let queue = Arc::new(queue_of(3, &[("a", 1)]));
        assert_eq!(queue.next(), Some(1));
        let waiter = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.next()
        });
        queue.close();
        assert_eq!(waiter.join().ok(), Some(None));
        assert_eq!(queue.next(), None);
    }
}
