-- information_schema.administrable_role_authorizations
select grantee, role_name, is_grantable from information_schema.applicable_roles where is_grantable = 'YES';

-- information_schema.character_sets
select null::name as character_set_catalog, null::name as character_set_schema, 'UTF8'::name as character_set_name,
  'UCS'::name as character_repertoire, 'UTF8'::name as form_of_use,
  pg_catalog.current_database()::name as default_collate_catalog, 'pg_catalog'::name as default_collate_schema,
  'C.UTF-8'::name as default_collate_name;

-- information_schema.collations
select pg_catalog.current_database()::name as collation_catalog, n.nspname as collation_schema,
  c.collname as collation_name, 'NO PAD'::varchar as pad_attribute
from pg_catalog.pg_collation c join pg_catalog.pg_namespace n on n.oid = c.collnamespace;

-- information_schema.collation_character_set_applicability
select collation_catalog, collation_schema, collation_name, null::name as character_set_catalog,
  null::name as character_set_schema, 'UTF8'::name as character_set_name
from information_schema.collations;

-- information_schema.column_domain_usage
select pg_catalog.current_database()::name as domain_catalog, d.nspname as domain_schema, t.typname as domain_name,
  pg_catalog.current_database()::name as table_catalog, n.nspname as table_schema, c.relname as table_name,
  a.attname as column_name
from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_type t on t.oid = a.atttypid join pg_catalog.pg_namespace d on d.oid = t.typnamespace
where t.typtype = 'd' and a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'v', 'f', 'p')
  and pg_catalog.pg_has_role(t.typowner, 'USAGE');

-- information_schema.column_udt_usage
select pg_catalog.current_database()::name as udt_catalog, b.nspname as udt_schema, u.typname as udt_name,
  pg_catalog.current_database()::name as table_catalog, n.nspname as table_schema, c.relname as table_name,
  a.attname as column_name
from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_type t on t.oid = a.atttypid
  join pg_catalog.pg_type u on u.oid = case t.typtype when 'd' then t.typbasetype else t.oid end
  join pg_catalog.pg_namespace b on b.oid = u.typnamespace
where a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'v', 'f', 'p')
  and pg_catalog.pg_has_role(u.typowner, 'USAGE');

-- information_schema.column_privileges
select g.rolname as grantor, coalesce(e.rolname, 'PUBLIC')::name as grantee,
  pg_catalog.current_database()::name as table_catalog, n.nspname as table_schema, c.relname as table_name,
  a.attname as column_name, p.privilege_type::varchar as privilege_type,
  (case when p.is_grantable or p.grantee = c.relowner then 'YES' else 'NO' end)::varchar(3) as is_grantable
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  cross join lateral pg_catalog.aclexplode(coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))) as p
  join pg_catalog.pg_authid g on g.oid = p.grantor
  left join pg_catalog.pg_authid e on e.oid = p.grantee
where c.relkind in ('r', 'v', 'f', 'p') and p.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES')
  and (pg_catalog.pg_has_role(g.oid, 'USAGE') or e.oid is null or pg_catalog.pg_has_role(e.oid, 'USAGE'));

-- information_schema.role_column_grants
select * from information_schema.column_privileges as p
where p.grantor in (select role_name from information_schema.enabled_roles)
  or p.grantee in (select role_name from information_schema.enabled_roles);

-- information_schema.domain_constraints
select pg_catalog.current_database()::name as constraint_catalog, k.nspname as constraint_schema,
  c.conname as constraint_name, pg_catalog.current_database()::name as domain_catalog, n.nspname as domain_schema,
  t.typname as domain_name, (case when c.condeferrable then 'YES' else 'NO' end)::varchar(3) as is_deferrable,
  (case when c.condeferred then 'YES' else 'NO' end)::varchar(3) as initially_deferred
from pg_catalog.pg_constraint c join pg_catalog.pg_namespace k on k.oid = c.connamespace
  join pg_catalog.pg_type t on t.oid = c.contypid join pg_catalog.pg_namespace n on n.oid = t.typnamespace
where pg_catalog.pg_has_role(t.typowner, 'USAGE');

-- information_schema.domain_udt_usage
select pg_catalog.current_database()::name as udt_catalog, b.nspname as udt_schema, u.typname as udt_name,
  pg_catalog.current_database()::name as domain_catalog, n.nspname as domain_schema, t.typname as domain_name
from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
  join pg_catalog.pg_type u on u.oid = t.typbasetype join pg_catalog.pg_namespace b on b.oid = u.typnamespace
where t.typtype = 'd' and pg_catalog.pg_has_role(u.typowner, 'USAGE');

-- information_schema.element_types
select pg_catalog.current_database()::name as object_catalog, o.schema as object_schema, o.name as object_name,
  o.kind::varchar as object_type, o.identifier as collection_type_identifier,
  (case when b.nspname = 'pg_catalog' then pg_catalog.format_type(e.oid, null) else 'USER-DEFINED' end)::varchar
    as data_type,
  null::int4 as character_maximum_length, null::int4 as character_octet_length, null::name as character_set_catalog,
  null::name as character_set_schema, null::name as character_set_name, null::name as collation_catalog,
  null::name as collation_schema, null::name as collation_name, null::int4 as numeric_precision,
  null::int4 as numeric_precision_radix, null::int4 as numeric_scale, null::int4 as datetime_precision,
  null::varchar as interval_type, null::int4 as interval_precision, null::varchar as domain_default,
  pg_catalog.current_database()::name as udt_catalog, b.nspname as udt_schema, e.typname as udt_name,
  null::name as scope_catalog, null::name as scope_schema, null::name as scope_name,
  null::int4 as maximum_cardinality, ('a' || o.identifier::text)::name as dtd_identifier
