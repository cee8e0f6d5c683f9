//! The token of one client, kept between its requests.

use std::sync::Arc;
use std::time::Duration;

use david_reconciler::CredentialId;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{CredentialError, Fetched, Source, Token, Want};

/// After a token was refused and its source had no other, the source is left alone for this long: all
/// rows of a registration may be refused at the same time.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A credential in use.
#[derive(Debug, Clone)]
pub struct Bearer {
    source: Arc<Source>,
    id: CredentialId,
    /// Locked while the source is asked, so that it is asked once for all that wait.
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    held: Option<Fetched>,
    /// When the source last had no other token for one that was refused.
    no_other: Option<Instant>,
    /// The last failure, for those that waited for it.
    failed: Option<(Instant, CredentialError)>,
}

impl Bearer {
    pub(crate) fn new(source: Arc<Source>, id: CredentialId) -> Self {
        Self { source, id, state: Arc::default() }
    }

    /// A token that has not expired yet.
    pub(crate) async fn token(&self) -> Result<Token, CredentialError> {
        let came = Instant::now();
        let mut state = self.state.lock().await;
        match &state.held {
            Some(held) if Instant::now() < held.until => Ok(held.token.clone()),
            _ => self.fetch(&mut state, came, Want::Any).await,
        }
    }

    /// Another token than the one the server refused, if there is one by now.
    pub(crate) async fn other_than(&self, refused: &Token) -> Result<Option<Token>, CredentialError> {
        let came = Instant::now();
        let mut state = self.state.lock().await;
        // Somebody else was refused first and has fetched another.
        let usable = |held: &&Fetched| !held.token.is(refused) && Instant::now() < held.until;
        if let Some(held) = state.held.as_ref().filter(usable) {
            return Ok(Some(held.token.clone()));
        }
        if state.no_other.is_some_and(|at| at.elapsed() < ASK_AGAIN) {
            return Ok(None);
        }
        let token = self.fetch(&mut state, came, Want::Another).await?;
        if token.is(refused) {
            state.no_other = Some(Instant::now());
            return Ok(None);
        }
        Ok(Some(token))
    }

    async fn fetch(&self, state: &mut State, came: Instant, want: Want) -> Result<Token, CredentialError> {
        if let Some((_, error)) = state.failed.as_ref().filter(|(at, _)| *at > came) {
            return Err(error.clone());
        }
        match self.source.fetch(&self.id, want).await {
            Ok(fetched) => {
                let token = fetched.token.clone();
                state.held = Some(fetched);
                Ok(token)
            }
            Err(error) => {
                state.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }
}
