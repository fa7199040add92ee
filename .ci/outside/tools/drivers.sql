-- Npgsql: the types that it loads when the first connection opens.
select version();
-- rows
select ns.nspname, t.typname, t.typtype, t.typnotnull, t.elemtypname
from (select typ.oid, typ.typnamespace, typ.typname, case when proc.proname = 'array_recv' then 'a' else typ.typtype end as typtype, typ.typnotnull, typ.typelem, elem.typname as elemtypname, elem.typtype as elemtyptype
  from (select oid, typnamespace, typname, typtype, typrelid, typnotnull, typelem, typreceive::oid as recv from pg_type where typtype != 'x') typ
    left join pg_proc proc on proc.oid = typ.recv left join pg_type elem on elem.oid = typ.typelem) t
  join pg_namespace ns on ns.oid = t.typnamespace
where ns.nspname = 'shop' and t.typtype in ('e', 'd', 'b', 'a') and t.elemtyptype is distinct from 'c' order by t.typtype, t.typname;
select ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.elemtypoid
from (select typ.oid, typ.typnamespace, typ.typname, typ.typtype, typ.typrelid, typ.typnotnull, typ.relkind, elemtyp.oid as elemtypoid, elemtyp.typname as elemtypname, elemcls.relkind as elemrelkind,
    case when elemproc.proname = 'array_recv' then 'a' else elemtyp.typtype end as elemtyptype
  from (select typ.oid, typnamespace, typname, typrelid, typnotnull, relkind, typelem as elemoid, case when proc.proname = 'array_recv' then 'a' else typ.typtype end as typtype,
      case when proc.proname = 'array_recv' then typ.typelem when typ.typtype = 'r' then rngsubtype when typ.typtype = 'm' then (select rngtypid from pg_range where rngmultitypid = typ.oid)
        when typ.typtype = 'd' then typ.typbasetype end as elemtypoid
    from pg_type as typ left join pg_class as cls on (cls.oid = typ.typrelid) left join pg_proc as proc on proc.oid = typ.typreceive left join pg_range on (pg_range.rngtypid = typ.oid)) as typ
    left join pg_type as elemtyp on elemtyp.oid = elemtypoid left join pg_class as elemcls on (elemcls.oid = elemtyp.typrelid) left join pg_proc as elemproc on elemproc.oid = elemtyp.typreceive) as t
  join pg_namespace as ns on (ns.oid = typnamespace)
where typtype in ('b', 'r', 'm', 'e', 'd') or (typtype = 'c' and relkind = 'c') or (typtype = 'p' and typname in ('record', 'void', 'unknown'))
  or (typtype = 'a' and (elemtyptype in ('b', 'r', 'm', 'e', 'd') or (elemtyptype = 'p' and elemtypname in ('record', 'void')) or (elemtyptype = 'c' and elemrelkind = 'c')))
order by case when typtype in ('b', 'e', 'p') then 0 when typtype = 'c' then 1 when typtype = 'r' then 2 when typtype = 'd' then 3 when typtype = 'm' then 4 end limit 3;
select typ.oid, att.attname, att.atttypid from pg_type as typ join pg_namespace as ns on ns.oid = typ.typnamespace join pg_class as cls on cls.oid = typ.typrelid
  join pg_attribute as att on att.attrelid = typ.typrelid where typ.typtype = 'c' and cls.relkind = 'c' and att.attnum > 0 and not att.attisdropped order by typ.oid, att.attnum;
-- rows
select pg_type.typname, enumlabel from pg_enum join pg_type on pg_type.oid = enumtypid order by typname, enumsortorder;
-- pgjdbc: DatabaseMetaData.
select current_catalog;
-- rows
select nspname as "TABLE_SCHEM", current_database() as "TABLE_CATALOG" from pg_catalog.pg_namespace where nspname <> 'pg_toast'
  and (nspname !~ '^pg_temp_' or nspname = (pg_catalog.current_schemas(true))[1]) and (nspname !~ '^pg_toast_temp_' or nspname = replace((pg_catalog.current_schemas(true))[1], 'pg_temp_', 'pg_toast_temp_'))
