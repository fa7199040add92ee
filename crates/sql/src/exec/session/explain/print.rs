//! A plan's nodes as text, JSON, XML and YAML, laid out as PostgreSQL does.

use std::fmt::Write;

/// A value of a property.
#[derive(Clone, Debug)]
pub(super) enum Prop {
    Text(String),
    /// Digits, as they are.
    Number(String),
    Bool(bool),
    List(Vec<String>),
    /// Groups of properties, each called so in XML.
    Groups(&'static str, Vec<Group>),
    Group(Group),
}

/// Properties in order.
pub(super) type Group = Vec<(&'static str, Prop)>;

pub(super) fn number(value: impl ToString) -> Prop {
    Prop::Number(value.to_string())
}

pub(super) fn text(value: impl Into<String>) -> Prop {
    Prop::Text(value.into())
}

/// A format of EXPLAIN.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Format {
    #[default]
    Text,
    Json,
    Xml,
    Yaml,
}

fn blanks(depth: usize) -> String {
    "  ".repeat(depth)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

const XML_HEAD: &str = "<explain xmlns=\"http://www.postgresql.org/2009/explain\">";

/// The document of one statement.
pub(super) fn document(format: Format, query: &Group) -> String {
    match format {
        Format::Text => unreachable!("text is written line by line"),
        Format::Json => format!("[\n  {}\n]", json_group(query, 1)),
        Format::Yaml => yaml_group(query, 0, true),
        Format::Xml => {
            let query = xml_group(query, 2);
            format!("{XML_HEAD}\n  <Query>\n{query}  </Query>\n</explain>")
        }
    }
}

/// A document that stands by itself, not in a list of them.
pub(super) fn alone(format: Format, query: &Group) -> String {
    match format {
        Format::Text => unreachable!("text is written line by line"),
        Format::Json => json_group(query, 0),
        Format::Yaml => yaml_group(query, 0, false),
        Format::Xml => format!("{XML_HEAD}\n{}</explain>", xml_group(query, 1)),
    }
}

fn json_group(group: &Group, depth: usize) -> String {
    let inner = blanks(depth + 1);
    let one =
        |(name, prop): &(&'static str, Prop)| format!("{inner}{}: {}", quoted(name), json(prop, depth + 1));
    let all: Vec<String> = group.iter().map(one).collect();
    format!("{{\n{}\n{}}}", all.join(",\n"), blanks(depth))
}

fn json(prop: &Prop, depth: usize) -> String {
    match prop {
        Prop::Text(text) => quoted(text),
        Prop::Number(digits) => digits.clone(),
        Prop::Bool(value) => value.to_string(),
        Prop::List(list) => {
            let all: Vec<String> = list.iter().map(|text| quoted(text)).collect();
            format!("[{}]", all.join(", "))
        }
        Prop::Groups(_, groups) if groups.is_empty() => format!("[\n{}]", blanks(depth)),
        Prop::Groups(_, groups) => {
            let inner = blanks(depth + 1);
            let all: Vec<String> =
                groups.iter().map(|group| format!("{inner}{}", json_group(group, depth + 1))).collect();
            format!("[\n{}\n{}]", all.join(",\n"), blanks(depth))
        }
        Prop::Group(group) => json_group(group, depth),
    }
}

fn yaml_group(group: &Group, depth: usize, listed: bool) -> String {
    let mut out = String::new();
    for (at, (name, prop)) in group.iter().enumerate() {
        let lead = match (at, listed) {
            (0, true) => format!("{}- ", blanks(depth)),
            (_, true) => blanks(depth + 1),
            (_, false) => blanks(depth),
        };
        let deeper = depth + if listed { 2 } else { 1 };
        out += if at > 0 { "\n" } else { "" };
        let _ = write!(out, "{lead}{name}: ");
        match prop {
            Prop::Text(text) => out += &quoted(text),
            Prop::Number(digits) => out += digits,
            Prop::Bool(value) => out += &value.to_string(),
            Prop::List(list) => {
                for text in list {
                    let _ = write!(out, "\n{}- {}", blanks(deeper), quoted(text));
                }
            }
            Prop::Groups(_, groups) => {
                for group in groups {
                    let _ = write!(out, "\n{}", yaml_group(group, deeper, true));
                }
            }
            Prop::Group(group) => {
                let _ = write!(out, "\n{}", yaml_group(group, deeper, false));
            }
        }
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn xml_group(group: &Group, depth: usize) -> String {
    let mut out = String::new();
    for (name, prop) in group {
        let (lead, tag) = (blanks(depth), name.replace(' ', "-"));
        match prop {
            Prop::Text(text) => {
                let _ = writeln!(out, "{lead}<{tag}>{}</{tag}>", escaped(text));
            }
            Prop::Number(text) => {
                let _ = writeln!(out, "{lead}<{tag}>{text}</{tag}>");
            }
            Prop::Bool(value) => {
                let _ = writeln!(out, "{lead}<{tag}>{value}</{tag}>");
            }
            Prop::List(list) => {
                let _ = writeln!(out, "{lead}<{tag}>");
                for text in list {
                    let _ = writeln!(out, "{}<Item>{}</Item>", blanks(depth + 1), escaped(text));
                }
                let _ = writeln!(out, "{lead}</{tag}>");
            }
            Prop::Groups(each, groups) => {
                let _ = writeln!(out, "{lead}<{tag}>");
                for group in groups {
                    let inner = blanks(depth + 1);
                    let _ = write!(out, "{inner}<{each}>\n{}{inner}</{each}>\n", xml_group(group, depth + 2));
                }
                let _ = writeln!(out, "{lead}</{tag}>");
            }
            Prop::Group(group) => {
                let _ = write!(out, "{lead}<{tag}>\n{}{lead}</{tag}>\n", xml_group(group, depth + 1));
            }
        }
    }
    out
}
