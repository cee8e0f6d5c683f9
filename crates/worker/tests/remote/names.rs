//! Names that lead to addresses which the endpoint policy forbids: checked where the connection is made,
//! so that no name can lead elsewhere between the check and the connection.

use david_tasks::endpoint_policy::EndpointPolicy;
use david_tasks::remote::{Access, Clients, Limits, Target};
use david_testkit::RawServer;

use crate::support::{Caller, word_of_call, word_of_poll};

fn caller(server: &RawServer, trusted: &[&str]) -> Caller {
    let trusted_hosts = trusted.iter().map(|&host| host.to_owned()).collect();
    let access =
        Access { endpoints: Some(EndpointPolicy { trusted_hosts }), credentials: None, health: None };
    let url = format!("http://localhost:{}/mcp", server.address().port());
    let target = Target { url, ..Caller::of(server).target };
    Caller { clients: Clients::new(Limits::default(), access).unwrap(), target }
}

#[tokio::test]
async fn a_name_that_leads_to_a_private_address_is_not_connected_to() {
    let server = RawServer::start().await.unwrap();
    let caller = caller(&server, &["127.0.0.1", "elsewhere"]);
    let called = caller.call().await;
    assert_eq!(word_of_call(&called), "EndpointForbidden", "{called:?}");
    let polled = caller.poll().await;
    assert_eq!(word_of_poll(&polled), "endpoint forbidden", "{polled:?}");
    assert!(format!("{polled:?}").contains("localhost leads to a forbidden address"), "{polled:?}");
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_trusted_name_may_lead_to_a_private_address() {
    let server = RawServer::start().await.unwrap();
    assert_eq!(word_of_poll(&caller(&server, &["LOCALHOST"]).poll().await), "working");
}

#[tokio::test]
async fn a_redirect_is_not_followed_wherever_it_leads() {
    let (server, elsewhere) = (RawServer::start().await.unwrap(), RawServer::start().await.unwrap());
    let caller = Caller::of(&server);
    for status in [301, 302, 303, 307, 308] {
        for location in [elsewhere.url(), "http://169.254.169.254/latest/meta-data".to_owned()] {
            let headers = vec![("location".to_owned(), location)];
            server.push("tasks/get", david_testkit::Reply::Status(status, headers, String::new()));
            let polled = caller.poll().await;
            assert_eq!(word_of_poll(&polled), "malformed", "{status}: {polled:?}");
        }
    }
    assert_eq!(elsewhere.requests().len(), 0);
}
