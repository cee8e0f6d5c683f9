//! One connection through the proxy.

use std::io;
use std::sync::atomic::Ordering;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::wire::{Messages, Statements, is_commit, is_ready_for_query};
use super::{Mode, Shared, Trigger};

/// What is still to happen on this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Relay,
    /// The server's answers are dropped; the connection is cut with the one that says it is done.
    CutOnceDone,
}

/// Relays until one side ends, or the mode says otherwise; returning closes both sides.
pub(super) async fn relay(mut client: TcpStream, mut server: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut mode = shared.mode.subscribe();
    let (mut asked, mut answered) = (Messages::of_client(), Messages::of_server());
    let mut statements = Statements::default();
    let (mut from_client, mut from_server) = (vec![0; 16 * 1024], vec![0; 16 * 1024]);
    let mut fate = Fate::Relay;
    loop {
        let flowing = match &*mode.borrow_and_update() {
            Mode::Refuse => return Ok(()),
            // Nothing is read, so nothing is acknowledged beyond what fits the socket buffers.
            Mode::Blackhole => false,
            Mode::Pass | Mode::CutBefore(_) | Mode::CutAfter(_) => true,
        };
        tokio::select! {
            changed = mode.changed() => changed.map_err(io::Error::other)?,
            read = client.read(&mut from_client), if flowing => {
                let read = read?;
                if read == 0 {
                    return Ok(());
                }
                asked.extend(&from_client[..read]);
                while let Some(message) = asked.next() {
                    if let Some(statement) = statements.started_by(&message) {
                        match shared.verdict(&statement) {
                            Verdict::Pass => {}
                            Verdict::CutNow => return Ok(()),
                            Verdict::CutOnceDone => fate = Fate::CutOnceDone,
                        }
                    }
                    server.write_all(&message).await?;
                }
            }
            read = server.read(&mut from_server), if flowing => {
                let read = read?;
                if read == 0 {
                    return Ok(());
                }
                if fate == Fate::Relay {
                    client.write_all(&from_server[..read]).await?;
                    continue;
                }
                // Everything before was answered: a client waits for its answer before it commits.
                answered.extend(&from_server[..read]);
                while let Some(message) = answered.next() {
                    if is_ready_for_query(&message) {
                        return Ok(());
                    }
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    CutNow,
    CutOnceDone,
}

impl Shared {
    /// Counts a statement and says what becomes of its connection; a cut is used up by this.
    fn verdict(&self, statement: &str) -> Verdict {
        if is_commit(statement) {
            self.commits.fetch_add(1, Ordering::SeqCst);
        }
        let mut verdict = Verdict::Pass;
        self.mode.send_if_modified(|mode| {
            verdict = match mode {
                Mode::CutBefore(trigger) if trigger.fires(statement) => Verdict::CutNow,
                Mode::CutAfter(trigger) if trigger.fires(statement) => Verdict::CutOnceDone,
                Mode::Pass | Mode::CutBefore(_) | Mode::CutAfter(_) | Mode::Blackhole | Mode::Refuse => {
                    return false;
                }
            };
            *mode = Mode::Pass;
            true
        });
        if verdict != Verdict::Pass {
            self.cuts.fetch_add(1, Ordering::SeqCst);
        }
        verdict
    }
}

impl Trigger {
    fn fires(&self, statement: &str) -> bool {
        match self {
            Self::Commit => is_commit(statement),
            Self::Statement(part) => statement.contains(part.as_str()),
        }
    }
}