from (select n.nspname as schema, c.relname as name, 'TABLE' as kind,
      a.attnum::text::name as identifier, a.atttypid as type, c.relowner as owner
    from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'v', 'f', 'p')
    union all
    select n.nspname, t.typname, 'DOMAIN', '1', t.typbasetype, t.typowner
    from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace where t.typtype = 'd') o
  join pg_catalog.pg_type t on t.oid = o.type and t.typtype = 'b' and t.typelem <> 0 and t.typlen = -1
  join pg_catalog.pg_type e on e.oid = t.typelem
  join pg_catalog.pg_namespace b on b.oid = e.typnamespace
where pg_catalog.pg_has_role(o.owner, 'USAGE');

-- information_schema.data_type_privileges
select pg_catalog.current_database()::name as object_catalog, table_schema as object_schema,
  table_name as object_name, 'TABLE'::varchar as object_type, dtd_identifier
from information_schema.columns
union all
select udt_catalog, domain_schema, domain_name, 'DOMAIN', '1' from information_schema.domain_udt_usage;

-- information_schema.udt_privileges
select r.rolname as grantor, 'PUBLIC'::name as grantee, pg_catalog.current_database()::name as udt_catalog,
  n.nspname as udt_schema, t.typname as udt_name, 'TYPE USAGE'::varchar as privilege_type,
  'NO'::varchar(3) as is_grantable
from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
  join pg_catalog.pg_authid r on r.oid = t.typowner
where t.typtype = 'c' and exists (select from pg_catalog.pg_class c where c.oid = t.typrelid and c.relkind = 'c');

-- information_schema.role_udt_grants
select * from information_schema.udt_privileges as p
where p.grantor in (select role_name from information_schema.enabled_roles)
  or p.grantee in (select role_name from information_schema.enabled_roles);

-- information_schema.usage_privileges
select g.rolname as grantor, coalesce(e.rolname, 'PUBLIC')::name as grantee,
  pg_catalog.current_database()::name as object_catalog, n.nspname as object_schema, c.relname as object_name,
  'SEQUENCE'::varchar as object_type, 'USAGE'::varchar as privilege_type,
  (case when p.is_grantable or p.grantee = c.relowner then 'YES' else 'NO' end)::varchar(3) as is_grantable
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  cross join lateral pg_catalog.aclexplode(c.relacl) as p
  join pg_catalog.pg_authid g on g.oid = p.grantor
  left join pg_catalog.pg_authid e on e.oid = p.grantee
where c.relkind = 'S' and p.privilege_type = 'USAGE'
union all
select r.rolname, w.who, pg_catalog.current_database()::name, n.nspname, t.typname, 'DOMAIN', 'USAGE', w.grantable
from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
  join pg_catalog.pg_authid r on r.oid = t.typowner
  cross join lateral (values (r.rolname, 'YES'), ('PUBLIC', 'NO')) as w(who, grantable)
where t.typtype = 'd'
union all
select r.rolname, 'PUBLIC', pg_catalog.current_database()::name, n.nspname, c.collname, 'COLLATION', 'USAGE', 'NO'
from pg_catalog.pg_collation c join pg_catalog.pg_namespace n on n.oid = c.collnamespace
  join pg_catalog.pg_authid r on r.oid = c.collowner;

-- information_schema.role_usage_grants
select * from information_schema.usage_privileges as p
where p.grantor in (select role_name from information_schema.enabled_roles)
  or p.grantee in (select role_name from information_schema.enabled_roles);

-- information_schema.user_defined_types
select pg_catalog.current_database()::name as user_defined_type_catalog, n.nspname as user_defined_type_schema,
  c.relname as user_defined_type_name, 'STRUCTURED'::varchar as user_defined_type_category,
  'YES'::varchar(3) as is_instantiable, null::varchar(3) as is_final, null::varchar as ordering_form,
  null::varchar as ordering_category, null::name as ordering_routine_catalog, null::name as ordering_routine_schema,
  null::name as ordering_routine_name, null::varchar as reference_type, null::varchar as data_type,
  null::int4 as character_maximum_length, null::int4 as character_octet_length, null::name as character_set_catalog,
  null::name as character_set_schema, null::name as character_set_name, null::name as collation_catalog,
  null::name as collation_schema, null::name as collation_name, null::int4 as numeric_precision,
  null::int4 as numeric_precision_radix, null::int4 as numeric_scale, null::int4 as datetime_precision,
  null::varchar as interval_type, null::int4 as interval_precision, null::name as source_dtd_identifier,
  null::name as ref_dtd_identifier
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'c';

-- information_schema.view_table_usage
select distinct pg_catalog.current_database()::name as view_catalog, n.nspname as view_schema, v.relname as view_name,
  pg_catalog.current_database()::name as table_catalog, s.nspname as table_schema, t.relname as table_name
from pg_catalog.pg_class v join pg_catalog.pg_namespace n on n.oid = v.relnamespace
  join pg_catalog.pg_rewrite r on r.ev_class = v.oid
  join pg_catalog.pg_depend d on d.classid = 2618 and d.objid = r.oid and d.refclassid = 1259 and d.refobjid <> v.oid
  join pg_catalog.pg_class t on t.oid = d.refobjid and t.relkind in ('r', 'v', 'f', 'p')
  join pg_catalog.pg_namespace s on s.oid = t.relnamespace
where v.relkind = 'v' and pg_catalog.pg_has_role(t.relowner, 'USAGE');
