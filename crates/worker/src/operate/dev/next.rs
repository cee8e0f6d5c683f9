//! What to type next.

use std::path::Path;

use david_cluster::Postgres;

/// For somebody who has never seen any of this. The lines below "In another terminal" may be pasted as they are
/// (`what_dev_says_to_type_next_works_as_it_stands`).
pub(super) fn text(dir: &Path, database_url: &str, server_url: &str) -> String {
    let us = std::env::args().next().unwrap_or_else(|| "david-tasks".to_owned());
    let psql = Postgres::program("psql").map_or_else(
        || "psql (install postgresql-client)".to_owned(),
        |path| match david_cluster::spawner::on_path("psql") {
            Some(_) => "psql".to_owned(),
            None => path.display().to_string(),
        },
    );
    format!(
        "\
Everything runs; it is kept in {dir}.

  database    {database_url}
  MCP server  {server_url}, registered as reg_sample for user_dev
  worker      in this process; its log follows

In another terminal:

  export DATABASE_URL={database_url}

  # A first Action, as Core would submit it:
  {psql} \"$DATABASE_URL\" -c \"insert into david.runs (id, user_id) values ('run_1', 'user_dev')\"
  {psql} \"$DATABASE_URL\" -c \"select david.submit_action('act_1', 'run_1', 'reg_sample', 'work', 'work', '{{\\\"seconds\\\": 5}}')\"

  {us} status
  {us} show act_1 --result
  {us} doctor --trusted-hosts 127.0.0.1

  # And see what moves, until Ctrl-C:
  {us} watch

Ctrl-C here ends everything; `{us} dev` finds it again.

",
        dir = dir.display(),
    )
}
