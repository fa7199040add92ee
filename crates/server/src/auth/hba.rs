//! Rules of who may connect from where, and what they must prove: PostgreSQL's `pg_hba.conf`.
//!
//! ```text
//!   # type     database   user   address         method
//!   local      all        all                    trust
//!   hostssl    sales      alice  10.0.0.0/8      scram-sha-256
//!   host       all        all    samehost|all|address/bits|address mask
//! ```
//!
//! Invariants:
//! 1. The first rule that fits decides; if none fits, nobody comes in.
//! 2. A line that cannot be read is an error of the whole file: rules are never left out silently.
//! 3. In quotes a word means itself: `"all"` is a database of that name.
//!
//! There are no methods but `trust`, `reject`, `scram-sha-256` (also written `md5`, as in PostgreSQL for
//! roles that have such a verifier) and `password`; no `samerole`, no members of roles (`+role`), no included
//! files, no regular expressions. `replication` is no database, and no client replicates.

use std::net::IpAddr;

/// What a client must prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Nothing.
    Trust,
    /// It cannot come in.
    Reject,
    /// That it knows the password, without sending it.
    Scram,
    /// That it knows the password, by sending it.
    Password,
}

/// The kind of connection that a rule is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Local,
    Host,
    HostTls,
    HostPlain,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    All,
    Loopback,
    Net { address: IpAddr, bits: u8 },
}

/// Whom or what a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    All,
    /// The database that is called as the user is.
    SameUser,
    Replication,
    Is(String),
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// Number of its line, from 1; 0: it is in no file.
    line: usize,
    kind: Kind,
    databases: Vec<Name>,
    users: Vec<Name>,
    address: Address,
    method: Method,
}

/// All rules in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

/// Why a file of rules cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the connection rules: {what}: \"{text}\"")]
pub struct RulesError {
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: &'static str,
    /// The part that is wrong.
    pub text: String,
}

impl Rules {
    /// What holds if nothing else is said: everybody proves a password, on any address and locally;
    /// `trust_loopback` lets clients of this machine in without one.
    pub fn standard(trust_loopback: bool) -> Self {
        let rule = |kind, address, method| {
            let all = || vec![Name::All];
            Rule { line: 0, kind, databases: all(), users: all(), address, method }
        };
        let mut rules = Vec::new();
        if trust_loopback {
            rules.push(rule(Kind::Local, Address::All, Method::Trust));
            rules.push(rule(Kind::Host, Address::Loopback, Method::Trust));
        }
        rules.push(rule(Kind::Local, Address::All, Method::Scram));
        rules.push(rule(Kind::Host, Address::All, Method::Scram));
        Self(rules)
    }

    /// Reads a file of rules.
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        let mut rules = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let words = words(line);
            if !words.is_empty() {
                let error = |(what, text)| RulesError { line: at + 1, what, text };
                rules.push(Rule { line: at + 1, ..parse_rule(&words).map_err(error)? });
            }
        }
        Ok(Self(rules))
    }

    /// The line of a rule that trusts clients of other machines, if there is one.
    pub fn trusts_others(&self) -> Option<usize> {
        let others = |rule: &&Rule| {
            let beyond = match rule.address {
                Address::All => true,
                Address::Loopback => false,
                Address::Net { address: IpAddr::V4(net), bits } => bits < 8 || !net.is_loopback(),
                Address::Net { address: IpAddr::V6(net), bits } => bits < 128 || !net.is_loopback(),
            };
            rule.kind != Kind::Local && rule.method == Method::Trust && beyond
        };
        self.0.iter().find(others).map(|rule| rule.line)
    }

    /// What a client must prove; `None` if no rule is for it. `address`: `None` for a local socket.
    pub fn method(
        &self,
        address: Option<IpAddr>,
        encrypted: bool,
        database: &str,
        user: &str,
    ) -> Option<Method> {
        let fits = |rule: &&Rule| {
            let kind = match rule.kind {
                Kind::Local => address.is_none(),
                Kind::Host => address.is_some(),
                Kind::HostTls => address.is_some() && encrypted,
                Kind::HostPlain => address.is_some() && !encrypted,
            };
            let has = |names: &[Name], wanted: &str| {
                names.iter().any(|name| match name {
                    Name::All => true,
                    Name::SameUser => database == user,
                    Name::Replication => false,
                    Name::Is(name) => name == wanted,
                })
            };
            let named = has(&rule.databases, database) && has(&rule.users, user);
            kind && named && address.is_none_or(|address| rule.address.holds(address))
        };
        self.0.iter().find(fits).map(|rule| rule.method)
    }
}

impl Address {
    fn holds(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        match *self {
            Self::All => true,
            Self::Loopback => client.is_loopback(),
            Self::Net { address, bits } => match (address, client) {
                (IpAddr::V4(net), IpAddr::V4(client)) => {
                    let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                    net.to_bits() & mask == client.to_bits() & mask
                }
                (IpAddr::V6(net), IpAddr::V6(client)) => {
                    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                    net.to_bits() & mask == client.to_bits() & mask
                }
                _ => false,
            },
        }
    }
}

