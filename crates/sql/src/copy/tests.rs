//! Tests of the formats: what PostgreSQL reads and writes, cut at every place.

use super::*;

/// Rows of owned fields; `None` is NULL.
type Rows = Vec<Vec<Option<String>>>;

fn options(written: &[(&str, &str)]) -> Result<CopyOptions> {
    let written: Vec<_> =
        written.iter().map(|(name, value)| (name.to_string(), vec![value.to_string()])).collect();
    CopyOptions::parse(&written)
}

fn read_in_pieces(options: &CopyOptions, bytes: &[u8], cuts: &[usize]) -> Result<Rows> {
    let mut rows = Vec::new();
    let mut keep = |fields: &[Field<'_>]| {
        let text = |field: &Field<'_>| match field {
            Field::Null => None,
            Field::Text(text) => Some(text.to_string()),
            Field::Binary(bytes) => Some(format!("{bytes:?}")),
        };
        rows.push(fields.iter().map(text).collect());
        Ok(())
    };
    let mut reader = Reader::new(options.clone(), "t".to_string(), vec!["a".to_string(), "b".to_string()]);
    let mut from = 0;
    for &cut in cuts {
        reader.feed(&bytes[from..cut], &mut keep)?;
        from = cut;
    }
    reader.feed(&bytes[from..], &mut keep)?;
    let count = reader.finish(&mut keep)?;
    assert_eq!(count, rows.len() as u64);
    Ok(rows)
}

/// Reads whole and cut at each place; both must agree.
fn read(options: &CopyOptions, bytes: &[u8]) -> Result<Rows> {
    let whole = read_in_pieces(options, bytes, &[]);
    for cut in 0..=bytes.len() {
        assert_eq!(read_in_pieces(options, bytes, &[cut]), whole, "cut at {cut}");
    }
    let every: Vec<usize> = (0..bytes.len()).collect();
    assert_eq!(read_in_pieces(options, bytes, &every), whole, "cut everywhere");
    whole
}

fn rows(expected: &[[Option<&str>; 2]]) -> Rows {
    expected.iter().map(|row| row.iter().map(|field| field.map(str::to_string)).collect()).collect()
}

fn message(result: Result<Rows>) -> String {
    let error = result.expect_err("an error");
    assert!(matches!(error.state.as_str(), "22P04" | "22021"), "{error}");
    error.message.clone()
}

#[test]
fn a_fault_is_told_with_its_line() {
    let context = |written: &[(&str, &str)], bytes: &[u8]| {
        let error = read(&options(written).expect("options"), bytes).expect_err("an error");
        error.context.clone().unwrap_or_default()
    };
    assert_eq!(context(&[], b"1\t2\n3\n"), "COPY t, line 2: \"3\"");
    assert_eq!(context(&[], b"1\t2\t3"), "COPY t, line 1: \"1\t2\t3\"");
    assert_eq!(context(&[], b"1\t2\r\n3\t4\n"), "COPY t, line 2");
    let csv = ("format", "csv");
    assert_eq!(context(&[csv], b"\"a\nb\",c\nd\n"), "COPY t, line 3: \"d\"");
    assert_eq!(context(&[csv], b"a,b\n\"c"), "COPY t, line 2: \"\"c\"");
    let matched = [csv, ("header", "match"), ("null", "none")];
    assert_eq!(context(&matched, b"a,none\n"), "COPY t, line 1: \"a,none\"");
    let long = [&[b'x'; 150][..], b"\n"].concat();
    assert_eq!(context(&[], &long), format!("COPY t, line 1: \"{}...\"", "x".repeat(100)));
}

#[test]
fn text_is_read_as_postgresql_does() {
    let text = CopyOptions::default();
    let bytes = b"1\tone\n\\N\t\\\\N\na\\tb\\x41\\101\\q\tx\\\ny\n\t\n";
    let expected = [
        [Some("1"), Some("one")],
        [None, Some("\\N")],
        [Some("a\tbAAq"), Some("x\ny")],
        [Some(""), Some("")],
    ];
    assert_eq!(read(&text, bytes), Ok(rows(&expected)));
    assert_eq!(read(&text, b"1\t2\r\n3\t4"), Ok(rows(&[[Some("1"), Some("2")], [Some("3"), Some("4")]])));
    assert_eq!(read(&text, b"1\t2\n\\.\nwhatever"), Ok(rows(&[[Some("1"), Some("2")]])));
    assert_eq!(read(&text, b"1\t2\r3\t4\r"), Ok(rows(&[[Some("1"), Some("2")], [Some("3"), Some("4")]])));
    assert_eq!(read(&text, b""), Ok(vec![]));
    let other = options(&[("delimiter", "|"), ("null", "")]).expect("allowed");
    assert_eq!(read(&other, b"|a\\|b\n"), Ok(rows(&[[None, Some("a|b")]])));
}

