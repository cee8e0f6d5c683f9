//! Whether a row's server may be talked to, as far as this worker's own settings have a say.

use david_reconciler::{Authority, UserId, authorise};
use david_schema::Registered;

use crate::context::Context;

/// May we talk to this server for this user?
pub(crate) fn authority_of(context: &Context, registered: Option<&Registered>, user: &UserId) -> Authority {
    let endpoint = registered.map_or(Ok(()), |found| context.endpoints.check(&found.endpoint.url));
    match authorise(registered.map(|found| &found.registration), user, endpoint) {
        Authority::Granted
            if !context.has_credentials
                && registered.is_some_and(|found| found.endpoint.credential.is_some()) =>
        {
            let reason =
                "The registration wants a bearer credential, and this worker has no source of credentials.";
            Authority::NoCredential { reason: reason.to_owned() }
        }
        authority => authority,
    }
}
