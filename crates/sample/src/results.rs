//! What the tools answer.

use std::collections::BTreeMap;

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, InputRequest};
use serde_json::{Value, json};

/// `text` as content and as `structuredContent.text`.
pub(crate) fn text(text: String) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text.clone())]);
    result.structured_content = Some(json!({ "text": text }));
    result
}

/// The tool ran and did not work.
pub(crate) fn error(text: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// The answers, as the client gave them: the form's `answer` as text, everything as structured content.
pub(crate) fn answers(answers: BTreeMap<String, Value>) -> CallToolResult {
    let texts = answers.values().map(|answer| {
        let text = answer["content"]["answer"].as_str().or(answer["action"].as_str()).unwrap_or_default();
        ContentBlock::text(text)
    });
    let mut result = CallToolResult::success(texts.collect());
    result.structured_content = Some(json!({ "answers": answers }));
    result
}

/// A form with the one field `answer`.
pub(crate) fn form(question: &str) -> Result<InputRequest, ErrorData> {
    serde_json::from_value(json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": question,
            "requestedSchema": {
                "type": "object",
                "properties": { "answer": { "type": "string" } },
                "required": ["answer"],
            },
        },
    }))
    .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// The key of the `number`th question, counted from 1.
pub(crate) fn question_key(number: u32) -> String {
    format!("question-{number}")
}