order by "TABLE_SCHEM";
-- rows
select * from (select n.nspname, c.relname, a.attname, a.attnotnull or (t.typtype = 'd' and t.typnotnull) as attnotnull, a.atttypmod, a.attlen, t.typtypmod,
    row_number() over (partition by a.attrelid order by a.attnum) as attnum, nullif(a.attidentity, '') as attidentity, nullif(a.attgenerated, '') as attgenerated,
    pg_catalog.pg_get_expr(def.adbin, def.adrelid) as adsrc, dsc.description, t.typtype
  from pg_catalog.pg_namespace n join pg_catalog.pg_class c on (c.relnamespace = n.oid) join pg_catalog.pg_attribute a on (a.attrelid = c.oid) join pg_catalog.pg_type t on (a.atttypid = t.oid)
    left join pg_catalog.pg_attrdef def on (a.attrelid = def.adrelid and a.attnum = def.adnum) left join pg_catalog.pg_description dsc on (c.oid = dsc.objoid and a.attnum = dsc.objsubid)
    left join pg_catalog.pg_class dc on (dc.oid = dsc.classoid and dc.relname = 'pg_class') left join pg_catalog.pg_namespace dn on (dc.relnamespace = dn.oid and dn.nspname = 'pg_catalog')
  where c.relkind in ('r', 'p', 'v', 'f', 'm') and a.attnum > 0 and not a.attisdropped and n.nspname like 'shop') c where true order by nspname, c.relname, attnum;
-- rows
select ct.relname as "TABLE_NAME", a.attname as "COLUMN_NAME", (information_schema._pg_expandarray(i.indkey)).n as "KEY_SEQ", ci.relname as "PK_NAME"
from pg_catalog.pg_class ct join pg_catalog.pg_attribute a on (ct.oid = a.attrelid) join pg_catalog.pg_namespace n on (ct.relnamespace = n.oid) join pg_catalog.pg_index i on (a.attrelid = i.indrelid)
  join pg_catalog.pg_class ci on (ci.oid = i.indexrelid) where n.nspname = 'shop' and i.indisprimary and a.attnum = any (i.indkey) order by 1, 3;
-- rows
select pkn.nspname as "PKTABLE_SCHEM", pkc.relname as "PKTABLE_NAME", pka.attname as "PKCOLUMN_NAME", fkc.relname as "FKTABLE_NAME", fka.attname as "FKCOLUMN_NAME", pos.n as "KEY_SEQ",
  case con.confdeltype when 'c' then 0 when 'n' then 2 when 'd' then 4 when 'r' then 1 when 'a' then 3 end as "DELETE_RULE", con.conname as "FK_NAME", pkic.relname as "PK_NAME"
from pg_catalog.pg_namespace pkn, pg_catalog.pg_class pkc, pg_catalog.pg_attribute pka, pg_catalog.pg_class fkc, pg_catalog.pg_attribute fka, pg_catalog.pg_constraint con,
  pg_catalog.generate_series(1, 32) pos(n), pg_catalog.pg_class pkic
where pkn.oid = pkc.relnamespace and pkc.oid = pka.attrelid and pka.attnum = con.confkey[pos.n] and con.confrelid = pkc.oid and fkc.oid = fka.attrelid and fka.attnum = con.conkey[pos.n]
  and con.conrelid = fkc.oid and con.contype = 'f' and pkic.relkind in ('i', 'I') and pkic.oid = con.conindid and pkn.nspname = 'shop' order by 1, 2, con.conname, pos.n;
select typinput = 'pg_catalog.array_in'::regproc as is_array, typtype, typname, pg_type.oid from pg_catalog.pg_type
  left join (select ns.oid as nspoid, ns.nspname, r.r from pg_namespace as ns join (select s.r, (current_schemas(false))[s.r] as nspname from generate_series(1, array_upper(current_schemas(false), 1)) as s(r)) as r
    using (nspname)) as sp on sp.nspoid = typnamespace order by sp.r, pg_type.oid desc limit 3;
select string_agg(word, ',') from pg_catalog.pg_get_keywords() where word <> all ('{a,abs,absolute,select}'::text[]);
-- rows
select n.nspname, c.relname, r.rolname, c.relacl, a.attacl, a.attname from pg_catalog.pg_namespace n, pg_catalog.pg_class c, pg_catalog.pg_roles r, pg_catalog.pg_attribute a
where c.relnamespace = n.oid and c.relowner = r.oid and c.oid = a.attrelid and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped and n.nspname = 'shop' and c.relname = 'sale' and a.attname like '%' order by attname;
-- psqlODBC: its catalog functions, and what it asks when it connects.
set datestyle = 'ISO';
set extra_float_digits = 2;
select oid, typbasetype from pg_type where typname = 'lo';
select substr(current_setting('server_version'), 1, 5), pg_client_encoding(), setting from pg_settings where name = 'max_identifier_length';
-- rows
select relname, nspname, relkind from pg_catalog.pg_class c, pg_catalog.pg_namespace n where relkind in ('r', 'v', 'm', 'f', 'p') and nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'pg_temp_1')
  and n.oid = relnamespace order by nspname, relname;
