"""What expressions are made of: for each type its constants, its columns' declarations, and forms whose braces are filled with
expressions of the types named in them.

Nothing here may fail at run time or depend on the order of rows: where equal values can look different (1.0 and 1.00, a month and
30 days, 0 and -0), a form makes them look the same. So a difference between two servers is one of meaning."""

# Of each type: how it is written in SQL, and what its columns are declared as.
TYPES = {
    "int": ("int4", ("int", "int", "smallint")),
    "big": ("int8", ("bigint",)),
    "num": ("numeric", ("numeric(10,2)",)),
    "float": ("float8", ("double precision", "real")),
    "text": ("text", ("text", "text", "varchar(24)")),
    "char": ("bpchar", ("char(5)",)),
    "bool": ("bool", ("boolean",)),
    "date": ("date", ("date",)),
    "time": ("time", ("time",)),
    "stamp": ("timestamp", ("timestamp",)),
    "tz": ("timestamptz", ("timestamptz",)),
    "span": ("interval", ("interval",)),
    "uuid": ("uuid", ("uuid",)),
    "bytes": ("bytea", ("bytea",)),
    "json": ("jsonb", ("jsonb",)),
    "ints": ("int[]", ("int[]",)),
    "texts": ("text[]", ("text[]",)),
    "mood": ("mood", ("mood",)),
}
# What stands in for an expression when a statement is made smaller.
PLAIN = {
    "int": "1", "big": "1::int8", "num": "1.00", "float": "0.5::float8", "text": "'a'::text", "char": "'a'::bpchar", "bool": "true",
    "date": "date '2024-01-31'", "time": "time '12:00'", "stamp": "timestamp '2024-01-31 12:00'", "tz": "timestamptz '2024-01-31 12:00+00'",
    "span": "interval '1 hour'", "uuid": "'00000000-0000-0000-0000-000000000001'::uuid", "bytes": "'\\x01'::bytea", "json": "'{}'::jsonb",
    "ints": "'{1}'::int[]", "texts": "'{a}'::text[]", "mood": "'ok'::mood",
}
WORDS = ("", "a", "b", "ab", "abc", "Abc", "B", "foo", "bar", "foobar", "x_y", "50%", "a b", " pad", "pad ", "it''s", "\\", "é", "ÀÉ", "日本", "12",
         "-7", "NULL", "{}", "zz top")
MOODS = ("sad", "ok", "happy")
KEYS = ("a", "b", "c")


def constant(random, type_):
    """A value's text, quotes doubled."""
    if type_ == "int":
        return str(random.choice((0, 1, 2, 3, 5, 7, -1, -4, 10, 42, 99, random.randint(-100, 100))))
    if type_ == "big":
        return str(random.choice((0, 1, -1, 3, 1000000, 5000000000, -5000000000, random.randint(-1000, 1000))))
    if type_ == "num":
        return f"{random.choice((0, 1, 2, -3, 10, 99, random.randint(-200, 200)))}.{random.choice(('00', '50', '25', '99', '01'))}"
    if type_ == "float":
        return str(random.randint(-40, 40) / 4)
    if type_ == "text":
        return random.choice(WORDS)
    if type_ == "char":
        return random.choice(("", "a", "ab", "abc", "abcde", "B", "x y"))
    if type_ == "bool":
        return random.choice(("t", "f"))
    if type_ == "date":
        return random.choice((f"{random.randint(1999, 2025)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}", "2024-02-29", "2023-12-31", "2024-01-01"))
    if type_ == "time":
        return f"{random.randint(0, 23):02}:{random.choice((0, 15, 59)):02}:{random.choice(('00', '30', '59.999999', '12.5'))}"
    if type_ == "stamp":
        return constant(random, "date") + " " + constant(random, "time")
    if type_ == "tz":
        return constant(random, "stamp") + random.choice(("+00", "-05", "+05:30", " Europe/Berlin", "Z"))
    if type_ == "span":
        return f"{random.randint(0, 23):02}:{random.choice((0, 15, 59)):02}:00"
    if type_ == "uuid":
        return f"{random.randint(0, 4):08x}-0000-4000-8000-{random.choice(('0' * 12, 'f' * 12, '00a0c91e6bf6'))}"
    if type_ == "bytes":
        return "\\x" + random.choice(("", "00", "01", "ff", "0102", "616263", "deadbeef"))
    if type_ == "json":
        return json(random, 2)
    if type_ == "ints":
        return "{" + ",".join(random.choice(("1", "2", "3", "5", "NULL", "-1", "42")) for _ in range(random.randint(0, 4))) + "}"
    if type_ == "texts":
        return "{" + ",".join(random.choice(('a', 'b', 'foo', '"x y"', 'NULL', '""', 'é')) for _ in range(random.randint(0, 3))) + "}"
    return random.choice(MOODS)


