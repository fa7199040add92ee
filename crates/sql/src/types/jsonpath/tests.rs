//! Paths are read and written as PostgreSQL does, and no text is too strange to be read or refused.

use super::*;

fn printed(text: &str) -> String {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_string()
}

fn refused(text: &str) -> String {
    let error = parse(text).expect_err(text);
    format!("{} {}", error.state, error.message)
}

#[test]
fn paths_are_printed() {
    for (text, print) in [
        ("$", "$"),
        (" strict $ . a", "strict $.\"a\""),
        ("$.a[1 to last, 2]?(@.b>=1).size()", "$.\"a\"[1 to last,2]?(@.\"b\" >= 1).size()"),
        ("1+2*3", "(1 + 2 * 3)"),
        ("(1+2)*3", "((1 + 2) * 3)"),
        ("-(1)", "-1"),
        ("(1).type()", "(1).type()"),
        ("$.**{0 to last}.**{2}", "$.**.**{2}"),
        ("$ ? (!(@ <> 1) || exists(@.a))", "$?(!(@ != 1) || exists (@.\"a\"))"),
        ("$ ? (@ like_regex \"a\" flag \"si\")", "$?(@ like_regex \"a\" flag \"is\")"),
        ("$.datetime(\"yyyy\").type", "$.datetime(\"yyyy\").\"type\""),
        ("\"\\u00e4\\x41\"", "\"\u{e4}A\""),
    ] {
        assert_eq!(printed(text), print, "{text}");
    }
}

#[test]
fn faults_are_shown_where_they_are() {
    for (text, told) in [
        ("", "22P02 invalid input syntax for type jsonpath: \"\""),
        ("$[1", "42601 syntax error at end of jsonpath input"),
        ("$ ? (1)", "42601 syntax error at or near \")\" of jsonpath input"),
        ("1 == 2 == 3", "42601 syntax error at or near \"==\" of jsonpath input"),
        ("$.a b c", "42601 syntax error at or near \" \" of jsonpath input"),
        ("01", "42601 trailing junk after numeric literal at or near \"01\" of jsonpath input"),
        ("1e+", "42601 invalid numeric literal at or near \"1e+\" of jsonpath input"),
        ("\"\\u12", "42601 invalid unicode sequence at or near \"\\u12\" of jsonpath input"),
        ("\"a", "42601 unexpected end of quoted string at end of jsonpath input"),
        ("/* ", "42601 unexpected end of comment at end of jsonpath input"),
        ("@", "42601 @ is not allowed in root expressions"),
        ("$ ? (last == 1)", "42601 LAST is allowed only in array subscripts"),
        ("$ ? (@ like_regex \"(\")", "2201B invalid regular expression: parentheses () not balanced"),
    ] {
        assert_eq!(refused(text), told, "{text}");
    }
}

/// Runs with the stack of a server's connection.
fn with_stack(body: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(body).expect("a thread");
    thread.join().expect("it ends");
}

#[test]
fn what_nests_deeply_is_refused_or_read_back() {
    with_stack(|| {
        let nested = |open: &str, inner: &str, close: &str, times: usize| {
            format!("{}{inner}{}", open.repeat(times), close.repeat(times))
        };
        for times in [DEPTH_MAX - 1, DEPTH_MAX, DEPTH_MAX + 1, 100_000] {
            for text in [
                nested("(", "1", ")", times),
                nested("-", "$", "", times),
                nested("1+", "1", "", times),
                nested("1-(", "1", ")", times),
                nested("!(", "1==1", ")", times),
                nested("(", "1==1", ") is unknown", times),
                nested("((1==1) is unknown).type()==", "1", "", times),
                nested("$?(@.a==", "1", ")", times),
                nested("$?(exists(@", "", "))", times),
                nested("$[", "1", "]", times),
                nested("1==1&&", "1==1", "", times),
                nested("(-", "$", ").a", times),
                nested("$.a", "", "[0]", times),
            ] {
                match parse(&text) {
                    Ok(path) => {
                        path.to_string();
                        assert_eq!(parse(&path.exact()).as_ref(), Ok(&path));
                    }
                    Err(error) => assert!(matches!(&*error.state.to_string(), "54001" | "42601"), "{error}"),
                }
            }
        }
    });
}

/// What random texts are made of.
const WORDS: &[&str] = &[
    "$",
    "@",
    "last",
    "lax ",
    "strict ",
    ".",
    "a",
    "\"k\"",
    "*",
    "**",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "?",
    "!",
    "==",
    "!=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "&&",
    "||",
    "+",
    "-",
    "/",
    "%",
    ",",
    " to ",
    "exists",
    " is ",
    "unknown",
    "starts with",
    " like_regex ",
    " flag ",
    "\"i\"",
    "\"q\"",
    "\"(\"",
    "type()",
    "size()",
    "double()",
    "keyvalue()",
    "datetime()",
    "datetime(\"yyyy\")",
    "$x",
    "$\"y\"",
    "1",
    "0",
    "00",
    "1.5",
    ".5",
    "1.",
    "1e5",
    "1e",
    "1e+",
    "\\",
    "\"",
    "\\u",
    "\\u0041",
    "\\uD83D",
    "\\uDE04",
    "\\u{1F600}",
    "\\x4",
    "\\x41",
    "/*",
    "*/",
    " ",
    "\n",
    "\u{df}",
    "\u{1F600}",
    "null",
    "true",
    "false",
    "$.a",
    "@.b",
    "(@ == 1)",
    "[0]",
    "[*]",
    ".**{1 to 2}",
    "?(@ > 1)",
    "-1",
];

#[test]
fn random_texts_are_read_or_refused() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    let mut read = 0;
    for _ in 0..60_000 {
        let mut text = String::from(["$", "", "(", "$.a"][random(4)]);
        for _ in 0..random(12) {
            text.push_str(WORDS[random(WORDS.len())]);
        }
        if random(4) == 0 && !text.is_empty() {
            let cut = text.floor_char_boundary(random(text.len()));
            text.truncate(cut);
        }
        if let Ok(path) = parse(&text) {
            read += 1;
            path.to_string();
            let exact = path.exact();
            let again = parse(&exact).unwrap_or_else(|error| panic!("{text:?} as {exact:?}: {error}"));
            assert_eq!(again, path, "{text:?} as {exact:?}");
        }
    }
    assert!(read > 2000, "only {read} texts were paths");
}
