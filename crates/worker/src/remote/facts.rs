//! What a server says of itself: its version, its extensions, its tools.

use std::collections::BTreeSet;

use david_reconciler::{Refusal, ToolName};
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams};
use tokio::time::Instant;

use super::failure::{Failure, Refused};
use super::{Clients, Target, tolerant};

/// Pages of a tool list that are read; one without an end must not hold a call for ever.
const PAGES: usize = 64;

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// The protocol's version that is spoken with it.
    pub protocol_version: String,
    /// Whether it declares the Tasks extension.
    pub tasks: TasksExtension,
    /// The names of its tools.
    pub tools: BTreeSet<ToolName>,
}

/// Whether a server declares the Tasks extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TasksExtension {
    /// It does.
    Declared,
    /// It does not, and cannot make tasks.
    NotDeclared,
}

impl Clients {
    /// Connects, where need be, and reads the tool list.
    ///
    /// # Errors
    /// When the server cannot be reached, or does not list its tools.
    pub async fn facts(&self, target: &Target, deadline: Instant) -> Result<ServerFacts, Refusal> {
        let read = async {
            let tools = self.tools(target, deadline).await?;
            Ok((self.lend(target, deadline).await?, tools))
        };
        let (lent, tools) = read.await.map_err(|failure: Failure| match failure.of_task() {
            Refused::Refusal(refusal) => refusal,
            Refused::TooLarge(detail) => Refusal::Malformed { detail },
        })?;
        let info = lent.peer.peer_info();
        let declared = info.as_ref().is_some_and(|info| info.capabilities.supports_tasks());
        Ok(ServerFacts {
            protocol_version: info.map_or_else(String::new, |info| info.protocol_version.to_string()),
            tasks: if declared { TasksExtension::Declared } else { TasksExtension::NotDeclared },
            tools,
        })
    }

    /// `tools/list`, all pages. The SDK keeps the schemas, and from them learns which parameters it has
    /// to send as headers, too.
    pub(super) async fn tools(
        &self,
        target: &Target,
        deadline: Instant,
    ) -> Result<BTreeSet<ToolName>, Failure> {
        let (mut names, mut cursor) = (BTreeSet::new(), None);
        for _ in 0..PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ListToolsRequest::with_param(params);
            let result = self.send(target, ClientRequest::ListToolsRequest(request), deadline).await?;
            let page = tolerant::tool_page(result).ok_or_else(Failure::no_tool_list)?;
            names.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(names)
    }
}