def json(random, depth):
    kind = random.randint(0, 9 if depth else 5)
    if kind < 6:
        return random.choice(("1", "2", "-3", "1.5", "true", "false", "null", '"a"', '"foo"', '""', '"x y"', '"\u00e9"', "10"))
    if kind < 8:
        return "[" + ", ".join(json(random, depth - 1) for _ in range(random.randint(0, 3))) + "]"
    return "{" + ", ".join(f'"{key}": {json(random, depth - 1)}' for key in KEYS if random.random() < 0.6) + "}"


COMPARED = ("int", "big", "num", "float", "text", "char", "date", "time", "stamp", "tz", "span", "uuid", "bytes", "json", "ints", "texts", "mood", "bool")
EVERY = tuple(TYPES)

FORMS = {
    "bool": [
        "({bool} and {bool})", "({bool} and {bool})", "({bool} or {bool})", "({bool} or {bool} and {bool})", "(not {bool})", "({bool} is not true)", "({bool} is unknown)",
        "({bool} is false)", "({int} between {int} and {int})", "({text} between {text} and {text})", "({date} between symmetric {date} and {date})",
        "({num} not between {num} and {num})", "({int} in ({int}, {int}, {int}))", "({int} not in ({int}, {int}))", "({text} in ({text}, {text}))",
        "({int} = any ({ints}))", "({int} <> all ({ints}))", "({text} = any ({texts}))", "({int} >= any (array[{int}, {int}]))", "({text} like {like})",
        "({text} not like {like})", "({text} ilike {like})", "({text} ~ {regex})", "({text} ~* {regex})", "({text} !~ {regex})", "starts_with({text}, {text})",
        "(({int}, {text}) = ({int}, {text}))", "(({int}, {num}) < ({int}, {num}))", "(({int}, {date}) in (({int}, {date}), ({int}, {date})))",
        "(({int}, {text}) is distinct from ({int}, {text}))", "(row({int}, {text}) is null)", "(row({int}, {text}) is not null)", "({ints} && {ints})", "({ints} @> {ints})",
        "({texts} <@ {texts})", "({json} @> {json})", "({json} ? {text})", "({json} ?| {texts})", "({json} ?& {texts})", "({json} <@ {json})",
        "(({date}, {date}) overlaps ({date}, {date}))", "({int}::bool)", "({text} similar to {similar})", "({int} = {big})", "({num} > {int})",
        "({float} <= {num})", "({date} < {stamp})", "({stamp} >= {tz})", "({char} = {text})", "({text} < {char})", "isfinite({date})", "({text} is null)",
        "case when {bool} then {bool} else {bool} end", "coalesce({bool}, {bool})", "({text} || {text} = {text})", "({ints} = array[{int}, {int}])",
        "(({json} -> 'a') is not null)", "({mood} = any (array['ok', 'sad']::mood[]))", "({int} is distinct from {num})", "({text} ^@ {text})",
        "exists (select 1 where {bool})", "({int} = some (select {int} where {bool}))",
    ],
    "int": [
        "({int} + {int})", "({int} - {int})", "(({int} % 50) * ({int} % 20))", "({int} / nullif({int}, 0))", "({int} % nullif({int}, 0))", "(- {int})", "abs({int})", "(@ {int})", "sign({num})::int",
        "length({text})", "char_length({char})", "octet_length({text})", "bit_length({text})", "position({text} in {text})", "strpos({text}, {text})", "ascii({text})",
        "({int} & {int})", "({int} | {int})", "({int} # {int})", "(~ {int})", "({int} >> 1)", "(({int} % 100) << 2)", "mod({int}, nullif({int}, 0))", "gcd({int}, {int})", "{num}::int", "{float}::int", "{bool}::int",
        "cardinality({ints})", "array_length({ints}, 1)", "array_upper({texts}, 1)", "array_position({ints}, {int})", "({ints})[{int}]", "({ints})[1]",
        "extract(year from {date})::int", "date_part('dow', {date})::int", "extract(isoyear from {stamp})::int", "extract(week from {date})::int", "extract(doy from {stamp})::int",
        "extract(minute from {time})::int", "extract(hour from {tz})::int", "extract(quarter from {date})::int", "({date} - {date})", "jsonb_array_length(case jsonb_typeof({json}) when 'array' then {json0} end)",
        "greatest({int}, {int})", "least({int}, {int}, {int})", "width_bucket({num}, 0, 100, 5)", "num_nulls({int}, {text}, {date})", "num_nonnulls({int}, {bool})",
        "(case {text} when {text} then {int} when {text} then {int} else {int} end)", "cast({num} as int)", "length({bytes})", "scale({num})", "array_ndims({ints})",
        "get_byte({bytes} || '\\x00'::bytea, 0)", "coalesce({int}, 0)", "floor({num})::int", "ceil({float})::int", "trunc({num})::int", "round({num})::int",
        "regexp_count({text}, {regex})", "regexp_instr({text}, {regex})", "cardinality({texts} || {text})", "cardinality(string_to_array({text}, ','))", "div({int}, nullif({int}, 0))::int",
    ],
    "big": [
        "({big} + {int})", "({int} + {big})", "({big} - {big})", "{int}::int8", "({big} / nullif({int}, 0))", "abs({big})", "coalesce({big}, {int})", "greatest({big}, {int})", "({big} % nullif({big}, 0))",
        "(extract(epoch from {stamp})::bigint)", "floor({num})::bigint", "({big} & {big})", "lcm({int} % 100, {int} % 100)::int8", "({big} # {int})", "round({float})::int8",
    ],
    "num": [
        "({num} + {num})", "({num} - {num})", "round({num} * ({int} % 10), 2)", "round({num} / nullif({num}, 0), 2)", "(- {num})", "abs({num})", "round({int}::numeric, 2)", "trunc({num} * 1.5, 2)",
        "round(({num} % nullif({num}, 0)), 2)", "round(sqrt(abs({num})), 2)", "round(power({num} % 10, 2), 2)", "{text_num}::numeric(10,2)", "cast({int} as numeric(10,2))", "round({float}::numeric, 2)",
        "round(ln(abs({num}) + 1), 2)", "round(exp({num} % 3), 2)", "greatest({num}, {num})", "least({num}, {num})", "coalesce({num}, {num})", "nullif({num}, {num})", "round(extract(epoch from {span}), 2)",
        "round(extract(second from {time}), 2)", "round(log(abs({num}) + 1), 2)", "round({num}, 1)::numeric(12,2)", "round(mod({num}, nullif({num}, 0)), 2)", "({num} + {int})::numeric(12,2)", "round(cbrt({float})::numeric, 2)",
        "round({big} / 3.0, 2)", "(case when {bool} then {num} when {bool} then {num} end)", "round(degrees({float})::numeric, 2)",
    ],
    "float": [
        "({float} + {float})", "({float} - {float})", "abs({float})", "{int}::float8", "{num_quarter}::float8", "(floor({float}) + 0)", "(ceil({float}) + 0)", "greatest({float}, {float})", "(abs({float}) * 0.5)",
        "coalesce({float}, {int})", "({float} + {int})", "abs(trunc({float}))", "nullif({float}, {float})", "abs(round({float}))",
    ],
    "text": [
        "({text} || {text})", "({text} || {int})", "({num} || {text})", "upper({text})", "lower({text})", "initcap({text})", "substr({text}, {small})", "substring({text} from {small} for 3)", "left({text}, {small})",
        "right({text}, {small})", "trim({text})", "trim(both 'a' from {text})", "ltrim({text}, 'ab')", "rtrim({text}, ' b')", "lpad({text}, 6, '*')", "rpad({text}, 5, 'xy')", "replace({text}, {text}, {text})", "reverse({text})",
        "translate({text}, 'abc', 'xy')", "repeat({text}, 2)", "split_part({text}, 'o', 2)", "concat({text}, {int}, {bool})", "concat_ws('-', {text}, {date}, {int})", "coalesce({text}, {text})", "nullif({text}, {text})", "md5({text})",
        "{int}::text", "{num}::text", "{bool}::text", "{date}::text", "{stamp}::text", "{tz}::text", "{json}::text", "{ints}::text", "{texts}::text", "{mood}::text", "{uuid}::text", "{bytes}::text", "{span}::text", "{float}::text", "{char}::text", "{time}::text",
        "({json} ->> 'a')", "({json} ->> 0)", "({json} #>> '{{a,b}}')", "jsonb_typeof({json})", "array_to_string({texts}, ',')", "array_to_string({ints}, '|', '*')", "({texts})[1]", "({texts})[{int}]", "to_char({num}, 'FM999990.00')",
        "to_char({date}, 'YYYY-MM-DD Dy')", "to_char({stamp}, 'HH24:MI:SS.US Mon')", "to_char({int}, '0000')", "to_char({tz}, 'YYYY IW ID HH12 am TZ')", "to_char({span}, 'HH24:MI')", "quote_literal({text})", "quote_ident({text})", "quote_nullable({text})",
        "format('%s-%I', {int}, coalesce({text}, 'a'))", "format('%L|%5s', {text}, {bool})", "encode({bytes}, 'hex')", "encode({bytes}, 'base64')", "regexp_replace({text}, {regex}, 'X')", "regexp_replace({text}, {regex}, '<\\&>', 'g')", "substring({text} from {regex})",
        "greatest({text}, {text})", "least({text}, {text})", "overlay({text} placing 'zz' from 2 for 1)", "chr(65 + abs({int}) % 26)", "to_hex({int})", "(case when {bool} then {text} else {text} end)", "cast({int} as varchar(2))", "{text}::varchar(3)", "{text}::char(4)::text",
        "pg_typeof({any})::text", "btrim({text})", "left({text}, 2) || right({text}, 1)", "jsonb_pretty({json})", "array_dims({ints})", "(row({int}, {text}, {bool}))::text", "starts_with({text}, 'a')::text", "row_to_json(row({int}, {text}))::text",
        "to_json({any})::text", "json_build_object('k', {any})::text", "regexp_substr({text}, {regex})", "(regexp_match({text}, {regex}))[1]", "string_to_array({text}, {text})::text", "unistr('\\00e9')", "to_char({float}, '990.99')", "date_trunc('month', {tz})::text",
        "age({stamp}, {stamp})::text", "({stamp} - {stamp})::text", "({num} * {num})::text", "({num} / nullif({num}, 0))::text", "to_jsonb({any})::text", "lower({text}::char(3))",
    ],
    "char": ["{text}::char(5)", "coalesce({char}, {char})", "nullif({char}, {char})", "greatest({char}, {char})", "(case when {bool} then {char} end)", "lpad({text}, 5)::char(5)"],
    "date": [
        "({date} + {int})", "({date} - {int})", "{stamp}::date", "{tz}::date", "make_date(2000 + abs({int}) % 30, 1 + abs({int}) % 12, 1)", "date_trunc('month', {date})::date", "greatest({date}, {date})", "coalesce({date}, {date})",
        "to_date('2024' || lpad((1 + abs({int}) % 12)::text, 2, '0'), 'YYYYMM')", "({date} + interval '1 month')::date", "(date '2024-01-31' + {span} * 31)::date",
    ],
    "time": ["{stamp}::time", "({time} + {span})", "({time} - {span})", "make_time(abs({int}) % 24, abs({int}) % 60, 1.5)", "coalesce({time}, {time})", "least({time}, {time})", "{span}::time", "{tz}::time"],
    "stamp": [
        "({date} + {time})", "{date}::timestamp", "({stamp} + {span})", "({stamp} - {span})", "date_trunc('hour', {stamp})", "date_trunc('quarter', {stamp})", "({date} + {span})", "({tz} at time zone 'America/New_York')", "coalesce({stamp}, {date})",
        "({stamp} + interval '1 month')", "to_timestamp('2024 ' || lpad((1 + abs({int}) % 12)::text, 2, '0'), 'YYYY MM')::timestamp", "greatest({stamp}, {stamp})", "make_timestamp(2020, 1 + abs({int}) % 12, 3, 4, 5, 6.5)", "{tz}::timestamp", "date_bin('15 minutes', {stamp}, timestamp '2001-01-01')",
    ],
    "tz": [
        "({stamp} at time zone 'Europe/Berlin')", "{stamp}::timestamptz", "({tz} + {span})", "({tz} - {span})", "date_trunc('day', {tz})", "date_trunc('week', {tz}, 'Asia/Tokyo')", "to_timestamp({int} % 1000 * 100000)", "coalesce({tz}, {stamp})", "{date}::timestamptz", "({tz} + interval '1 day')",
        "least({tz}, {tz})", "({tz} - interval '1 month 2 days')",
    ],
    "span": [
        "justify_interval({stamp} - {stamp})", "justify_interval({span} + {span})", "justify_interval({span} - {span})", "justify_interval({span} * 2)", "justify_interval({span} / 3)", "make_interval(hours => abs({int}) % 24)", "({time} - time '00:00')", "coalesce({span}, {span})",
        "justify_interval({tz} - {tz})", "justify_interval(age({stamp}, {stamp}))", "make_interval(mins => abs({int} % 60))", "{time}::interval",
    ],
    "uuid": ["coalesce({uuid}, {uuid})", "nullif({uuid}, {uuid})", "md5({text})::uuid", "(case when {bool} then {uuid} else {uuid} end)"],
    "bytes": ["({bytes} || {bytes})", "substring({bytes} from 1 for 2)", "decode(md5({text}), 'hex')", "convert_to({text}, 'UTF8')", "coalesce({bytes}, {bytes})", "overlay({bytes} placing '\\xaa'::bytea from 1)", "sha256({bytes})", "trim('\\x00'::bytea from {bytes})"],
    "json": [
        "({json} -> 'a')", "({json} -> 0)", "({json} #> '{{b}}')", "({json} || {json})", "(case jsonb_typeof({json}) when 'object' then {json0} - 'a' end)", "jsonb_strip_nulls({json})", "to_jsonb({int})", "to_jsonb({text})", "to_jsonb({texts})", "to_jsonb({date})", "to_jsonb({tz})", "jsonb_build_object('a', {int}, 'b', {text})",
        "jsonb_build_array({int}, {text}, {bool}, {date})", "coalesce({json}, {json})", "to_jsonb(row({int}, {text}))", "jsonb_build_object(coalesce({int}, 0), {ints})", "to_jsonb({mood})", "to_jsonb({num}::int)",
        "jsonb_set(jsonb_build_object('a', {int}), '{{a}}', coalesce({json}, '1'))", "jsonb_insert('[0,1]', '{{1}}', coalesce({json}, '2'))",
    ],
    "ints": [
        "array[{int}, {int}]", "({ints} || {ints})", "({ints} || {int})", "({int} || {ints})", "array_append({ints}, {int})", "array_prepend({int}, {ints})", "array_remove({ints}, {int})", "array_replace({ints}, {int}, {int})", "({ints})[1:2]", "coalesce({ints}, {ints})", "array_positions({ints}, {int})",
        "array_cat({ints}, {ints})", "array(select {int} where {bool})", "trim_array(array[1, 2, {int}], 1)", "array_fill({int}, array[2])", "string_to_array('1,2,3', ',')::int[]", "({texts_num})::int[]",
    ],
    "texts": [
        "array[{text}, {text}]", "({texts} || {texts})", "({texts} || {text})", "string_to_array({text}, 'b')", "string_to_array({text}, null)", "array_remove({texts}, {text})", "({texts})[2:3]", "coalesce({texts}, {texts})", "{ints}::text[]", "regexp_split_to_array({text}, 'o')", "array[{mood}]::text[]",
        "regexp_match({text}, {regex})", "array_replace({texts}, {text}, {text})", "regexp_split_to_array({text}, {regex_some})",
    ],
    "mood": ["coalesce({mood}, {mood})", "(case when {bool} then {mood} else 'ok' end)", "greatest({mood}, {mood})", "nullif({mood}, 'sad')", "enum_first({mood})", "(array['sad', 'ok']::mood[])[1 + abs({int}) % 2]", "(case when {bool} then 'happy' else 'sad' end)::mood"],
    # Not types but parts that have to have a certain form.
    "like": ["'a%'", "'%b%'", "'_b%'", "'%'", "''", "'%o'", "'foo%r'", "'50\\%'", "'x\\_y'", "({text} || '%')", "'A%'", "'%é%'", "'_'"],
    "regex": ["'^a'", "'b$'", "'[a-c]+'", "'o{{2}}'", "'^.$'", "'\\d'", "'f.o'", "'(o+)'", "'[[:upper:]]'", "'x*'", "'^\\s|b'", "'[^a-z]'", "'\\mb'", "'(a)(b)?'"],
    "regex_some": ["'[a-c]+'", "'o'", "'\\s+'", "'\\d'"],
    "similar": ["'a%'", "'(a|b)%'", "'_b_'", "'[a-f]+'", "'%o%'"],
    "small": ["1", "2", "3", "-1", "0", "({int} % 4)"],
    "text_num": ["'12.5'", "'7'", "({int}::text)", "({num}::text)"],
    "texts_num": ["'{{1,2}}'::text[]", "{ints}::text[]", "array[{int}::text]"],
    "num_quarter": ["1.25", "(-0.5)", "({int} * 0.25)"],
}
# The same for every type that has them.
for _type in COMPARED:
    FORMS["bool"] += [f"({{{_type}}} {sign} {{{_type}}})" for sign in ("=", "<>", "<", "<=", ">", ">=")][: 6 if _type in ("int", "text", "num", "date") else 4]
    FORMS["bool"] += [f"({{{_type}}} is null)", f"({{{_type}}} is not null)", f"({{{_type}}} is distinct from {{{_type}}})", f"({{{_type}}} is not distinct from {{{_type}}})"]
