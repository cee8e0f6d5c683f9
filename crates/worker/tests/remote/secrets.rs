//! A task id may be a bearer secret, and so may what stands in a URL: the adapter's own sentences hold
//! neither. (What a *server* says of a task may repeat its id; the reconciler hides it there, since it
//! stores and shows the words.)

use david_reconciler::{CallReply, PollReply, Refusal};
use david_tasks::remote::Limits;
use david_testkit::raw_server::SseEnd;
use david_testkit::{RawServer, Reply};
use serde_json::json;

use crate::support::Caller;

const SECRET: &str = "secret-7f3a9c";

fn status(status: u16) -> Reply {
    let headers = vec![("content-type".to_owned(), "text/plain".to_owned())];
    Reply::Status(status, headers, format!("no such task: {SECRET}"))
}

#[tokio::test]
async fn no_sentence_about_a_poll_holds_the_task_id() {
    let server = RawServer::start().await.unwrap();
    let caller = Caller::of(&server);
    let task = |changes: serde_json::Value| {
        let mut task = json!({
            "resultType": "complete", "taskId": SECRET, "status": "completed", "ttlMs": null,
            "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
        });
        for (name, value) in changes.as_object().unwrap() {
            task[name] = value.clone();
        }
        Reply::Result(task)
    };
    for reply in [
        task(json!({})),
        task(json!({ "status": SECRET })),
        task(json!({ "taskId": format!("{SECRET}-2"), "result": {} })),
        task(json!({ "resultType": "task", "result": {} })),
        Reply::json_text(&format!("{{\"taskId\": \"{SECRET}\"")),
        Reply::json_text(&format!("{{\"taskId\": \"{SECRET}\"}}")),
        Reply::RawBody { content_type: format!("text/{SECRET}"), body: SECRET.into() },
        Reply::Sse { chunks: vec![format!("data: {SECRET}\n\n")], end: SseEnd::Close },
        status(400),
        status(401),
        status(404),
        status(408),
        status(500),
        Reply::CloseEarly,
        Reply::Reset,
    ] {
        server.push("tasks/get", reply.clone());
        let polled = caller.poll_id(SECRET).await;
        assert!(matches!(polled, PollReply::Refused(_)), "{reply:?}: {polled:?}");
        let shown = format!("{polled:?}");
        assert!(!shown.contains("secret"), "{reply:?}: {shown}");
    }
}

#[tokio::test]
async fn no_sentence_about_a_connection_holds_its_url() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = RawServer::start().await.unwrap();
    let (there, not_there) = (server.address(), closed);
    for reply in [Reply::status(500), Reply::Reset, Reply::CloseEarly, Reply::json_text("<h1>"), status(400)]
    {
        server.on("server/discover", reply);
        for address in [there, not_there] {
            let url = format!("http://user:{SECRET}@{address}/mcp?token={SECRET}");
            let caller = Caller::new(&url, Limits::default());
            let CallReply::NotExecuted { detail, .. } = caller.call().await else {
                panic!("{address} answers")
            };
            assert!(!detail.contains("secret"), "{detail}");
            let PollReply::Refused(Refusal::Transient(trouble)) = caller.poll().await else { panic!() };
            assert!(!trouble.detail.contains("secret"), "{}", trouble.detail);
        }
    }
}
