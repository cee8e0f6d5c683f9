//! May we talk to this server for this Run? Asked anew on every lease (DESIGN rule 11).

use std::time::Duration;

use crate::{Outcome, RegistrationId, UserId};

/// What the lease read of a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Its id.
    pub id: RegistrationId,
    /// Whose it is.
    pub owner_id: UserId,
    /// Whether it is switched on, or may not be used at present.
    pub state: RegistrationState,
    /// How long one `tools/call` may take, at most 300 s.
    pub request_timeout: Duration,
}

/// A registration's switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationState {
    /// May be used.
    Enabled,
    /// No remote traffic at all, not even a cancel.
    Disabled,
}

/// The answer, with a reason when it is no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authority {
    /// Yes.
    Granted,
    /// The registration was deleted.
    Missing,
    /// It is disabled.
    Disabled,
    /// It belongs to somebody else than the Run does.
    NotOwner,
    /// Its URL is one we may not talk to.
    EndpointForbidden {
        /// The policy's reason, one sentence.
        reason: String,
    },
    /// The server wants a credential that is not to be had here.
    NoCredential {
        /// Why not, one sentence.
        reason: String,
    },
}

impl Authority {
    /// The outcome of an Action that may not go on; none when it may.
    pub fn refusal(&self) -> Option<Outcome> {
        match self {
            Self::Granted => None,
            Self::Missing => Some(Outcome::RegistrationMissing),
            Self::Disabled => Some(Outcome::RegistrationDisabled),
            Self::NotOwner => Some(Outcome::RegistrationForbidden),
            Self::EndpointForbidden { .. } => Some(Outcome::EndpointForbidden),
            Self::NoCredential { .. } => Some(Outcome::Unauthorised),
        }
    }
}

/// Asks. `endpoint` is the endpoint policy's word on the registration's URL: `Err` holds its reason.
pub fn authorise(
    registration: Option<&Registration>,
    run_owner: &UserId,
    endpoint: Result<(), String>,
) -> Authority {
    match registration {
        None => Authority::Missing,
        Some(found) => match found.state {
            RegistrationState::Disabled => Authority::Disabled,
            RegistrationState::Enabled if found.owner_id != *run_owner => Authority::NotOwner,
            RegistrationState::Enabled => match endpoint {
                Ok(()) => Authority::Granted,
                Err(reason) => Authority::EndpointForbidden { reason },
            },
        },
    }
}