for _type in EVERY:
    FORMS[_type] += [f"(case when {{bool}} then {{{_type}}} else {{{_type}}} end)", f"(select {{{_type}}})", f"coalesce({{{_type}}}, {{{_type}}})"]

# Aggregates, with what they are given; whatever takes rows in an order is given one.
AGGREGATES = {
    "int": ["count(*)::int", "max({int})", "min({int})", "count({any})::int", "count(distinct {text})::int", "bit_and({int})", "bit_or({int})", "bit_xor({int})", "sum({int})::int", "sum(distinct {int})::int", "(percentile_disc(0.5) within group (order by {int}))", "(mode() within group (order by {int}))",
            "cardinality(array_agg({int}))", "regr_count({float}, {float})::int"],
    "big": ["count(*)", "count({any})", "sum({int})", "count(distinct {int})", "max({big})", "count(distinct ({int}, {text}))", "min({big})"],
    "num": ["sum({num})", "round(avg({num}), 2)", "round(avg({int}), 2)", "min({num})", "max({num})", "round(stddev({int}), 2)", "round(var_pop({num}), 2)", "sum(distinct {num})", "round(variance({int}), 2)", "sum({big})::numeric(20,2)", "round(avg(distinct {int}), 2)", "round(stddev_pop({big}), 2)"],
    "float": ["sum({float})", "min({float})", "max({float})", "(percentile_cont(0.5) within group (order by {float}))"],
    "text": ["string_agg({text}, ',' order by {text0})", "max({text})", "min({text})", "string_agg(distinct {text}, '|')", "array_agg({int} order by {int0} desc nulls last)::text", "json_agg({int} order by {int0})::text", "jsonb_agg({text} order by {text0})::text", "min({mood})::text", "array_agg(distinct {date})::text",
             "(percentile_disc(0.25) within group (order by {text}))", "avg({num})::text", "stddev_samp({num})::text", "array_agg(distinct {int} order by {int0})::text", "max({uuid}::text)", "string_agg({text}, '; ' order by {text0})"],
    "char": ["max({char})", "min({char})"],
    "bool": ["bool_and({bool})", "bool_or({bool})", "every({bool})", "(count(*) > 1)"],
    "date": ["max({date})", "min({date})"],
    "time": ["max({time})", "min({time})"],
    "stamp": ["max({stamp})", "min({stamp})"],
    "tz": ["max({tz})", "min({tz})"],
    "span": ["max({span})", "justify_interval(sum({span}))", "justify_interval(avg({span}))"],
    "ints": ["array_agg({int} order by {int0})", "max({ints})", "array_agg(distinct {int})", "(array_agg({int} order by {int0}))[1:2]"],
    "texts": ["array_agg({text} order by {text0})", "min({texts})", "array_agg(distinct {text} order by {text0} desc)"],
    "mood": ["max({mood})", "min({mood})"],
    "json": ["jsonb_agg({int} order by {int0})", "jsonb_agg(distinct {text})", "to_jsonb(count(*))"],
    "uuid": [], "bytes": [],
}

