"""Why a test fails here: kind and cause, from what it said. The first rule that finds its text holds.

A cause of kind `feature` is a thing that docs/limitations.md says is not there, or another kind of server would be.
"""
import re

RULES = (
    ("row types of users", r"CREATE TYPE of a row|PostgreSQL type 'ctest|type \"(\w+\.)?(point3d|mytab|ctest\w*)\""),
    ("ranges", r"(?i)(range\w*\"?(\[\])? does not exist|range\(.*does not exist|CREATE TYPE AS RANGE|[a-z]+range_?not)"),
    ("geometry", r"LoadsArrayDelimiter|\b_?(point|box|circle|line|lseg|path|polygon)\b(\"|\().*does not exist"),
    ("full text search", r"(?i)tsvector|tsquery|text search|ts_\w+ does not exist|@@"),
    ("xml", r"\bxml\b.*does not exist|FORMAT XML|valid XML"),
    ("numbers of transactions", r"txid_|pg_current_xact_id|pg_snapshot"),
    ("jsonpath", r"(?i)json_?path|jsonb_path"),
    ("extensions (hstore, citext, ltree, pgcrypto and others)", r"(?i)hstore|citext|ltree|extension \"|digest\(|unaccent|trigram"),
    ("prepared transactions", r"(?i)PREPARE TRANSACTION|two.?phase|prepared transactions"),
    ("large objects", r"(?i)lobject|lo_\w+|large.?object"),
    ("functions of users", r"CREATE (FUNCTION|PROCEDURE|TRIGGER)|callproc|DO block|LANGUAGE"),
    ("collations", r"(?i)collat"),
    ("materialized views", r"(?i)materialized"),
    ("inheritance and partitions", r"(?i)inherit|partition"),
    ("exclusion constraints", r"(?i)exclu(de|sion)"),
    ("replication", r"(?i)replication"),
    ("deferred unique constraints", r"(?i)deferr.*(23505|duplicate key)|(initially|Deferred).*already exists"),
    ("conflicts end a transaction (40001)", r"40001|could not serialize|SerializationFailure|too long to lock row"),
    ("more than one database", r"(?i)nosuch|thisdatabase|connect any db|CREATE DATABASE|DROP DATABASE|pg_database"),
    ("plans of PostgreSQL's", r"(?i)'Relation Name'|explain"),
    ("transactions of more than 32 MiB", r"bytes of log"),
    ("encodings of clients", r"client_encoding"),
    ("messages of level DEBUG", r"client_min_messages=debug|chatty|test_notices"),
    ("row types of tables", r"test_from_tables|ForTable"),
    ("indexes that were not made to the end", r"ix_invalid|InvalidIndex"),
    ("storage parameters of indexes", r"storage_options|fillfactor"),
    ("time zones more than a day from Greenwich", r"POSIXTimezones"),
    ("rows without an order come by their primary key", r"\[\(1, 'd2'\), \(2, 'd5'\)|Lists differ: \[4, 5, 6, 7|'d2'.*'d5'"),
    ("an operator class's name", r"_pattern_ops"),
    ("functions in indexes have to be immutable", r"nondeterministic"),
    ("indexes over jsonb", r"jsonb has no default operator class|an index over values of jsonb"),
    ("errors of constants come with the plan", r"1 ?/ ?0|MultipleQueriesError|check_transactionality"),
    ("more than 65535 parameters in a statement that is only prepared", r"TooManyParams"),
    ("protocol 3.2, which is more than PostgreSQL 15 speaks", r"ProtocolVersion32"),
    ("it follows from another test", r"relation \"\w+\" already exists"),
    ("cursors make their rows when declared", r"[Nn]ot_?[Gg]reedy"),
)


def of(result):
    """(kind, cause) of a result that is not a pass."""
    for cause, pattern in RULES:
        if re.search(pattern, result.message) or re.search(pattern, result.raw):
            return "feature", cause
    found = re.search(r"([\w ,()\"-]+) is not supported|function \S+ does not exist|type \"\S+\" does not exist", result.message)
    if found:
        return "feature", found[0].strip()[:80]
    if result.status == "skip":
        return "feature", "skipped: " + " ".join(result.message.split())[-80:]
    telling = re.compile(r"ERROR|[Ee]rror\b|Exception|Got|got|expected|FAIL|Fail|no end|not run")
    lines = [line.strip() for line in result.message.splitlines() if telling.search(line)]
    text = re.sub(r"0x\w+|\S+/|:\d+", "", lines[-1] if lines else "")
    return "defect", re.sub(r"\s+", " ", text).strip()[:90] or "no words"
