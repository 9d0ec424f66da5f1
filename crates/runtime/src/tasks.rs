//! The tasks of a manager: one owner aborts them all at once.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinHandle};

/// Spawns tasks and remembers them. Cloning shares the list.
#[derive(Clone, Default)]
pub(crate) struct Tasks {
    list: Arc<Mutex<Vec<AbortHandle>>>,
}

/// Aborts every task of the list when dropped: a crash, as far as the tasks can tell.
pub(crate) struct AbortAll(Tasks);

impl Tasks {
    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let handle = tokio::spawn(future);
        let mut list = self.list.lock();
        // Finished ones are let go now and then, so that the list is no longer than the tasks that live.
        if list.len() == list.capacity() {
            list.retain(|task| !task.is_finished());
        }
        list.push(handle.abort_handle());
        handle
    }

    pub(crate) fn abort_on_drop(&self) -> AbortAll {
        AbortAll(self.clone())
    }
}

impl Drop for AbortAll {
    fn drop(&mut self) {
        self.0.list.lock().drain(..).for_each(|task| task.abort());
    }
}
