//! How answers look: tables with columns of one width, JSON, errors with their place.

use liger_server::client::{Head, Told};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::{is_number, line_of};

/// How rows are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// As a table.
    Table,
    /// As JSON objects.
    Json,
}

/// `\d` and `\dt`.
pub const RELATIONS: &str = "\
select n.nspname as \"Schema\", c.relname as \"Name\", \
case c.relkind when 'r' then 'table' when 'v' then 'view' \
when 'm' then 'materialized view' when 'S' then 'sequence' when 'p' then 'table' end as \"Type\", \
pg_get_userbyid(c.relowner) as \"Owner\" from pg_class c join pg_namespace n on n.oid = c.relnamespace \
where c.relkind in ($kinds) and n.nspname not in ('pg_catalog', 'information_schema') \
and n.nspname not like 'pg_toast%' and pg_table_is_visible(c.oid) order by 1, 2";

/// `\d NAME`.
pub const DESCRIBE: &str = "\
select a.attname as \"Column\", format_type(a.atttypid, a.atttypmod) as \"Type\", \
case when a.attnotnull then 'not null' else '' end as \"Nullable\", \
coalesce(pg_get_expr(d.adbin, d.adrelid), '') as \"Default\" \
from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum \
where a.attrelid = '$name'::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum; \
select pg_get_indexdef(i.indexrelid) as \"Index\" from pg_index i \
where i.indrelid = '$name'::regclass order by 1";

/// `\du`.
pub const ROLES: &str = "\
select rolname as \"Role\", concat_ws(', ', case when rolsuper then 'superuser' end, \
case when rolcreaterole then 'creates roles' end, case when not rolcanlogin then 'cannot log in' end, \
case when rolconnlimit >= 0 then rolconnlimit || ' connections' end) as \"Attributes\", \
array(select b.rolname from pg_auth_members m join pg_roles b on b.oid = m.roleid where m.member = r.oid) \
as \"Member of\" from pg_roles r where rolname not like 'pg\\_%' order by 1";

/// Rows that are printed once all are there.
pub struct Table {
    columns: Vec<Head>,
    /// Values by column; NULL is `None`.
    pub rows: Vec<Vec<Option<String>>>,
}

fn width(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// Where a text stands in its column.
enum Side {
    Left,
    Middle,
    Right,
}

/// A line of `width` characters. The formatter pads no further than 65,535 characters, and texts go on.
fn padded(line: &str, side: Side, width: usize) -> String {
    let room = width.saturating_sub(line.chars().count());
    let before = match side {
        Side::Left => 0,
        Side::Middle => room / 2,
        Side::Right => room,
    };
    [&" ".repeat(before), line, &" ".repeat(room - before)].concat()
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text")
}

impl Table {
    /// Without rows.
    pub fn new(columns: Vec<Head>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// A row as a JSON object: numbers and truth values as such, everything else as a text.
    pub fn print_json(&self, row: &[Option<String>]) {
        let value = |(head, value): (&Head, &Option<String>)| {
            let shown = match value {
                None => "null".to_owned(),
                Some(text) if is_number(head) && text.parse::<f64>().is_ok_and(f64::is_finite) => {
                    text.clone()
                }
                Some(text) if head.ty == 16 => (text == "t").to_string(),
                Some(text) if [114, 3802].contains(&head.ty) && !text.contains('\n') => text.clone(),
                Some(text) => quoted(text),
            };
            format!("{}:{shown}", quoted(&head.name))
        };
        let fields: Vec<String> = self.columns.iter().zip(row).map(value).collect();
        println!("{{{}}}", fields.join(","));
    }

    /// All rows.
    pub fn print(&self) {
        print!("{}", self.text());
    }

    fn text(&self) -> String {
        let shown = |at: usize, row: &Vec<Option<String>>| row[at].as_deref().map_or(0, width);
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, head)| {
                self.rows.iter().map(|row| shown(at, row)).max().unwrap_or(0).max(width(&head.name))
            })
            .collect();
        let mut text = String::new();
        let heads = self.columns.iter().zip(&widths);
        let heads = heads.map(|(head, width)| format!(" {} ", padded(&head.name, Side::Middle, *width)));
        text.push_str(heads.collect::<Vec<_>>().join("|").trim_end());
        text.push('\n');
        text.push_str(&widths.iter().map(|width| "-".repeat(width + 2)).collect::<Vec<_>>().join("+"));
        text.push('\n');
        for row in &self.rows {
            let cells: Vec<Vec<&str>> =
                row.iter().map(|cell| cell.as_deref().unwrap_or("").split('\n').collect()).collect();
            for line in 0..cells.iter().map(Vec::len).max().unwrap_or(1) {
                let parts = cells.iter().zip(&self.columns).zip(&widths).map(|((cell, head), width)| {
                    let part = cell.get(line).copied().unwrap_or("");
                    let more = if line + 1 < cell.len() { '+' } else { ' ' };
                    let side = if is_number(head) { Side::Right } else { Side::Left };
                    format!(" {}{more}", padded(part, side, *width))
                });
                text.push_str(parts.collect::<Vec<_>>().join("|").trim_end());
                text.push('\n');
            }
        }
        let count = self.rows.len();
        text.push_str(&format!("({count} row{})\n\n", if count == 1 { "" } else { "s" }));
        text
    }
}

/// Prints an error or a notice, with its place in the statement.
pub fn note_error(sql: &str, told: &Told) {
    eprintln!("{told}");
    if let Some((line, number, column)) = line_of(sql, told) {
        let head = format!("LINE {number}: ");
        eprintln!("{head}{line}\n{}^", " ".repeat(head.len() + column));
    }
    for (name, text) in [("DETAIL", &told.detail), ("HINT", &told.hint)] {
        if !text.is_empty() {
            eprintln!("{name}:  {text}");
        }
    }
}

/// The terminal shows nothing of what is typed, until this is dropped.
pub struct Quiet(Option<Termios>);

impl Quiet {
    /// From now on.
    pub fn begin() -> Self {
        let before = tcgetattr(std::io::stdin()).ok();
        if let Some(mut modes) = before.clone() {
            modes.local_modes.remove(LocalModes::ECHO);
            // A terminal that cannot do this shows what is typed.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &modes);
        }
        Self(before)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_columns_of_one_width() {
        let head = |name: &str, ty| Head { name: name.to_owned(), ty };
        let mut table = Table::new(vec![head("id", 23), head("name", 25)]);
        table.rows.push(vec![Some("1".to_owned()), Some("one\nmore".to_owned())]);
        table.rows.push(vec![Some("100".to_owned()), None]);
        let lines =
            [" id  | name", "-----+------", "   1 | one +", "     | more", " 100 |", "(2 rows)", "", ""];
        assert_eq!(table.text(), lines.join("\n"));
    }

    #[test]
    fn a_text_may_be_longer_than_a_formatter_pads() {
        let mut table = Table::new(vec![Head { name: "t".to_owned(), ty: 25 }]);
        table.rows.push(vec![Some("x".repeat(70_000))]);
        table.rows.push(vec![Some("y".to_owned())]);
        let text = table.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].trim(), "t");
        assert_eq!(lines[0].len(), 70_000 / 2 + 1);
        assert_eq!(lines[1].len(), 70_002);
        assert_eq!((lines[2].len(), lines[3]), (70_001, " y"));
    }
}
