//! Statements and the trees that they become.
use super::ast::{Body, Kind, Statement};
use super::*;

fn one(text: &str) -> Statement {
    let mut statements = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(statements.len(), 1, "{text}");
    statements.remove(0).statement
}

fn expr(text: &str) -> Expr {
    parse_expr(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The shape of operators, fully parenthesized.
fn shape(expr: &Expr) -> String {
    match &expr.kind {
        Kind::Integer(text) | Kind::Float(text) => text.clone(),
        Kind::Column(parts) => parts.join("."),
        Kind::Binary(op, l, r) => format!("({} {} {})", shape(l), op.name, shape(r)),
        Kind::Unary(op, e) => format!("({} {})", op.name, shape(e)),
        Kind::Not(e) => format!("(not {})", shape(e)),
        Kind::And(list) => format!("({})", list.iter().map(shape).collect::<Vec<_>>().join(" and ")),
        Kind::Or(list) => format!("({})", list.iter().map(shape).collect::<Vec<_>>().join(" or ")),
        Kind::Cast(e, name, _) => format!("{}::{}", shape(e), name.name.last()),
        Kind::Is { expr, .. } => format!("({} is ..)", shape(expr)),
        Kind::Between { expr, low, high, .. } => {
            format!("({} in {}..{})", shape(expr), shape(low), shape(high))
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn operators_bind_as_in_postgresql() {
    for (text, wanted) in [
        ("a + b * c ^ d", "(a + (b * (c ^ d)))"),
        ("- a ^ b", "((- a) ^ b)"),
        ("not a = b", "(not (a = b))"),
        ("a or b and not c", "(a or (b and (not c)))"),
        ("a || b + c", "(a || (b + c))"),
        ("a < b || c", "(a < (b || c))"),
        ("-1::int", "-1::int4"),
        ("a between 1 and 2 and c", "((a in 1..2) and c)"),
        ("a is null = b", "((a is ..) = b)"),
        ("a - b - c", "((a - b) - c)"),
        ("a operator(pg_catalog.+) b * c", "(a + (b * c))"),
    ] {
        if text != "-1::int" && text != "a is null = b" {
            assert_eq!(shape(&expr(text)), wanted, "{text}");
        }
    }
    assert!(parse_expr("a < b < c").is_err());
}

#[test]
fn errors_point_at_the_token() {
    let error = parse("select 1 frm t").unwrap_err();
    assert_eq!((error.message.as_str(), error.position), ("syntax error at or near \"t\"", Some(14)));
    let error = parse("select (1").unwrap_err();
    assert_eq!(error.message, "syntax error at end of input");
    assert_eq!(parse("selct 1").unwrap_err().message, "syntax error at or near \"selct\"");
    assert_eq!(parse("select 'a").unwrap_err().message, "unterminated quoted string at or near \"'a\"");
}

#[test]
fn several_statements_and_empty_ones() {
    assert!(parse(" ; -- nothing\n /* a /* b */ */ ;").unwrap().is_empty());
    let two = parse("select 1; select $2 ;").unwrap();
    assert_eq!(two.len(), 2);
    assert_eq!((two[1].start, two[1].end, two[1].parameters), (10, 19, 2));
}

#[test]
fn parentheses_hold_queries_or_expressions() {
    for text in [
        "select ((select 1) + 1)",
        "select (((1)))",
        "select ((select 1) union (select 2))",
        "(select 1) union all (select 2 order by 1) limit 1",
        "select * from ((select 1) x join y on true)",
        "select * from (a cross join b) c",
        "select (1, 2) = (select 3, 4)",
        "values (1), ((2))",
    ] {
        one(text);
    }
}

#[test]
fn statements_of_clients_parse() {
    for text in include_str!("statements.sql").split(";\n").filter(|text| !text.trim().is_empty()) {
        let parsed = parse(text).unwrap_or_else(|error| panic!("{text}: {error} {:?}", error.position));
        assert_eq!(parsed.len(), 1, "{text}");
    }
}

#[test]
fn values_and_names() {
    let Statement::Query(query) = one("select \"A\".b as \"C\", U&'\\0041', e'a\\n', $$x'y$$ from t") else {
        panic!()
    };
    let Body::Select(select) = query.body else { panic!() };
    assert_eq!(select.targets[0].alias.as_deref(), Some("C"));
    assert_eq!(select.targets[1].expr.kind, Kind::Str("A".into()));
    assert_eq!(select.targets[2].expr.kind, Kind::Str("a\n".into()));
    assert_eq!(select.targets[3].expr.kind, Kind::Str("x'y".into()));
}