# Window functions: those of the first kind need an order that is total, those of the second only one.
WINDOWS_TOTAL = {
    "int": ["lag({int}) {over}", "lead({int}, 2) {over}", "first_value({int}) {over}", "last_value({int}) {over}", "nth_value({int}, 2) {over}", "ntile(3) {over}", "lag({int}, 1, 0) {over}"],
    "big": ["row_number() {over}", "count(*) {over_rows}", "sum({int}) {over_rows}", "sum({int}) filter (where {bool}) {over_rows}"],
    "text": ["lag({text}) {over}", "first_value({text}) {over}", "string_agg({text}, ',') {over}", "array_agg({int}) {over_rows}::text", "lead({text}, 1, 'none') {over}"],
    "num": ["sum({num}) {over_rows}", "round(avg({num}) {over_rows}, 2)", "max({num}) {over_rows}", "lag({num}) {over}"],
    "date": ["lag({date}) {over}", "max({date}) {over_rows}"],
    "float": ["percent_rank() {over}", "cume_dist() {over}"],
}
WINDOWS_PEERS = {
    "big": ["rank() {over}", "dense_rank() {over}", "count(*) {over}", "sum({int}) {over}", "count({text}) filter (where {bool}) {over}"],
    "num": ["sum({num}) {over}", "round(avg({int}) {over}, 2)"],
    "int": ["max({int}) {over}", "min({int}) {over}"],
    "text": ["max({text}) {over}"],
    "float": ["percent_rank() {over}", "cume_dist() {over}"],
    "bool": ["bool_or({bool}) {over}"],
}