#[test]
fn rows_that_do_not_fit_are_named() {
    let text = CopyOptions::default();
    assert_eq!(message(read(&text, b"1\n")), "missing data for column \"b\"");
    assert_eq!(message(read(&text, b"1\t2\t3\n")), "extra data after last expected column");
    assert_eq!(message(read(&text, b"1\t2\n1\r\t2\n")), "literal carriage return found in data");
    assert_eq!(message(read(&text, b"1\t2\r\n1\t2\n")), "literal newline found in data");
    assert_eq!(message(read(&text, b"\xff\t2\n")), "invalid byte sequence for encoding \"UTF8\": 0xff");
    let csv = CopyOptions::of(CopyFormat::Csv);
    assert_eq!(message(read(&csv, b"1,\"2\n")), "unterminated CSV quoted field");
    assert_eq!(message(read(&csv, b"1,2\n1,2\r\n")), "unquoted carriage return found in data");
}

#[test]
fn csv_is_read_as_postgresql_does() {
    let csv = CopyOptions::of(CopyFormat::Csv);
    let bytes = b"1,\"a \"\"b\"\"\nc\"\n,\"\"\n\"x\"y\"z\", \\N\n";
    let expected = [[Some("1"), Some("a \"b\"\nc")], [None, Some("")], [Some("xyz"), Some(" \\N")]];
    assert_eq!(read(&csv, bytes), Ok(rows(&expected)));
    let header = options(&[("format", "csv"), ("header", "true")]).expect("allowed");
    assert_eq!(read(&header, b"x,y\n1,2\n"), Ok(rows(&[[Some("1"), Some("2")]])));
    let matching = options(&[("format", "csv"), ("header", "match")]).expect("allowed");
    assert_eq!(read(&matching, b"a,b\n1,2\n"), Ok(rows(&[[Some("1"), Some("2")]])));
    let wrong = "column name mismatch in header line field 2: got \"c\", expected \"b\"";
    assert_eq!(message(read(&matching, b"a,c\n1,2\n")), wrong);
    let forced =
        options(&[("format", "csv"), ("force_null", "a"), ("force_not_null", "b")]).expect("allowed");
    assert_eq!(read(&forced, b"\"\",\n"), Ok(rows(&[[None, Some("")]])));
    let escape = options(&[("format", "csv"), ("quote", "'"), ("escape", "\\")]).expect("allowed");
    assert_eq!(read(&escape, b"'it\\'s',\\a\n"), Ok(rows(&[[Some("it's"), Some("\\a")]])));
}

