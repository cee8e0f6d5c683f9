//! What the migrations add up to, for reading and for noticing changes.

use david_testkit::TestDb;
use sqlx::Row;

const STRUCTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/operate/structure.txt");
const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema.txt");

/// One line per column, constraint, index, trigger and function, from the catalogue, so that it does
/// not depend on a version of `pg_dump`.
const CATALOGUE: &str = r"
select line from (
    select 1 as part, c.relname::text as name, 'table ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
           || case when a.attnotnull then ' not null' else '' end
           || case when a.attidentity <> '' then ' generated as identity'
                   when a.attgenerated <> '' then ' generated as ' || pg_get_expr(d.adbin, d.adrelid)
                   when d.adbin is not null then ' default ' || pg_get_expr(d.adbin, d.adrelid)
                   else '' end as line,
           a.attnum::int as position
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
     where c.relnamespace = 'david'::regnamespace and c.relkind = 'r' and c.relname <> '_sqlx_migrations'
    union all
    select 2, c.relname::text, 'constraint ' || c.relname || '.' || k.conname || ' ' || pg_get_constraintdef(k.oid), 0
      from pg_constraint k
      join pg_class c on c.oid = k.conrelid
     where c.relnamespace = 'david'::regnamespace and c.relname <> '_sqlx_migrations' and k.contype <> 'n'
    union all
    select 3, c.relname::text, 'index ' || pg_get_indexdef(i.indexrelid), 0
      from pg_index i
      join pg_class c on c.oid = i.indrelid
     where c.relnamespace = 'david'::regnamespace and c.relname <> '_sqlx_migrations'
    union all
    select 4, c.relname::text, 'trigger ' || pg_get_triggerdef(t.oid) || case t.tgenabled when 'A' then ' [always]' else '' end, 0
      from pg_trigger t
      join pg_class c on c.oid = t.tgrelid
     where c.relnamespace = 'david'::regnamespace and not t.tgisinternal
    union all
    select 5, p.proname::text, 'function ' || p.proname || '(' || pg_get_function_arguments(p.oid) || ') returns '
           || pg_get_function_result(p.oid) || case when p.prosecdef then ' security definer' else '' end
           || coalesce(' set ' || array_to_string(p.proconfig, ', '), '') || ' body ' || md5(coalesce(p.prosrc, '')), 0
      from pg_proc p
     where p.pronamespace = 'david'::regnamespace
) lines
order by part, name, position, line
";

#[tokio::test]
async fn the_schema_is_what_docs_schema_txt_says() {
    let db = TestDb::create().await.expect("a database");
    let rows = sqlx::query(CATALOGUE).fetch_all(&db.pool).await.expect("the catalogue");
    let mut actual = String::from(
        "# What the migrations add up to. Generated: UPDATE_DOCS=1 cargo test -p david-schema --test schema_snapshot\n",
    );
    for row in rows {
        actual.push_str(&row.try_get::<String, _>("line").expect("a line"));
        actual.push('\n');
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(SNAPSHOT, &actual).expect("docs/schema.txt is written");
    }
    let committed = std::fs::read_to_string(SNAPSHOT).unwrap_or_default();
    let differs = committed.lines().zip(actual.lines()).find(|(was, is)| was != is);
    assert!(
        committed == actual,
        "docs/schema.txt is not what the migrations make; first difference: {differs:?}\n\
         regenerate it with UPDATE_DOCS=1 cargo test -p david-schema --test schema_snapshot"
    );
}

/// By names alone, for `doctor`.
#[tokio::test]
async fn the_structure_that_doctor_expects_is_what_migrations_make() {
    let db = TestDb::create().await.expect("a database");
    let url = db.url.clone();
    let operator = david_schema::operate::Operator::open(&url, "test", std::time::Duration::from_secs(10))
        .expect("a URL");
    let actual = operator.structure().await.expect("the structure").join("\n") + "\n";
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(STRUCTURE, &actual).expect("structure.txt is written");
    }
    assert_eq!(std::fs::read_to_string(STRUCTURE).expect("structure.txt"), actual, "UPDATE_DOCS=1 writes it");
}
