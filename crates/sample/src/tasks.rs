//! The tasks of the server: the SDK's task manager, which can also forget.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, DetailedTask, InputResponses, Task};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use tokio::time::Instant;

/// All tasks of one server, whichever connection they were made on; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Tasks {
    manager: TaskManager,
    /// When to behave as if a task had never been. The manager itself keeps a task for a second TTL after the
    /// first, and no task less long than its TTL.
    forgotten: Arc<Mutex<HashMap<String, Instant>>>,
}

/// How long the server remembers a task.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Memory {
    /// As long as the SDK does: at least until the TTL has passed.
    Ordinary,
    /// For this long.
    Short(Duration),
}

impl Tasks {
    /// Starts `operation` as a task.
    pub(crate) fn spawn<F>(
        &self,
        options: TaskOptions,
        memory: Memory,
        operation: impl FnOnce(TaskContext) -> F,
    ) -> Task
    where
        F: Future<Output = Result<CallToolResult, TaskExit>> + Send + 'static,
    {
        let task = self.manager.spawn(options, |context| Box::pin(operation(context)));
        if let Memory::Short(time) = memory {
            self.forgotten().insert(task.task_id.clone(), Instant::now() + time);
        }
        task
    }

    /// The state of a task once it has ended.
    pub(crate) async fn ended(&self, task_id: &str) -> Result<DetailedTask, ErrorData> {
        loop {
            let task = self.get(task_id)?;
            if task.status().is_terminal() {
                return Ok(task);
            }
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn get(&self, task_id: &str) -> Result<DetailedTask, ErrorData> {
        self.remembered(task_id)?;
        self.manager.get_task(task_id)
    }

    pub(crate) fn update(&self, task_id: &str, responses: InputResponses) -> Result<(), ErrorData> {
        self.remembered(task_id)?;
        self.manager.update_task(task_id, responses)
    }

    pub(crate) fn cancel(&self, task_id: &str) -> Result<(), ErrorData> {
        self.remembered(task_id)?;
        self.manager.cancel_task(task_id)
    }

    /// Stops all of them.
    pub(crate) fn shutdown(&self) {
        self.manager.shutdown();
    }

    fn remembered(&self, task_id: &str) -> Result<(), ErrorData> {
        match self.forgotten().get(task_id) {
            Some(at) if *at <= Instant::now() => {
                Err(ErrorData::invalid_params(format!("unknown task: {task_id}"), None))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn forgotten(&self) -> std::sync::MutexGuard<'_, HashMap<String, Instant>> {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
