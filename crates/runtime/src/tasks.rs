//! The tasks of a manager: one owner aborts them all at once.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinHandle};
use tracing::Instrument;

/// Spawns tasks and keeps their handles. Clones share one list.
#[derive(Clone, Default)]
pub(crate) struct Tasks {
    list: Arc<Mutex<Vec<AbortHandle>>>,
}

/// Aborts every task of the list when dropped: a crash, as far as the tasks can tell.
pub(crate) struct AbortAll(Tasks);

impl Tasks {
    /// Spawns a task under a name that consoles and profilers show.
    pub(crate) fn spawn_named<F>(&self, name: &str, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let span = tracing::debug_span!("task", task = name);
        self.keep(spawn_task(name, future.instrument(span)))
    }

    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        self.keep(tokio::spawn(future))
    }

    fn keep<T>(&self, handle: JoinHandle<T>) -> JoinHandle<T> {
        let mut list = self.list.lock();
        // Finished tasks are dropped whenever the list would grow, so that its length follows the number of live tasks.
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

/// Names the task if tokio is built for its console (`tokio_unstable`).
#[cfg(tokio_unstable)]
fn spawn_task<F>(name: &str, future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    tokio::task::Builder::new().name(name).spawn(future).expect("a task can be spawned inside of a runtime")
}

#[cfg(not(tokio_unstable))]
fn spawn_task<F>(_: &str, future: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    tokio::spawn(future)
}

impl Drop for AbortAll {
    fn drop(&mut self) {
        self.0.list.lock().drain(..).for_each(|task| task.abort());
    }
}