-- rows
select n.nspname, c.relname, a.attname, t.typname, a.attnum, a.attlen, a.atttypmod, a.attnotnull, c.relhasrules, c.relkind, pg_get_expr(d.adbin, d.adrelid),
  case t.typtype when 'd' then t.typtypmod else 0 end, c.relhassubclass, attidentity
from (((pg_catalog.pg_class c inner join pg_catalog.pg_namespace n on n.oid = c.relnamespace and c.relname = 'sale' and n.nspname = 'shop')
  inner join pg_catalog.pg_attribute a on (not a.attisdropped) and a.attnum > 0 and a.attrelid = c.oid) inner join pg_catalog.pg_type t on t.oid = a.atttypid)
  left outer join pg_attrdef d on a.atthasdef and d.adrelid = a.attrelid and d.adnum = a.attnum order by n.nspname, c.relname, attnum;
-- rows
select ta.attname, ia.attnum, ic.relname, n.nspname, tc.relname from pg_catalog.pg_attribute ta, pg_catalog.pg_attribute ia, pg_catalog.pg_class tc, pg_catalog.pg_index i, pg_catalog.pg_namespace n, pg_catalog.pg_class ic
where tc.relname = 'sale' and n.nspname = 'shop' and tc.oid = i.indrelid and n.oid = tc.relnamespace and i.indisprimary = 't' and ia.attrelid = i.indexrelid and ta.attrelid = i.indrelid
  and ta.attnum = i.indkey[ia.attnum - 1] and (not ta.attisdropped) and (not ia.attisdropped) and ic.oid = i.indexrelid order by ia.attnum;
-- rows
select c.relname, i.indkey, i.indisunique, i.indisclustered, a.amname, c.relhasrules, n.nspname, d.relname, i.indoption, case when i.indpred is null then 0 else 1 end
from pg_catalog.pg_index i, pg_catalog.pg_class c, pg_catalog.pg_class d, pg_catalog.pg_am a, pg_catalog.pg_namespace n
where d.relname = 'sale' and n.nspname = 'shop' and n.oid = d.relnamespace and d.oid = i.indrelid and i.indexrelid = c.oid and c.relam = a.oid order by i.indisprimary desc, i.indisunique, n.nspname, c.relname;
-- Prisma: what its schema engine reads.
-- rows
select exists (select 1 from pg_namespace where nspname = 'shop') as there, current_setting('server_version_num')::integer >= 150000 as recent;
-- rows
select tbl.relname as table_name, namespace.nspname as namespace, (tbl.relhassubclass and tbl.relkind = 'p') as is_partition, tbl.relrowsecurity as has_row_level_security, reloptions,
  obj_description(tbl.oid, 'pg_class') as description
from pg_class as tbl inner join pg_namespace as namespace on namespace.oid = tbl.relnamespace
where ((tbl.relkind = 'r' and tbl.relispartition = 'f') or tbl.relkind = 'p') and namespace.nspname = any (array['shop']) order by namespace, table_name;
-- rows
select constr.conname as constraint_name, constr.contype as constraint_type, pg_get_constraintdef(constr.oid) as constraint_definition, constr.condeferrable as is_deferrable
from pg_constraint constr join pg_class as tableinfo on tableinfo.oid = constr.conrelid join pg_namespace as schemainfo on schemainfo.oid = tableinfo.relnamespace
where schemainfo.nspname = any (array['shop']) and contype not in ('p', 'u', 'f') order by 1;
-- rows
select info.table_name, info.column_name, format_type(att.atttypid, att.atttypmod) as formatted_type, info.numeric_precision, info.numeric_scale, info.numeric_precision_radix, info.datetime_precision, info.data_type,
  info.udt_schema as type_schema_name, info.udt_name as full_data_type, pg_get_expr(attdef.adbin, attdef.adrelid) as column_default, info.is_nullable, info.is_identity, info.character_maximum_length,
  description.description
