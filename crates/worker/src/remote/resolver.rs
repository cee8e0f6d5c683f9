//! DNS, less the names that lead to forbidden addresses.
//!
//! The policy's word on a URL is not enough: a name may resolve to anything, and to something else a
//! moment later. Here the addresses that were checked are the ones that are connected to.

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::endpoint_policy::EndpointPolicy;

/// The system's resolver under the endpoint policy.
#[derive(Debug, Clone)]
pub(super) struct Guarded(pub(super) EndpointPolicy);

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.0.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let admitted = policy.admit(name.as_str(), found)?;
            Ok(Box::new(admitted.into_iter()) as Addrs)
        })
    }
}
