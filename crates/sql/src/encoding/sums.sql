-- Sums of what PostgreSQL 15 converts, of a server whose encoding is UTF8:
--   psql -qAt -F "$(printf '\t')" -f sums.sql > sums.tsv
-- A line: encoding, SHA-256 of what its codes are as texts, SHA-256 of what characters are in it.
create function pg_temp.text_of(code bytea, encoding name) returns text language plpgsql as $$
begin
    return encode(convert_to(convert_from(code, encoding), 'UTF8'), 'hex');
exception when character_not_in_repertoire then return '!';
    when untranslatable_character then return '-';
end $$;
create function pg_temp.code_of(c int, encoding name) returns text language plpgsql as $$
begin
    return encode(convert_to(chr(c), encoding), 'hex');
exception when untranslatable_character then return '-';
end $$;
create temp table codes(code bytea, alone name);
insert into codes select decode(lpad(to_hex(a), 2, '0'), 'hex') from generate_series(1, 255) a;
insert into codes select decode(lpad(to_hex(a), 4, '0'), 'hex')
    from generate_series(x'8001'::int, x'ffff'::int) a where a & 255 > 0;
insert into codes select decode('8f' || lpad(to_hex(a), 4, '0'), 'hex'), 'EUC_JP'
    from generate_series(x'8080'::int, x'ffff'::int) a where a & 255 >= 128;
insert into codes select decode(lpad(to_hex(a), 2, '0') || lpad(to_hex(b), 2, '0')
    || lpad(to_hex(c), 2, '0') || lpad(to_hex(d), 2, '0'), 'hex'), 'GB18030'
    from unnest('{129,130,131,132,143,144,227}'::int[]) a, generate_series(48, 57) b,
    generate_series(129, 254) c, generate_series(48, 57) d;
select name,
    (select encode(sha256(string_agg(encode(code, 'hex') || ' ' || pg_temp.text_of(code, name), E'\n'
        order by code)::bytea), 'hex') from codes where coalesce(alone, name) = name),
    (select encode(sha256(string_agg(to_hex(c) || ' ' || pg_temp.code_of(c, name), E'\n'
        order by c)::bytea), 'hex') from generate_series(1, 69632) c where c not between 55296 and 57343)
from (select pg_encoding_to_char(n)::name as name, n from generate_series(1, 41) n
    where pg_encoding_to_char(n) in ('EUC_JP', 'EUC_CN', 'EUC_KR', 'SJIS', 'BIG5', 'GBK', 'UHC', 'GB18030')
    or n between 8 and 34) known order by n;