from information_schema.columns info
  join pg_attribute att on att.attname = info.column_name and att.attrelid = (quote_ident(info.table_schema) || '.' || quote_ident(info.table_name))::regclass
  left outer join pg_attrdef attdef on attdef.adrelid = att.attrelid and attdef.adnum = att.attnum
  left outer join pg_description description on description.objoid = att.attrelid and description.objsubid = ordinal_position
where info.table_schema = any (array['shop']) order by info.table_name, ordinal_position;
-- rows
with rawindex as (select indrelid, indexrelid, indisunique, indisprimary, unnest(indkey) as indkeyid, generate_subscripts(indkey, 1) as indkeyidx, unnest(indclass) as indclass, unnest(indoption) as indoption
  from pg_index where indpred is null and not indisexclusion)
select schemainfo.nspname as namespace, indexinfo.relname as index_name, tableinfo.relname as table_name, columninfo.attname as column_name, rawindex.indisunique as is_unique, rawindex.indisprimary as is_primary_key,
  rawindex.indkeyidx as column_index, opclass.opcname as opclass, opclass.opcdefault as opcdefault, indexaccess.amname as index_algo,
  case rawindex.indoption & 1 when 1 then 'DESC' else 'ASC' end as column_order, pc.condeferrable as condeferrable
from rawindex inner join pg_class as tableinfo on tableinfo.oid = rawindex.indrelid inner join pg_class as indexinfo on indexinfo.oid = rawindex.indexrelid
  inner join pg_namespace as schemainfo on schemainfo.oid = tableinfo.relnamespace left join pg_attribute as columninfo on columninfo.attrelid = tableinfo.oid and columninfo.attnum = rawindex.indkeyid
  inner join pg_am as indexaccess on indexaccess.oid = indexinfo.relam left join pg_opclass as opclass on opclass.oid = rawindex.indclass left join pg_constraint pc on rawindex.indexrelid = pc.conindid and pc.contype <> 'f'
where schemainfo.nspname = any (array['shop']) order by namespace, table_name, index_name, column_index;
-- rows
select con.conname as constraint_name, con.conrelid::regclass, con.confrelid::regclass, con.confdeltype, con.confupdtype, child.attname as child_column, parent.attname as parent_column, con.condeferrable
from (select con1.*, generate_subscripts(con1.conkey, 1) as colidx from pg_constraint con1 where con1.contype = 'f') con join pg_attribute parent on parent.attrelid = con.confrelid and parent.attnum = con.confkey[con.colidx]
  join pg_attribute child on child.attrelid = con.conrelid and child.attnum = con.conkey[con.colidx] order by 1, con.colidx;
-- rows
select t.typname as name, e.enumlabel as value, n.nspname as namespace, obj_description(t.oid, 'pg_type') as description
from pg_type t join pg_enum e on t.oid = e.enumtypid join pg_catalog.pg_namespace n on n.oid = t.typnamespace where n.nspname = any (array['shop']) order by e.enumsortorder;
-- rows
select sequence_name, sequence_schema as namespace, start_value::int8, minimum_value, maximum_value, increment, cycle_option::text from information_schema.sequences where sequence_schema = any (array['shop']) order by 1;
-- rows
select views.viewname as view_name, views.definition is not null as has_sql, views.schemaname as namespace, obj_description(class.oid, 'pg_class') as description
from pg_catalog.pg_views views inner join pg_catalog.pg_namespace ns on views.schemaname = ns.nspname inner join pg_catalog.pg_class class on class.relnamespace = ns.oid and class.relname = views.viewname
where schemaname = any (array['shop']);
select ext.extname as extension_name, ext.extversion as extension_version, ext.extrelocatable as extension_relocatable, pn.nspname as extension_schema
from pg_extension ext inner join pg_namespace pn on ext.extnamespace = pn.oid order by ext.extname;
select p.proname as name, n.nspname as namespace, pg_get_functiondef(p.oid) as definition from pg_proc p join pg_namespace n on p.pronamespace = n.oid where n.nspname = any (array['shop']) and p.prokind = 'p';
select pg_advisory_lock(72707369), pg_advisory_unlock(72707369);
-- TypeORM: before it synchronizes, and its introspection of a table.
select * from current_schema();
select * from current_database();
show server_version;
-- rows
select table_schema, table_name, obj_description(('"' || table_schema || '"."' || table_name || '"')::regclass, 'pg_class') as table_comment from information_schema.tables where table_schema = 'shop' order by 2;
-- rows
select columns.*, pg_catalog.col_description(('"' || table_catalog || '"."' || table_schema || '"."' || table_name || '"')::regclass::oid, ordinal_position) as description,
  ('"' || udt_schema || '"."' || udt_name || '"')::regtype::text as "regtype", pg_catalog.format_type(col_attr.atttypid, col_attr.atttypmod) as format_type
