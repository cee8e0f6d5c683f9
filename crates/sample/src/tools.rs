//! The tools: what they are called and what they do. The crate's documentation has the table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, CallToolResult, CreateTaskResult, ErrorCode, InputRequiredResult, InputResponses,
    JsonObject, Tool,
};
use rmcp::task_manager::{TaskContext, TaskExit, TaskOptions};
use serde_json::json;

use crate::arguments::Arguments;
use crate::results;
use crate::tasks::{Memory, Tasks};

/// The JSON-RPC error code of `fail` and `reject`, which no specification uses.
pub const REJECTED: i32 = -32050;

/// Whether a tool makes a task, which a client must have declared itself ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Task,
    Immediate,
}

const TOOLS: [(&str, Kind, &str); 14] = [
    ("work", Kind::Task, "Works for `seconds`, then completes with `text`"),
    ("fail", Kind::Task, "Works for `seconds`, then fails with a JSON-RPC error"),
    ("tool_error", Kind::Task, "Works for `seconds`, then completes with isError"),
    ("ask", Kind::Task, "Asks `question`, then completes with the answer"),
    ("stubborn", Kind::Task, "Works for `seconds` and completes, cancelled or not"),
    ("cancelled", Kind::Task, "Works for `seconds`, then ends itself as cancelled"),
    ("vanish", Kind::Task, "Is forgotten after `seconds`, long before its TTL"),
    ("short_ttl", Kind::Task, "Has a TTL of `ttl_ms` and is forgotten after it"),
    ("progress", Kind::Task, "Reports `steps` steps in `seconds`"),
    ("born_done", Kind::Task, "Is completed from the start"),
    ("sync", Kind::Immediate, "Answers with `text` after `seconds`"),
    ("sync_error", Kind::Immediate, "Answers with isError"),
    ("ask_first", Kind::Immediate, "Asks `question` before it answers"),
    ("reject", Kind::Immediate, "Answers with a JSON-RPC error"),
];

/// The tools as `tools/list` shows them.
pub(crate) fn list() -> Vec<Tool> {
    // Arguments are checked by the tools themselves; `key` is what the ledger counts by.
    let schema: Arc<JsonObject> = Arc::new(
        [("type", json!("object")), ("properties", json!({ "key": { "type": "string" } }))]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    );
    TOOLS.iter().map(|(name, _, description)| Tool::new(*name, *description, schema.clone())).collect()
}

pub(crate) fn kind(name: &str) -> Option<Kind> {
    TOOLS.iter().find(|(known, _, _)| *known == name).map(|(_, kind, _)| *kind)
}

/// One `tools/call`.
pub(crate) struct Call<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: Arguments,
    pub(crate) input_responses: Option<InputResponses>,
    pub(crate) request_state: Option<String>,
    pub(crate) tasks: &'a Tasks,
    pub(crate) options: TaskOptions,
}