/// A part of a word, between commas.
#[derive(Clone, Default)]
struct Part {
    text: String,
    quoted: bool,
}

/// Words of a line: separated by blanks, ended by `#`; parts of a word are separated by commas, behind which
/// there may be blanks. Quotes keep all of these and are removed.
fn words(line: &str) -> Vec<Vec<Part>> {
    let mut words = Vec::new();
    let mut word: Vec<Part> = Vec::new();
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '#' if !quoted => break,
            c if c.is_whitespace() && !quoted => {
                let goes_on = word.last().is_some_and(|part| part.text.is_empty() && !part.quoted);
                if !word.is_empty() && !goes_on {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => {
                if word.is_empty() || (c == ',' && !quoted) {
                    word.push(Part::default());
                }
                let part = word.last_mut().expect("there is one");
                match c {
                    '"' => (quoted, part.quoted) = (!quoted, true),
                    ',' if !quoted => {}
                    c => part.text.push(c),
                }
            }
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

fn text_of(word: &[Part]) -> String {
    word.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(",")
}

/// The databases, or else users, of a rule.
fn names(word: &[Part], of_databases: bool) -> Result<Vec<Name>, (&'static str, String)> {
    let name = |part: &Part| match part.text.as_str() {
        text if part.quoted => Ok(Name::Is(text.to_string())),
        "all" => Ok(Name::All),
        "sameuser" if of_databases => Ok(Name::SameUser),
        "replication" if of_databases => Ok(Name::Replication),
        "samerole" | "samegroup" if of_databases => {
            Err(("members of roles are not supported", text_of(word)))
        }
        text if text.starts_with('+') && !of_databases => {
            Err(("members of roles are not supported", text.to_string()))
        }
        text if text.starts_with('@') => Err(("included files are not supported", text.to_string())),
        text if text.starts_with('/') => Err(("regular expressions are not supported", text.to_string())),
        text => Ok(Name::Is(text.to_string())),
    };
    word.iter().map(name).collect()
}

fn parse_rule(words: &[Vec<Part>]) -> Result<Rule, (&'static str, String)> {
    let mut rest = words.iter();
    let line = || words.iter().map(|word| text_of(word)).collect::<Vec<_>>().join(" ");
    let mut next = |what| rest.next().ok_or_else(|| (what, line()));
    let kind = match text_of(next("no type")?).as_str() {
        "local" => Kind::Local,
        "host" => Kind::Host,
        "hostssl" => Kind::HostTls,
        "hostnossl" => Kind::HostPlain,
        other => return Err(("unknown connection type", other.to_string())),
    };
    let databases = names(next("no database")?, true)?;
    let users = names(next("no user")?, false)?;
    let mut method = None;
    let address = if kind == Kind::Local {
        Address::All
    } else {
        let text = text_of(next("no address")?);
        let after = text_of(next("no method")?);
        match (parse_address(&text)?, parse_mask(&after)) {
            (Address::Net { address, .. }, Some(bits)) if !text.contains('/') => {
                Address::Net { address, bits }
            }
            (address, _) => {
                method = Some(after);
                address
            }
        }
    };
    let method = match method.map_or_else(|| next("no method").map(|word| text_of(word)), Ok)?.as_str() {
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        "scram-sha-256" | "md5" => Method::Scram,
        "password" => Method::Password,
        other => return Err(("unknown method", other.to_string())),
    };
    match rest.next() {
        Some(option) => Err(("options are not supported", text_of(option))),
        None => Ok(Rule { line: 0, kind, databases, users, address, method }),
    }
}

fn parse_address(text: &str) -> Result<Address, (&'static str, String)> {
    let wrong = |what| (what, text.to_string());
    if text == "all" {
        return Ok(Address::All);
    }
    if text == "samehost" || text == "localhost" {
        return Ok(Address::Loopback);
    }
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().map_err(|_| wrong("not an address"))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => most,
        Some(bits) => {
            let bits: u8 = bits.parse().map_err(|_| wrong("not a number of bits"))?;
            Some(bits).filter(|bits| *bits <= most).ok_or(wrong("too many bits"))?
        }
    };
    Ok(Address::Net { address, bits })
}

/// Bits of an address mask, `None` if the text is not one.
fn parse_mask(text: &str) -> Option<u8> {
    let (ones, zeros, width) = match text.parse().ok()? {
        IpAddr::V4(mask) => (mask.to_bits().leading_ones(), mask.to_bits().trailing_zeros(), 32),
        IpAddr::V6(mask) => (mask.to_bits().leading_ones(), mask.to_bits().trailing_zeros(), 128),
    };
    (ones + zeros == width).then_some(ones as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
# comment
local   all          all                                trust
hostssl sales,"my db" alice,bob 10.0.0.0/8              scram-sha-256   # behind
host    all          mallory    all                     reject
host    sameuser     all        192.168.1.0 255.255.255.0 password
host    all          all        ::1/128                 md5
"#;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = Rules::parse(FILE).expect("well formed");
        let method = |address: &str, encrypted, database: &str, user: &str| {
            rules.method(address.parse().ok(), encrypted, database, user)
        };
        assert_eq!(method("", false, "x", "y"), Some(Method::Trust));
        assert_eq!(method("10.1.2.3", true, "my db", "bob"), Some(Method::Scram));
        assert_eq!(method("::ffff:10.1.2.3", true, "sales", "bob"), Some(Method::Scram));
        assert_eq!(method("10.1.2.3", false, "sales", "bob"), None);
        assert_eq!(method("11.1.2.3", true, "sales", "bob"), None);
        assert_eq!(method("10.1.2.3", true, "sales", "mallory"), Some(Method::Reject));
        assert_eq!(method("192.168.1.9", false, "eve", "eve"), Some(Method::Password));
        assert_eq!(method("192.168.2.9", false, "eve", "eve"), None);
        assert_eq!(method("::1", false, "a", "b"), Some(Method::Scram));
    }

    #[test]
    fn each_word_of_a_rule_is_meant() {
        let file = r#"
hostnossl plain      all  all          trust
host      sameuser   all  10.0.0.0/8   trust
host      "a#b"      all  all          trust # a comment
host      "same user" all all          trust
hostssl   old        all  0.0.0.0/0    trust
hostssl   new        all  ::/0         trust
host      half       all  10.0.0.0/9   trust
host      six        all  2001:db8::/33 trust
local     "all", replication "bob","a,b"      trust
"#;
        let rules = Rules::parse(file).expect("well formed");
        let lets_in = |address: &str, encrypted, database: &str, user: &str| {
            rules.method(address.parse().ok(), encrypted, database, user).is_some()
        };
        assert!(lets_in("10.1.1.1", false, "plain", "a"));
        assert!(!lets_in("10.1.1.1", true, "plain", "a") && !lets_in("", false, "plain", "a"));
        assert!(lets_in("10.1.1.1", true, "eve", "eve"));
        assert!(!lets_in("10.1.1.1", true, "eve", "bob") && !lets_in("10.1.1.1", true, "sameuser", "eve"));
        assert!(lets_in("::1", false, "a#b", "a") && lets_in("::1", false, "same user", "a"));
        assert!(!lets_in("::1", false, "a", "b") && !lets_in("::1", false, "#b", "a"));
        assert!(lets_in("203.0.113.9", true, "old", "a") && !lets_in("2001:db8::1", true, "old", "a"));
        assert!(lets_in("2001:db8::1", true, "new", "a") && !lets_in("203.0.113.9", true, "new", "a"));
        assert!(lets_in("10.127.255.255", true, "half", "a") && !lets_in("10.128.0.0", true, "half", "a"));
        assert!(lets_in("2001:db8:7fff::1", true, "six", "a"));
        assert!(!lets_in("2001:db8:8000::1", true, "six", "a"));
        assert!(lets_in("", false, "all", "bob") && lets_in("", false, "all", "a,b"));
        assert!(!lets_in("", false, "x", "bob") && !lets_in("", false, "replication", "bob"));
    }

    #[test]
    fn the_standard_rules_trust_the_loopback_only_if_told() {
        let method =
            |trust, address: &str| Rules::standard(trust).method(address.parse().ok(), false, "a", "b");
        assert_eq!(method(true, "127.0.0.1"), Some(Method::Trust));
        assert_eq!(method(true, "192.0.2.1"), Some(Method::Scram));
        assert_eq!(method(false, "127.0.0.1"), Some(Method::Scram));
        assert_eq!(method(false, ""), Some(Method::Scram));
    }

    #[test]
    fn trust_beyond_the_machine_is_found() {
        let trusts = |file: &str| Rules::parse(file).expect("well formed").trusts_others();
        assert_eq!(
            trusts("local all all trust\nhost all all 127.0.0.0/8 trust\nhost all all ::1/128 trust"),
            None
        );
        assert_eq!(trusts("host all all samehost trust\nhost all all 0.0.0.0/0 scram-sha-256"), None);
        assert_eq!(trusts("# all\n\nhost all all all trust"), Some(3));
        assert_eq!(trusts("hostssl all all 10.0.0.0/8 trust"), Some(1));
        assert_eq!(trusts("host all all 0.0.0.0/0 trust"), Some(1));
        assert_eq!(Rules::standard(true).trusts_others(), None);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (file, what) in [
            ("\nwall all all trust", "unknown connection type"),
            ("host all all 1.2.3.4/33 trust", "too many bits"),
            ("host all all example.com trust", "not an address"),
            ("host all all all gss", "unknown method"),
            ("local all all", "no method"),
            ("host all all all scram-sha-256 map=x", "options are not supported"),
            ("host samerole all all trust", "members of roles are not supported"),
            ("host all alice,+team all trust", "members of roles are not supported"),
            ("host @names all all trust", "included files are not supported"),
            ("host all /^a all trust", "regular expressions are not supported"),
        ] {
            let error = Rules::parse(file).expect_err(file);
            assert_eq!(error.what, what, "{error}");
        }
        assert_eq!(Rules::parse("\nwall").expect_err("no rule").line, 2);
    }
}
