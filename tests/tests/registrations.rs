//! A server that may not be talked to is not talked to: not to call, not to poll, not to cancel.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use david_e2e::{RAW, Submission, World};
use david_testkit::RawServer;

const REPLICA: &str = env!("CARGO_BIN_EXE_replica");

/// Makes the registration unfit; some of it is what an operator does, some is the worker's settings.
async fn ends_without_traffic(spoil: &'static str, hosts: &str, outcome: &str) {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let queued = world.submit(Submission::raw()).await.unwrap();
    let adopted = |id: &str| Submission { remote_task_id: Some(id.to_owned()), ..Submission::raw() };
    let working = world.submit(adopted("raw-task-1")).await.unwrap();
    let cancelled = world.submit(adopted("raw-task-2")).await.unwrap();
    world.cancel(&cancelled).await.unwrap();
    assert!(world.execute(spoil).await.unwrap() > 0);

    let _replica = world.replica(REPLICA).env("DAVID_TASKS_TRUSTED_HOSTS", hosts).start().unwrap();
    for action in [&queued, &working] {
        let standing = world.until_ended(action).await.unwrap();
        assert_eq!(standing.outcome.as_deref(), Some(outcome), "{standing:?}");
        assert_eq!((standing.status.as_str(), standing.outputs), ("failed", 1), "{standing:?}");
        let error = standing.envelope.unwrap()["error"].take();
        assert_eq!((&error["kind"], &error["source"]), (&outcome.into(), &"local".into()));
    }
    let standing = world.until_ended(&cancelled).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("run_cancelled"), "{standing:?}");
    assert_silence(&server);
}

fn assert_silence(server: &RawServer) {
    let methods: Vec<String> = server.requests().into_iter().map(|request| request.method).collect();
    assert!(methods.is_empty(), "the server was talked to: {methods:?}");
}

#[tokio::test]
async fn a_disabled_registration_means_no_traffic_at_all() {
    let disable = "update david.mcp_server_registrations set enabled = false where id = 'reg_raw'";
    ends_without_traffic(disable, "127.0.0.1", "registration_disabled").await;
}

#[tokio::test]
async fn a_deleted_registration_is_missing() {
    let delete = "delete from david.mcp_server_registrations where id = 'reg_raw'";
    ends_without_traffic(delete, "127.0.0.1", "registration_missing").await;
}

#[tokio::test]
async fn a_registration_of_another_user_is_forbidden() {
    let give_away =
        "with gone as (delete from david.mcp_server_registrations where id = 'reg_raw' returning *)
         insert into david.mcp_server_registrations
                (id, owner_id, name, url, normalized_url, identity_key, timeout_seconds)
         select id, 'user_other', name, url, normalized_url, identity_key || '2', timeout_seconds from gone";
    ends_without_traffic(give_away, "127.0.0.1", "registration_forbidden").await;
}

#[tokio::test]
async fn a_private_endpoint_that_is_not_trusted_is_forbidden() {
    let nothing = "update david.mcp_server_registrations set updated_at = now() where id = 'reg_raw'";
    ends_without_traffic(nothing, "mcp.example.com", "endpoint_forbidden").await;
}

#[tokio::test]
async fn a_registration_disabled_while_its_task_works_is_not_polled_any_more() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    world.until_phase(&action, "working").await.unwrap();
    world
        .execute("update david.mcp_server_registrations set enabled = false where id = 'reg_raw'")
        .await
        .unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("registration_disabled"), "{standing:?}");
    assert_eq!(server.requests_of("tasks/cancel").len(), 0);
}

#[tokio::test]
async fn one_user_s_server_is_not_another_s_by_name() {
    let world = World::new().await.unwrap();
    let server = RawServer::start().await.unwrap();
    world.register_for("user_other", RAW, &server.url()).await.unwrap();
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("registration_forbidden"), "{standing:?}");
    assert_silence(&server);
}

#[tokio::test]
async fn a_run_that_is_deleted_takes_its_work_with_it() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let action = world.submit(Submission::raw()).await.unwrap();
    let other = world.submit(Submission::work(0.0)).await.unwrap();
    let replica = world.replica(REPLICA).start().unwrap();
    world.until_phase(&action, "working").await.unwrap();
    sqlx::query("delete from david.runs where id = $1")
        .bind(&action.run)
        .execute(&world.db.pool)
        .await
        .unwrap();
    world.until_ended(&other).await.unwrap();
    assert!(replica.exited().unwrap().is_none(), "{}", replica.logs());
    assert_eq!(server.requests_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_registration_that_is_enabled_again_serves_new_actions_and_resurrects_none() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    let switch = async |to: bool| {
        sqlx::query("update david.mcp_server_registrations set enabled = $1 where id = $2")
            .bind(to)
            .bind(RAW)
            .execute(&world.db.pool)
            .await
            .unwrap();
    };
    let old = world.submit(Submission::raw()).await.unwrap();
    let _replica = world.replica(REPLICA).start().unwrap();
    world.until_phase(&old, "working").await.unwrap();
    switch(false).await;
    world.until_ended(&old).await.unwrap();
    let polls = server.requests_of("tasks/get").len();
    switch(true).await;
    server.on("tools/call", david_testkit::Reply::Result(david_e2e::raw::result("new")));
    let new = world.submit(Submission::raw()).await.unwrap();
    let standing = world.until_ended(&new).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    let standing = world.standing(&old).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("registration_disabled"), "{standing:?}");
    assert_eq!((standing.outputs, server.requests_of("tasks/get").len()), (1, polls));
}

#[tokio::test]
async fn a_proxy_of_the_environment_is_not_used() {
    let world = World::new().await.unwrap();
    let server = world.raw_server().await.unwrap();
    server.on("tools/call", david_testkit::Reply::Result(david_e2e::raw::result("direct")));
    let proxy = RawServer::start().await.unwrap();
    let mut replica = world.replica(REPLICA);
    for variable in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        replica = replica.env(variable, format!("http://{}", proxy.address()));
    }
    let action = world.submit(Submission::raw()).await.unwrap();
    let _replica = replica.env("no_proxy", "").env("NO_PROXY", "").start().unwrap();
    let standing = world.until_ended(&action).await.unwrap();
    assert_eq!(standing.outcome.as_deref(), Some("succeeded"), "{standing:?}");
    assert_silence(&proxy);
}