impl Call<'_> {
    /// Executes the call.
    pub(crate) async fn run(self) -> Result<CallToolResponse, ErrorData> {
        let arguments = &self.arguments;
        let seconds = arguments.seconds(1.0)?;
        match self.tool {
            "work" => {
                let text = arguments.text("text", "done")?;
                self.task(async move |context| {
                    work(&context, seconds).await?;
                    Ok(results::text(text))
                })
            }
            "fail" => self.task(async move |context| {
                work(&context, seconds).await?;
                Err(TaskExit::Error(rejected("the task failed")))
            }),
            "tool_error" => self.task(async move |context| {
                work(&context, seconds).await?;
                Ok(results::error("the tool did not work"))
            }),
            "ask" => {
                let (question, questions) =
                    (arguments.text("question", "Why?")?, arguments.count("questions", 1)?);
                let seconds = arguments.seconds(0.0)?;
                self.task(async move |context| ask(&context, seconds, &question, questions).await)
            }
            "stubborn" => self.task(async move |_| {
                tokio::time::sleep(seconds).await;
                Ok(results::text("done anyway".to_owned()))
            }),
            "cancelled" => self.task(async move |context| {
                work(&context, seconds).await?;
                Err(TaskExit::Cancelled)
            }),
            "vanish" => self.forgetful(Memory::Short(seconds), async move |context| {
                context.cancelled().await;
                Err(TaskExit::Cancelled)
            }),
            "short_ttl" => {
                let ttl_ms = u64::from(arguments.count("ttl_ms", 500)?);
                let seconds = arguments.seconds(3_600.0)?;
                let memory = Memory::Short(Duration::from_millis(ttl_ms));
                let options = self.options.clone().with_ttl_ms(ttl_ms);
                Call { options, ..self }.forgetful(memory, async move |context| {
                    work(&context, seconds).await?;
                    Ok(results::text("done in time".to_owned()))
                })
            }
            "progress" => {
                let steps = arguments.count("steps", 3)?;
                self.task(async move |context| progress(&context, seconds, steps).await)
            }
            "born_done" => {
                let text = arguments.text("text", "done")?;
                let task =
                    self.tasks.spawn(self.options, Memory::Ordinary, async move |_| Ok(results::text(text)));
                let ended = self.tasks.ended(&task.task_id).await?;
                Ok(CallToolResponse::Task(CreateTaskResult::new(ended.task)))
            }
            "sync" => {
                let text = arguments.text("text", "done")?;
                tokio::time::sleep(arguments.seconds(0.0)?).await;
                Ok(CallToolResponse::Complete(results::text(text)))
            }
            "sync_error" => Ok(CallToolResponse::Complete(results::error("the tool did not work"))),
            "ask_first" => self.ask_first(),
            "reject" => Err(rejected("the call is rejected")),
            unknown => Err(ErrorData::invalid_params(format!("unknown tool: {unknown}"), None)),
        }
    }

    fn task<F>(self, operation: impl FnOnce(TaskContext) -> F) -> Result<CallToolResponse, ErrorData>
    where
        F: Future<Output = Result<CallToolResult, TaskExit>> + Send + 'static,
    {
        self.forgetful(Memory::Ordinary, operation)
    }

    fn forgetful<F>(
        self,
        memory: Memory,
        operation: impl FnOnce(TaskContext) -> F,
    ) -> Result<CallToolResponse, ErrorData>
    where
        F: Future<Output = Result<CallToolResult, TaskExit>> + Send + 'static,
    {
        let task = self.tasks.spawn(self.options, memory, operation);
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    /// Asks on the first call; the second is known by the state it echoes, byte for byte.
    fn ask_first(self) -> Result<CallToolResponse, ErrorData> {
        let question = self.arguments.text("question", "Why?")?;
        let state = format!("asked: {question} \u{2713}");
        match (self.request_state, self.input_responses) {
            (None, _) => {
                let requests = [(results::question_key(1), results::form(&question)?)].into_iter().collect();
                Ok(CallToolResponse::InputRequired(InputRequiredResult::new(Some(requests), Some(state))))
            }
            (Some(echoed), Some(answers)) if echoed == state => {
                Ok(CallToolResponse::Complete(results::answers(answers)))
            }
            (Some(_), _) => Err(ErrorData::invalid_params("wrong requestState or no inputResponses", None)),
        }
    }
}

/// Takes `time`, unless a cancel comes first.
async fn work(context: &TaskContext, time: Duration) -> Result<(), TaskExit> {
    tokio::select! {
        () = tokio::time::sleep(time) => Ok(()),
        () = context.cancelled() => Err(TaskExit::Cancelled),
    }
}

async fn ask(
    context: &TaskContext,
    time: Duration,
    question: &str,
    count: u32,
) -> Result<CallToolResult, TaskExit> {
    work(context, time).await?;
    let asked = (1..=count).map(async |number| {
        let key = results::question_key(number);
        let answer = context.request_input(key.clone(), results::form(question)?).await?;
        Ok::<_, TaskExit>((key, answer))
    });
    Ok(results::answers(BTreeMap::from_iter(try_join_all(asked).await?)))
}

async fn progress(context: &TaskContext, time: Duration, steps: u32) -> Result<CallToolResult, TaskExit> {
    for step in 1..=steps {
        context.set_status_message(format!("step {step} of {steps}"));
        work(context, time / steps).await?;
    }
    Ok(results::text(format!("{steps} steps")))
}

fn rejected(message: &'static str) -> ErrorData {
    ErrorData::new(ErrorCode(REJECTED), message, None)
}
