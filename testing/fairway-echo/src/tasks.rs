//! The tasks of a backend, which end with it.

use std::future::Future;
use std::sync::Mutex;

use tokio::task::JoinSet;

/// Everything that is spawned; it ends with the backend.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.0.lock().expect("no holder of this lock panics");
        while running.try_join_next().is_some() {}
        running.spawn(task);
    }

    pub(crate) fn take(&self) -> JoinSet<()> {
        std::mem::take(&mut *self.0.lock().expect("no holder of this lock panics"))
    }
}
