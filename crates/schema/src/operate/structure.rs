//! Is the schema as its migrations made it?

use std::collections::HashSet;

use super::{Operator, OperatorError};

/// What the migrations make, one line each as `structure.sql` words it. Checked by
/// `the_structure_that_doctor_expects_is_what_migrations_make`.
pub const STRUCTURE: &str = include_str!("structure.txt");

/// Something that is not as the migrations made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// `index …`, `constraint table.…`, `trigger table.…`, `column table.…`, `function …`, `sequence …`.
    pub thing: String,
    /// SQL that mends it; none when it has to be made anew.
    pub fix: Option<String>,
}

impl Operator {
    /// What schema david consists of, in lines like those of [`STRUCTURE`].
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn structure(&self) -> Result<Vec<String>, OperatorError> {
        self.ledger
            .run(async |connection| {
                sqlx::query_file_scalar!("../../sql/operate/structure.sql").fetch_all(connection).await
            })
            .await
            .map_err(OperatorError::new("say what the schema consists of"))
    }

    /// What of the schema is missing, or switched off. What was added does no harm.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn damage(&self) -> Result<Vec<Damage>, OperatorError> {
        let there: HashSet<String> = self.structure().await?.into_iter().collect();
        Ok(STRUCTURE
            .lines()
            .filter(|line| !there.contains(*line))
            .map(|line| match trigger(line) {
                Some((table, name, fires)) => {
                    let thing = format!("trigger {table}.{name}");
                    let switched_off = ["always", "enabled", "disabled"]
                        .iter()
                        .any(|state| there.contains(&format!("{thing} {state}")));
                    let always = if fires == "always" { "always " } else { "" };
                    let fix = format!("alter table david.{table} enable {always}trigger {name};");
                    Damage { thing, fix: switched_off.then_some(fix) }
                }
                None => Damage { thing: line.to_owned(), fix: None },
            })
            .collect())
    }
}

/// The table, the name and the state in a trigger's line.
fn trigger(line: &str) -> Option<(&str, &str, &str)> {
    let (name, state) = line.strip_prefix("trigger ")?.split_once(' ')?;
    let (table, name) = name.split_once('.')?;
    Some((table, name, state))
}
