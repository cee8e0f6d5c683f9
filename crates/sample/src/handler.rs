//! The server as the SDK sees it: MCP requests in, the ledger and the tools behind.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities, GetTaskParams,
    GetTaskResult, Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::task_manager::TaskOptions;
use rmcp::{ErrorData, ServerHandler};

use crate::arguments::Arguments;
use crate::ledger::Ledger;
use crate::tasks::Tasks;
use crate::tools::{self, Call, Kind};

/// Made anew for every request of the stateless protocol; everything in it is shared.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) tasks: Tasks,
    pub(crate) ledger: Ledger,
    pub(crate) options: TaskOptions,
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
            .with_server_info(Implementation::new("david-sample", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let declared =
            context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks());
        if tools::kind(&request.name) == Some(Kind::Task) && !declared {
            // The SDK would refuse the answer, but only after the work has started.
            let required = ClientCapabilities::builder().enable_tasks().build();
            return Err(ErrorData::missing_required_client_capability(required));
        }
        let arguments = Arguments::new(request.arguments);
        self.ledger.called(&request.name, arguments.key());
        if let (Some(key), Some(traceparent)) = (arguments.key(), context.meta.get_traceparent()) {
            self.ledger.traced(key, traceparent);
        }
        let call = Call {
            tool: &request.name,
            arguments,
            input_responses: request.input_responses,
            request_state: request.request_state,
            tasks: &self.tasks,
            options: self.options.clone(),
        };
        let response = call.run().await?;
        if let CallToolResponse::Task(created) = &response {
            self.ledger.created(&created.task.task_id, &request.name);
        }
        Ok(response)
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.ledger.got(&request.task_id);
        Ok(GetTaskResult::new(self.tasks.get(&request.task_id)?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.ledger.updated(&request.task_id);
        self.tasks.update(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.ledger.cancelled(&request.task_id);
        self.tasks.cancel(&request.task_id)
    }
}
