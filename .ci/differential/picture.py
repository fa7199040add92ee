"""What is in a database: the picture that statements are made from, and what two servers have to agree on at the end of a seed.

Everything that a seed makes lies in the schemas and belongs to the roles named here, so that it can be taken away again."""
import json

SCHEMAS = ("a", "b", "c", "d")
ROLES = ("r1", "r2", "r3")
HERE = "(n.nspname in ('a', 'b', 'c', 'd') or n.oid = pg_my_temp_schema())"

PICTURE = f"""select json_build_object(
  'schemas', (select json_agg(nspname order by nspname) from pg_namespace where nspname in ('a', 'b', 'c', 'd')),
  'roles', (select json_agg(rolname order by rolname) from pg_roles where rolname in ('r1', 'r2', 'r3')),
  'relations', (select json_agg(json_build_object('oid', c.oid::int8, 'schema', n.nspname, 'name', c.relname, 'kind', c.relkind, 'temp', c.relpersistence = 't',
     'columns', (select json_agg(json_build_object('name', a.attname, 'type', t.typname, 'of', t.typtype, 'in', tn.nspname, 'base', bt.typname, 'required', a.attnotnull,
         'identity', a.attidentity, 'generated', a.attgenerated, 'default', a.atthasdef) order by a.attnum)
       from pg_attribute a join pg_type t on t.oid = a.atttypid join pg_namespace tn on tn.oid = t.typnamespace left join pg_type bt on bt.oid = t.typbasetype
       where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
     'constraints', (select json_agg(json_build_object('name', conname, 'type', contype, 'to', confrelid::int8, 'columns',
         (select json_agg(attname order by attnum) from pg_attribute where attrelid = conrelid and attnum = any(conkey))) order by conname) from pg_constraint where conrelid = c.oid),
     'over', (select json_agg(distinct d.refobjid::int8) from pg_rewrite r join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
         and d.refclassid = 'pg_class'::regclass where r.ev_class = c.oid and d.refobjid <> c.oid),
     'table', (select indrelid::int8 from pg_index where indexrelid = c.oid)) order by n.nspname, c.relname)
     from pg_class c join pg_namespace n on n.oid = c.relnamespace where {HERE} and c.relkind in ('r', 'v', 'S', 'i')),
  'types', (select json_agg(json_build_object('schema', n.nspname, 'name', t.typname, 'kind', t.typtype, 'base', b.typname,
     'labels', (select json_agg(enumlabel order by enumsortorder) from pg_enum where enumtypid = t.oid),
     'constraints', (select json_agg(conname order by conname) from pg_constraint where contypid = t.oid)) order by n.nspname, t.typname)
     from pg_type t join pg_namespace n on n.oid = t.typnamespace left join pg_type b on b.oid = t.typbasetype where {HERE} and t.typtype in ('e', 'd')))"""

