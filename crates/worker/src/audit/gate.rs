//! The gate's lines, and the words on them (docs/sdk-audit.md).
//!
//! `PASS`: the SDK can do it. `KNOWN`: how servers behave is established. `FAIL`: it was seen to be
//! otherwise. `UNPROVEN`: it could not be tried here.

/// The seven lines of the plan's migration gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Tasks can be created, read, answered and cancelled through the SDK.
    Extension,
    /// Ids are the server's and work across connections.
    TaskId,
    /// Which statuses there are.
    Status,
    /// Where a result is, and what an error result looks like.
    Result,
    /// What a cancel does.
    Cancel,
    /// What a time to live means.
    Ttl,
    /// How a question is answered.
    Input,
}

/// What became of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It was seen to hold.
    Proven(String),
    /// It was seen not to hold.
    Disproved(String),
    /// It could not be tried; a server without the sample's tools, for example.
    Untried(String),
}

/// Why something could not be shown.
#[derive(Debug)]
pub(super) enum Doubt {
    Disproved(String),
    Untried(String),
}

/// What was seen, in a sentence; or why not.
pub(super) type Proof = Result<String, Doubt>;

impl Gate {
    /// In the order of the plan.
    pub const ALL: [Self; 7] =
        [Self::Extension, Self::TaskId, Self::Status, Self::Result, Self::Cancel, Self::Ttl, Self::Input];

    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Extension => "SDK_TASKS_EXTENSION",
            Self::TaskId => "TASK_ID_CONTRACT",
            Self::Status => "TASK_STATUS_ENUM",
            Self::Result => "RESULT_RETRIEVAL_CONTRACT",
            Self::Cancel => "CANCEL_CONTRACT",
            Self::Ttl => "TTL_CONTRACT",
            Self::Input => "INPUT_REQUIRED_CONTINUATION_CONTRACT",
        }
    }
}

impl Judgement {
    pub(super) fn of(proof: Proof) -> Self {
        match proof {
            Ok(seen) => Self::Proven(seen),
            Err(Doubt::Disproved(reason)) => Self::Disproved(reason),
            Err(Doubt::Untried(reason)) => Self::Untried(reason),
        }
    }

    /// `PASS` for the extension, `KNOWN` for a contract, once proven; else `FAIL` or `UNPROVEN`.
    pub fn word(&self, gate: Gate) -> &'static str {
        match (self, gate) {
            (Self::Proven(_), Gate::Extension) => "PASS",
            (Self::Proven(_), _) => "KNOWN",
            (Self::Disproved(_), _) => "FAIL",
            (Self::Untried(_), _) => "UNPROVEN",
        }
    }

    /// What was seen.
    pub fn evidence(&self) -> &str {
        match self {
            Self::Proven(text) | Self::Disproved(text) | Self::Untried(text) => text,
        }
    }

    /// Only what was seen to hold lets a migration go on.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Proven(_))
    }
}