#[test]
fn binary_is_read_and_its_damage_found() {
    let binary = CopyOptions::of(CopyFormat::Binary);
    let row = b"\0\x02\0\0\0\x01x\xff\xff\xff\xff";
    let whole = [&b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\x02zz"[..], row, b"\xff\xff"].concat();
    assert_eq!(read(&binary, &whole), Ok(rows(&[[Some("[120]"), None]])));
    let ends = [21, 21 + row.len()];
    assert_eq!(read(&binary, &whole[..ends[0]]), Ok(Vec::new()));
    assert_eq!(read(&binary, &whole[..ends[1]]), Ok(rows(&[[Some("[120]"), None]])), "without a trailer");
    for end in (0..whole.len() - 1).filter(|end| !ends.contains(end)) {
        assert_eq!(message(read(&binary, &whole[..end])), "unexpected EOF in COPY data", "{end}");
    }
    assert_eq!(message(read(&binary, b"PGCOPX\n")), "COPY file signature not recognized");
    let wrong = [&whole[..21], b"\0\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"].concat();
    assert_eq!(message(read(&binary, &wrong)), "row field count is 3, expected 2");
    let wrong = [&whole[..21], b"\0\x02\xff\xff\xff\xfe"].concat();
    assert_eq!(message(read(&binary, &wrong)), "invalid field size");
}

#[test]
fn what_is_written_is_read_back() {
    let nasty =
        ["", "\\N", "\\.", "a,b", "\"", "'", "tab\t", "line\nend\r", "\\", "\u{8}\u{b}\u{c}", "\u{e4}"];
    let formats = [
        options(&[]),
        options(&[("delimiter", "'"), ("null", "")]),
        options(&[("format", "csv")]),
        options(&[("format", "csv"), ("header", "match"), ("force_quote", "*")]),
        options(&[("format", "csv"), ("quote", "'"), ("escape", "\\"), ("null", "NULL")]),
    ];
    for options in formats {
        let options = options.expect("allowed");
        let writer = Writer::new(options.clone(), vec!["a".to_string(), "b".to_string()]);
        let mut bytes = Vec::new();
        let mut expected = Rows::new();
        writer.begin(&mut bytes);
        for text in nasty {
            // PostgreSQL's text format cannot tell the empty text from a NULL that is written as nothing.
            let is_null = options.format == CopyFormat::Text && text.is_empty() && options.null.is_empty();
            writer.row(&[Field::Text(text), Field::Null], &mut bytes);
            expected.push(vec![(!is_null).then(|| text.to_string()), None]);
        }
        writer.end(&mut bytes);
        let expected_first = expected.clone();
        assert_eq!(read(&options, &bytes), Ok(expected_first), "{options:?}");
    }
}

#[test]
fn lines_are_written_as_postgresql_does() {
    let write = |options: &CopyOptions, fields: &[Field<'_>]| {
        let names = ["a", "b"][..fields.len()].iter().map(|name| name.to_string()).collect();
        let writer = Writer::new(options.clone(), names);
        let mut bytes = Vec::new();
        writer.begin(&mut bytes);
        writer.row(fields, &mut bytes);
        writer.end(&mut bytes);
        bytes
    };
    let text = CopyOptions::default();
    assert_eq!(write(&text, &[Field::Text("a\tb\\c\n"), Field::Null]), b"a\\tb\\\\c\\n\t\\N\n");
    let csv = CopyOptions::of(CopyFormat::Csv);
    assert_eq!(write(&csv, &[Field::Text("a\"b"), Field::Null]), b"\"a\"\"b\",\n");
    assert_eq!(write(&csv, &[Field::Text(""), Field::Text("\\.")]), b"\"\",\\.\n");
    assert_eq!(write(&csv, &[Field::Text("\\.")]), b"\"\\.\"\n");
    let binary = CopyOptions::of(CopyFormat::Binary);
    let bytes = write(&binary, &[Field::Binary(b"x"), Field::Null]);
    assert_eq!(bytes, b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01x\xff\xff\xff\xff\xff\xff");
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let refused = |written: &[(&str, &str)]| {
        let error = options(written).expect_err("refused");
        format!("{} {}", error.state, error.message)
    };
    assert_eq!(refused(&[("format", "xml")]), "22023 COPY format \"xml\" not recognized");
    assert_eq!(refused(&[("delimiter", "ab")]), "0A000 COPY delimiter must be a single one-byte character");
    assert_eq!(refused(&[("delimiter", "n")]), "22023 COPY delimiter cannot be \"n\"");
    assert_eq!(refused(&[("quote", "x")]), "0A000 COPY quote available only in CSV mode");
    assert_eq!(refused(&[("format", "binary"), ("null", "")]), "42601 cannot specify NULL in BINARY mode");
    assert_eq!(
        refused(&[("format", "csv"), ("delimiter", "\"")]),
        "22023 COPY delimiter and quote must be different"
    );
    assert_eq!(refused(&[("oids", "true")]), "42601 option \"oids\" not recognized");
    assert!(options(&[("freeze", "true"), ("encoding", "UTF-8")]).is_ok());
}

#[test]
fn a_long_row_is_not_read_again_with_each_of_its_pieces() {
    for (format, row) in
        [("text", "x".repeat(5000) + "\tb\n"), ("csv", format!("\"{}\",b\n", "x".repeat(5000)))]
    {
        let options = options(&[("format", format)]).expect("a format");
        let columns = vec!["a".to_string(), "b".to_string()];
        let mut reader = Reader::new(options, "t".to_string(), columns);
        let mut rows = 0;
        for piece in row.as_bytes().chunks(100) {
            let mut count = |fields: &[Field<'_>]| {
                let Field::Text(long) = fields[0] else { panic!("a text") };
                assert_eq!(long.len(), 5000);
                rows += 1;
                Ok(())
            };
            reader.feed(piece, &mut count).expect("it is a row");
            assert_eq!(reader.progress.at, reader.pending.len(), "all that has come is read: {format}");
        }
        assert_eq!(rows, 1);
    }
}