from information_schema.columns left join pg_catalog.pg_attribute as col_attr on col_attr.attname = columns.column_name
  and col_attr.attrelid = (select cls.oid from pg_catalog.pg_class as cls left join pg_catalog.pg_namespace as ns on ns.oid = cls.relnamespace where cls.relname = columns.table_name and ns.nspname = columns.table_schema)
where table_schema = 'shop' and table_name = 'sale' order by ordinal_position;
-- rows
select ns.nspname as table_schema, t.relname as table_name, cnst.conname as constraint_name, pg_get_constraintdef(cnst.oid) as expression,
  case cnst.contype when 'p' then 'PRIMARY' when 'u' then 'UNIQUE' when 'c' then 'CHECK' when 'x' then 'EXCLUDE' end as constraint_type, a.attname as column_name
from pg_constraint cnst inner join pg_class t on t.oid = cnst.conrelid inner join pg_namespace ns on ns.oid = cnst.connamespace left join pg_attribute a on a.attrelid = cnst.conrelid and a.attnum = any (cnst.conkey)
where t.relkind in ('r', 'p') and ns.nspname = 'shop' and cnst.contype in ('p', 'u', 'c') order by 3, 6;
-- rows
select ns.nspname as table_schema, t.relname as table_name, i.relname as constraint_name, a.attname as column_name, case ix.indisunique when 't' then 'TRUE' else 'FALSE' end as is_unique,
  pg_get_expr(ix.indpred, ix.indrelid) as condition, types.typname as type_name, am.amname as index_type
from pg_class t inner join pg_index ix on ix.indrelid = t.oid inner join pg_attribute a on a.attrelid = t.oid and a.attnum = any (ix.indkey) inner join pg_namespace ns on ns.oid = t.relnamespace
  inner join pg_class i on i.oid = ix.indexrelid inner join pg_type types on types.oid = a.atttypid inner join pg_am am on i.relam = am.oid left join pg_constraint cnst on cnst.conname = i.relname
where t.relkind in ('r', 'p') and cnst.contype is null and ns.nspname = 'shop' order by 3, 4;
-- rows
select con.conname as constraint_name, con.nspname as table_schema, con.relname as table_name, att2.attname as column_name, ns.nspname as referenced_table_schema, cl.relname as referenced_table_name,
  att.attname as referenced_column_name, con.confdeltype as on_delete, con.confupdtype as on_update, con.condeferrable as deferrable, con.condeferred as deferred
from (select unnest(con1.conkey) as parent, unnest(con1.confkey) as child, con1.confrelid, con1.conrelid, con1.conname, con1.contype, ns.nspname, cl.relname, con1.condeferrable,
    case when con1.condeferred then 'INITIALLY DEFERRED' else 'INITIALLY IMMEDIATE' end as condeferred,
    case con1.confdeltype when 'a' then 'NO ACTION' when 'r' then 'RESTRICT' when 'c' then 'CASCADE' when 'n' then 'SET NULL' when 'd' then 'SET DEFAULT' end as confdeltype,
    case con1.confupdtype when 'a' then 'NO ACTION' when 'r' then 'RESTRICT' when 'c' then 'CASCADE' when 'n' then 'SET NULL' when 'd' then 'SET DEFAULT' end as confupdtype
  from pg_class cl inner join pg_namespace ns on cl.relnamespace = ns.oid inner join pg_constraint con1 on con1.conrelid = cl.oid where con1.contype = 'f' and ns.nspname = 'shop') con
  inner join pg_attribute att on att.attrelid = con.confrelid and att.attnum = con.child inner join pg_class cl on cl.oid = con.confrelid and cl.relkind in ('r', 'p')
  inner join pg_namespace ns on cl.relnamespace = ns.oid inner join pg_attribute att2 on att2.attrelid = con.conrelid and att2.attnum = con.parent;
-- rows
select "udt_schema", "udt_name" from information_schema.columns where table_schema = 'shop' and table_name = 'sale' and column_name = 'state';