ONLY = "n.nspname in ('a', 'b', 'c', 'd')"
STATE = {
    "relations": f"""select n.nspname, c.relname, c.relkind, c.relpersistence, pg_get_userbyid(c.relowner), c.relacl::text, c.reloptions::text, c.relhasindex or c.relkind <> 'i',
        obj_description(c.oid, 'pg_class') from pg_class c join pg_namespace n on n.oid = c.relnamespace where {ONLY} and c.relkind in ('r', 'v', 'S', 'i')""",
    "columns": f"""select n.nspname, c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, a.attgenerated, a.atthasdef, a.attacl::text,
        (select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = a.attrelid and adnum = a.attnum), col_description(c.oid, a.attnum)
        from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
        where {ONLY} and c.relkind in ('r', 'v') and a.attnum > 0 and not a.attisdropped""",
    "order of columns": f"""select n.nspname, c.relname, c.relkind, (select string_agg(attname, ' ' order by attnum) from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped)
        from pg_class c join pg_namespace n on n.oid = c.relnamespace where {ONLY} and c.relkind in ('r', 'v', 'i')""",
    "constraints": f"""select n.nspname, c.relname, k.conname, k.contype, k.condeferrable, k.condeferred, k.convalidated, pg_get_constraintdef(k.oid), obj_description(k.oid, 'pg_constraint')
        from pg_constraint k join pg_namespace n on n.oid = k.connamespace left join pg_class c on c.oid = k.conrelid where {ONLY}""",
    "indexes": f"""select n.nspname, c.relname, i.indisunique, i.indisprimary, i.indisvalid, i.indkey::text, pg_get_indexdef(c.oid) from pg_index i join pg_class c on c.oid = i.indexrelid
        join pg_namespace n on n.oid = c.relnamespace where {ONLY}""",
    "sequences": "select * from pg_sequences where schemaname in ('a', 'b', 'c', 'd')",
    "owned sequences": f"""select n.nspname, c.relname, d.deptype, d.refobjid::regclass::text, d.refobjsubid from pg_class c join pg_namespace n on n.oid = c.relnamespace
        join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype in ('a', 'i') and d.refclassid = 'pg_class'::regclass where {ONLY} and c.relkind = 'S'""",
    "types": f"""select n.nspname, t.typname, t.typtype, pg_get_userbyid(t.typowner), t.typacl::text, t.typnotnull, t.typdefault, format_type(t.typbasetype, t.typtypmod),
        (select string_agg(enumlabel, ' ' order by enumsortorder) from pg_enum where enumtypid = t.oid), obj_description(t.oid, 'pg_type')
        from pg_type t join pg_namespace n on n.oid = t.typnamespace where {ONLY} and t.typtype in ('e', 'd')""",
    "schemas": """select nspname, pg_get_userbyid(nspowner), nspacl::text, obj_description(oid, 'pg_namespace') from pg_namespace where nspname in ('a', 'b', 'c', 'd')""",
    "roles": """select rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolconnlimit from pg_roles where rolname in ('r1', 'r2', 'r3')""",
    "members": """select roleid::regrole::text, member::regrole::text, admin_option from pg_auth_members where roleid::regrole::text in ('r1', 'r2', 'r3')""",
}
# The same things as the standard's views say them: looked at by one seed in four.
STANDARD = {
    "information_schema.columns": """select table_schema, table_name, column_name, ordinal_position, column_default, is_nullable, data_type, character_maximum_length, numeric_precision,
        numeric_scale, datetime_precision, domain_schema, domain_name, udt_schema, udt_name, is_identity, identity_generation, identity_start, identity_increment, identity_maximum,
        identity_minimum, identity_cycle, is_generated, generation_expression, is_updatable from information_schema.columns where table_schema in ('a', 'b', 'c', 'd')""",
    "information_schema.tables": "select table_schema, table_name, table_type, is_insertable_into from information_schema.tables where table_schema in ('a', 'b', 'c', 'd')",
    "information_schema.table_constraints": """select table_schema, table_name, constraint_name, constraint_type, is_deferrable, initially_deferred from information_schema.table_constraints
        where table_schema in ('a', 'b', 'c', 'd') and constraint_name !~ '_not_null$'""",
    "information_schema.key_column_usage": "select * from information_schema.key_column_usage where table_schema in ('a', 'b', 'c', 'd')",
    "information_schema.referential_constraints": "select * from information_schema.referential_constraints where constraint_schema in ('a', 'b', 'c', 'd')",
    "information_schema.constraint_column_usage": "select * from information_schema.constraint_column_usage where constraint_schema in ('a', 'b', 'c', 'd')",
    "information_schema.sequences": "select * from information_schema.sequences where sequence_schema in ('a', 'b', 'c', 'd')",
    "information_schema.domains": "select * from information_schema.domains where domain_schema in ('a', 'b', 'c', 'd')",
    "information_schema.table_privileges": "select * from information_schema.table_privileges where table_schema in ('a', 'b', 'c', 'd')",
    "information_schema.views": "select table_schema, table_name, check_option, is_updatable, is_insertable_into from information_schema.views where table_schema in ('a', 'b', 'c', 'd')",
    "pg_indexes": "select schemaname, tablename, indexname from pg_indexes where schemaname in ('a', 'b', 'c', 'd')",
}
TABLES = f"select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace where {ONLY} and c.relkind in ('r', 'v') order by 1"


def name(text):
    """A name as SQL writes it."""
    plain = text.isascii() and text.replace("_", "a").isalnum() and text == text.lower() and not text[0].isdigit() and text not in ("select", "table", "order", "user")
    return text if plain else '"' + text.replace('"', '""') + '"'


class Relation:
    def __init__(self, said):
        self.oid, self.kind, self.temp, self.schema = said["oid"], said["kind"], said["temp"], said["schema"]
        self.sql = name(said["name"]) if self.temp else f"{self.schema}.{name(said['name'])}"
        self.bare, self.table = name(said["name"]), said["table"]
        self.columns, self.constraints, self.over = said["columns"] or [], said["constraints"] or [], said["over"] or []

    def writable(self):
        return [column for column in self.columns if not column["generated"]]


class Picture:
    """The catalog as a session of PostgreSQL sees it."""

    def __init__(self, text):
        said = json.loads(text)
        self.schemas, self.roles, self.types = said["schemas"] or [], said["roles"] or [], said["types"] or []
        self.relations = [Relation(one) for one in said["relations"] or []]
        self.tables = [one for one in self.relations if one.kind == "r"]
        self.views = [one for one in self.relations if one.kind == "v"]
        self.sequences = [one for one in self.relations if one.kind == "S"]
        self.indexes = [one for one in self.relations if one.kind == "i"]
        self.groups = self.grouped()

    def grouped(self):
        """For each table and view the number of those that it hangs together with, by foreign keys and queries of views."""
        group = {one.oid: one.oid for one in self.relations}

        def find(oid):
            while group[oid] != oid:
                oid = group[oid]
            return oid

        for one in self.relations:
            for other in one.over + [key["to"] for key in one.constraints if key["to"]]:
                if other in group:
                    group[find(one.oid)] = find(other)
        return {oid: find(oid) for oid in group}
