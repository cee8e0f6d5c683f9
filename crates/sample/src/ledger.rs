//! The server's own account of what it was asked to do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// Counts of what reached the server; clones count together.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<Counts>>);

/// The counts at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Executed `tools/call` by tool.
    pub calls: BTreeMap<String, u64>,
    /// Executed `tools/call` by the argument `key`, where there was one.
    pub keys: BTreeMap<String, u64>,
    /// The `traceparent` of the last executed `tools/call` by the argument `key`, where there were both (SEP-414).
    pub traces: BTreeMap<String, String>,
    /// Tool by task id, for every task created.
    pub tasks: BTreeMap<String, String>,
    /// `tasks/get` by task id, known to the server or not.
    pub gets: BTreeMap<String, u64>,
    /// `tasks/update` by task id, known to the server or not.
    pub updates: BTreeMap<String, u64>,
    /// `tasks/cancel` by task id, known to the server or not.
    pub cancels: BTreeMap<String, u64>,
}

impl Ledger {
    /// Everything counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.lock().clone()
    }

    /// How often `tool` was executed.
    #[must_use]
    pub fn calls(&self, tool: &str) -> u64 {
        count(&self.lock().calls, tool)
    }

    /// How often a tool was executed with the argument `key` of this value.
    #[must_use]
    pub fn calls_with_key(&self, key: &str) -> u64 {
        count(&self.lock().keys, key)
    }

    /// `tasks/get` for this task.
    #[must_use]
    pub fn gets(&self, task_id: &str) -> u64 {
        count(&self.lock().gets, task_id)
    }

    /// `tasks/update` for this task.
    #[must_use]
    pub fn updates(&self, task_id: &str) -> u64 {
        count(&self.lock().updates, task_id)
    }

    /// `tasks/cancel` for this task.
    #[must_use]
    pub fn cancels(&self, task_id: &str) -> u64 {
        count(&self.lock().cancels, task_id)
    }

    pub(crate) fn called(&self, tool: &str, key: Option<&str>) {
        let mut counts = self.lock();
        add(&mut counts.calls, tool);
        if let Some(key) = key {
            add(&mut counts.keys, key);
        }
    }

    pub(crate) fn traced(&self, key: &str, traceparent: &str) {
        self.lock().traces.insert(key.to_owned(), traceparent.to_owned());
    }

    pub(crate) fn created(&self, task_id: &str, tool: &str) {
        self.lock().tasks.insert(task_id.to_owned(), tool.to_owned());
    }

    pub(crate) fn got(&self, task_id: &str) {
        add(&mut self.lock().gets, task_id);
    }

    pub(crate) fn updated(&self, task_id: &str) {
        add(&mut self.lock().updates, task_id);
    }

    pub(crate) fn cancelled(&self, task_id: &str) {
        add(&mut self.lock().cancels, task_id);
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// The JSON of `GET /ledger`: the fields of this struct, as objects.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "calls": self.calls,
            "keys": self.keys,
            "traces": self.traces,
            "tasks": self.tasks,
            "gets": self.gets,
            "updates": self.updates,
            "cancels": self.cancels,
        })
    }

    /// Keys that were called more than once: empty is the promise of one executed call per Action.
    #[must_use]
    pub fn called_twice(&self) -> Vec<&str> {
        self.keys.iter().filter(|(_, calls)| **calls > 1).map(|(key, _)| key.as_str()).collect()
    }
}

fn add(counts: &mut BTreeMap<String, u64>, name: &str) {
    *counts.entry(name.to_owned()).or_default() += 1;
}

fn count(counts: &BTreeMap<String, u64>, name: &str) -> u64 {
    counts.get(name).copied().unwrap_or_default()
}
