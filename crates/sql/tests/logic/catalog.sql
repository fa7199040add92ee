-- Statements of psql's backslash commands and of drivers, over a small schema.
create type mood as enum ('sad', 'ok', 'happy');
create domain positive as int default 1 check (value > 0);
create table parent (id serial primary key, code varchar(10) not null unique, name text default 'none', born date, price numeric(10,2) default 0, flag boolean default true, check (price >= 0));
create table child (id bigint generated always as identity primary key, parent_id int not null references parent (id) on delete cascade, kind char(4) default 'abcd', mood mood default 'ok', size positive, tags text[], made timestamp default now(), doubled int generated always as (parent_id * 2) stored, constraint child_kind_size unique (kind, size));
create index child_parent on child (parent_id desc, kind);
create index parent_lower on parent (lower(name)) where price > 10;
create view cheap as select id, name from parent where price < 5;
create sequence counter start 5 increment 2 maxvalue 100 cycle;

comment on table parent is 'the parents';
comment on column parent.code is 'their code';
comment on constraint child_kind_size on child is 'once';
-- \d
SELECT n.nspname as "Schema",   c.relname as "Name",   CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' WHEN 't' THEN 'TOAST table' WHEN 'f' THEN 'foreign table' WHEN 'p' THEN 'partitioned table' WHEN 'I' THEN 'partitioned index' END as "Type",   pg_catalog.pg_get_userbyid(c.relowner) as "Owner" FROM pg_catalog.pg_class c      LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace      LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam WHERE c.relkind IN ('r','p','v','m','S','f','')       AND n.nspname <> 'pg_catalog'       AND n.nspname !~ '^pg_toast'       AND n.nspname <> 'information_schema'   AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1,2;
-- \dt
SELECT n.nspname as "Schema",   c.relname as "Name",   CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' WHEN 't' THEN 'TOAST table' WHEN 'f' THEN 'foreign table' WHEN 'p' THEN 'partitioned table' WHEN 'I' THEN 'partitioned index' END as "Type",   pg_catalog.pg_get_userbyid(c.relowner) as "Owner" FROM pg_catalog.pg_class c      LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace      LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam WHERE c.relkind IN ('r','p','')       AND n.nspname <> 'pg_catalog'       AND n.nspname !~ '^pg_toast'       AND n.nspname <> 'information_schema'   AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1,2;
-- \d parent
SELECT n.nspname,   c.relname FROM pg_catalog.pg_class c      LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relname OPERATOR(pg_catalog.~) '^(parent)$' COLLATE pg_catalog.default   AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1, 2;
SELECT c.relchecks, c.relkind, c.relhasindex, c.relhasrules, c.relhastriggers, c.relrowsecurity, c.relforcerowsecurity, false AS relhasoids, c.relispartition, '', c.reltablespace, CASE WHEN c.reloftype = 0 THEN '' ELSE c.reloftype::pg_catalog.regtype::pg_catalog.text END, c.relpersistence, c.relreplident, am.amname FROM pg_catalog.pg_class c  LEFT JOIN pg_catalog.pg_class tc ON (c.reltoastrelid = tc.oid) LEFT JOIN pg_catalog.pg_am am ON (c.relam = am.oid) WHERE c.oid = 'parent'::regclass;
SELECT a.attname,   pg_catalog.format_type(a.atttypid, a.atttypmod),   (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true)    FROM pg_catalog.pg_attrdef d    WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef),   a.attnotnull,   (SELECT c.collname FROM pg_catalog.pg_collation c, pg_catalog.pg_type t    WHERE c.oid = a.attcollation AND t.oid = a.atttypid AND a.attcollation <> t.typcollation) AS attcollation,   a.attidentity,   a.attgenerated FROM pg_catalog.pg_attribute a WHERE a.attrelid = 'parent'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum;
SELECT c2.relname, i.indisprimary, i.indisunique, i.indisclustered, i.indisvalid, pg_catalog.pg_get_indexdef(i.indexrelid, 0, true),   pg_catalog.pg_get_constraintdef(con.oid, true), contype, condeferrable, condeferred, i.indisreplident, c2.reltablespace FROM pg_catalog.pg_class c, pg_catalog.pg_class c2, pg_catalog.pg_index i   LEFT JOIN pg_catalog.pg_constraint con ON (conrelid = i.indrelid AND conindid = i.indexrelid AND contype IN ('p','u','x')) WHERE c.oid = 'parent'::regclass AND c.oid = i.indrelid AND i.indexrelid = c2.oid ORDER BY i.indisprimary DESC, c2.relname;
SELECT r.conname, pg_catalog.pg_get_constraintdef(r.oid, true) FROM pg_catalog.pg_constraint r WHERE r.conrelid = 'parent'::regclass AND r.contype = 'c' ORDER BY 1;
SELECT true as sametable, conname,   pg_catalog.pg_get_constraintdef(r.oid, true) as condef,   conrelid::pg_catalog.regclass AS ontable FROM pg_catalog.pg_constraint r WHERE r.conrelid = 'parent'::regclass AND r.contype = 'f'      AND conparentid = 0 ORDER BY conname;
SELECT conname, conrelid::pg_catalog.regclass AS ontable,        pg_catalog.pg_get_constraintdef(oid, true) AS condef   FROM pg_catalog.pg_constraint c  WHERE confrelid IN (SELECT pg_catalog.pg_partition_ancestors('parent'::regclass)                      UNION ALL VALUES ('parent'::regclass::pg_catalog.regclass))        AND contype = 'f' AND conparentid = 0 ORDER BY conname;
SELECT pol.polname, pol.polpermissive,   CASE WHEN pol.polroles = '{0}' THEN NULL ELSE pg_catalog.array_to_string(array(select rolname from pg_catalog.pg_roles where oid = any (pol.polroles) order by 1),',') END,   pg_catalog.pg_get_expr(pol.polqual, pol.polrelid),   pg_catalog.pg_get_expr(pol.polwithcheck, pol.polrelid),   CASE pol.polcmd     WHEN 'r' THEN 'SELECT'     WHEN 'a' THEN 'INSERT'     WHEN 'w' THEN 'UPDATE'     WHEN 'd' THEN 'DELETE'     END AS cmd FROM pg_catalog.pg_policy pol WHERE pol.polrelid = 'parent'::regclass ORDER BY 1;
SELECT oid, stxrelid::pg_catalog.regclass, stxnamespace::pg_catalog.regnamespace::pg_catalog.text AS nsp, stxname, pg_catalog.pg_get_statisticsobjdef_columns(oid) AS columns,   'd' = any(stxkind) AS ndist_enabled,   'f' = any(stxkind) AS deps_enabled,   'm' = any(stxkind) AS mcv_enabled, stxstattarget FROM pg_catalog.pg_statistic_ext WHERE stxrelid = 'parent'::regclass ORDER BY nsp, stxname;
SELECT pubname      , NULL      , NULL FROM pg_catalog.pg_publication p      JOIN pg_catalog.pg_publication_namespace pn ON p.oid = pn.pnpubid      JOIN pg_catalog.pg_class pc ON pc.relnamespace = pn.pnnspid WHERE pc.oid ='parent'::regclass and pg_catalog.pg_relation_is_publishable('parent'::regclass) UNION SELECT pubname      , pg_get_expr(pr.prqual, c.oid)      , (CASE WHEN pr.prattrs IS NOT NULL THEN          (SELECT string_agg(attname, ', ')            FROM pg_catalog.generate_series(0, pg_catalog.array_upper(pr.prattrs::pg_catalog.int2[], 1)) s,                 pg_catalog.pg_attribute           WHERE attrelid = pr.prrelid AND attnum = prattrs[s])         ELSE NULL END) FROM pg_catalog.pg_publication p      JOIN pg_catalog.pg_publication_rel pr ON p.oid = pr.prpubid      JOIN pg_catalog.pg_class c ON c.oid = pr.prrelid WHERE pr.prrelid = 'parent'::regclass UNION SELECT pubname      , NULL      , NULL FROM pg_catalog.pg_publication p WHERE p.puballtables AND pg_catalog.pg_relation_is_publishable('parent'::regclass) ORDER BY 1;
SELECT t.tgname, pg_catalog.pg_get_triggerdef(t.oid, true), t.tgenabled, t.tgisinternal,   CASE WHEN t.tgparentid != 0 THEN     (SELECT u.tgrelid::pg_catalog.regclass      FROM pg_catalog.pg_trigger AS u,           pg_catalog.pg_partition_ancestors(t.tgrelid) WITH ORDINALITY AS a(relid, depth)      WHERE u.tgname = t.tgname AND u.tgrelid = a.relid            AND u.tgparentid = 0      ORDER BY a.depth LIMIT 1)   END AS parent FROM pg_catalog.pg_trigger t WHERE t.tgrelid = 'parent'::regclass AND (NOT t.tgisinternal OR (t.tgisinternal AND t.tgenabled = 'D')) ORDER BY 1;
SELECT c.oid::pg_catalog.regclass FROM pg_catalog.pg_class c, pg_catalog.pg_inherits i WHERE c.oid = i.inhparent AND i.inhrelid = 'parent'::regclass   AND c.relkind != 'p' AND c.relkind != 'I' ORDER BY inhseqno;
SELECT c.oid::pg_catalog.regclass, c.relkind, inhdetachpending, pg_catalog.pg_get_expr(c.relpartbound, c.oid) FROM pg_catalog.pg_class c, pg_catalog.pg_inherits i WHERE c.oid = i.inhrelid AND i.inhparent = 'parent'::regclass ORDER BY pg_catalog.pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT', c.oid::pg_catalog.regclass::pg_catalog.text;
-- \d+ child
SELECT n.nspname,   c.relname FROM pg_catalog.pg_class c      LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relname OPERATOR(pg_catalog.~) '^(child)$' COLLATE pg_catalog.default   AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1, 2;
SELECT c.relchecks, c.relkind, c.relhasindex, c.relhasrules, c.relhastriggers, c.relrowsecurity, c.relforcerowsecurity, false AS relhasoids, c.relispartition, pg_catalog.array_to_string(c.reloptions || array(select 'toast.' || x from pg_catalog.unnest(tc.reloptions) x), ', ') , c.reltablespace, CASE WHEN c.reloftype = 0 THEN '' ELSE c.reloftype::pg_catalog.regtype::pg_catalog.text END, c.relpersistence, c.relreplident, am.amname FROM pg_catalog.pg_class c  LEFT JOIN pg_catalog.pg_class tc ON (c.reltoastrelid = tc.oid) LEFT JOIN pg_catalog.pg_am am ON (c.relam = am.oid) WHERE c.oid = 'child'::regclass;
SELECT a.attname,   pg_catalog.format_type(a.atttypid, a.atttypmod),   (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true)    FROM pg_catalog.pg_attrdef d    WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef),   a.attnotnull,   (SELECT c.collname FROM pg_catalog.pg_collation c, pg_catalog.pg_type t    WHERE c.oid = a.attcollation AND t.oid = a.atttypid AND a.attcollation <> t.typcollation) AS attcollation,   a.attidentity,   a.attgenerated,   a.attstorage,   a.attcompression AS attcompression,   CASE WHEN a.attstattarget=-1 THEN NULL ELSE a.attstattarget END AS attstattarget,   pg_catalog.col_description(a.attrelid, a.attnum) FROM pg_catalog.pg_attribute a WHERE a.attrelid = 'child'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum;
SELECT c2.relname, i.indisprimary, i.indisunique, i.indisclustered, i.indisvalid, pg_catalog.pg_get_indexdef(i.indexrelid, 0, true),   pg_catalog.pg_get_constraintdef(con.oid, true), contype, condeferrable, condeferred, i.indisreplident, c2.reltablespace FROM pg_catalog.pg_class c, pg_catalog.pg_class c2, pg_catalog.pg_index i   LEFT JOIN pg_catalog.pg_constraint con ON (conrelid = i.indrelid AND conindid = i.indexrelid AND contype IN ('p','u','x')) WHERE c.oid = 'child'::regclass AND c.oid = i.indrelid AND i.indexrelid = c2.oid ORDER BY i.indisprimary DESC, c2.relname;
SELECT true as sametable, conname,   pg_catalog.pg_get_constraintdef(r.oid, true) as condef,   conrelid::pg_catalog.regclass AS ontable FROM pg_catalog.pg_constraint r WHERE r.conrelid = 'child'::regclass AND r.contype = 'f'      AND conparentid = 0 ORDER BY conname;
SELECT conname, conrelid::pg_catalog.regclass AS ontable,        pg_catalog.pg_get_constraintdef(oid, true) AS condef   FROM pg_catalog.pg_constraint c  WHERE confrelid IN (SELECT pg_catalog.pg_partition_ancestors('child'::regclass)                      UNION ALL VALUES ('child'::regclass::pg_catalog.regclass))        AND contype = 'f' AND conparentid = 0 ORDER BY conname;
SELECT pol.polname, pol.polpermissive,   CASE WHEN pol.polroles = '{0}' THEN NULL ELSE pg_catalog.array_to_string(array(select rolname from pg_catalog.pg_roles where oid = any (pol.polroles) order by 1),',') END,   pg_catalog.pg_get_expr(pol.polqual, pol.polrelid),   pg_catalog.pg_get_expr(pol.polwithcheck, pol.polrelid),   CASE pol.polcmd     WHEN 'r' THEN 'SELECT'     WHEN 'a' THEN 'INSERT'     WHEN 'w' THEN 'UPDATE'     WHEN 'd' THEN 'DELETE'     END AS cmd FROM pg_catalog.pg_policy pol WHERE pol.polrelid = 'child'::regclass ORDER BY 1;
SELECT oid, stxrelid::pg_catalog.regclass, stxnamespace::pg_catalog.regnamespace::pg_catalog.text AS nsp, stxname, pg_catalog.pg_get_statisticsobjdef_columns(oid) AS columns,   'd' = any(stxkind) AS ndist_enabled,   'f' = any(stxkind) AS deps_enabled,   'm' = any(stxkind) AS mcv_enabled, stxstattarget FROM pg_catalog.pg_statistic_ext WHERE stxrelid = 'child'::regclass ORDER BY nsp, stxname;
SELECT pubname      , NULL      , NULL FROM pg_catalog.pg_publication p      JOIN pg_catalog.pg_publication_namespace pn ON p.oid = pn.pnpubid      JOIN pg_catalog.pg_class pc ON pc.relnamespace = pn.pnnspid WHERE pc.oid ='child'::regclass and pg_catalog.pg_relation_is_publishable('child'::regclass) UNION SELECT pubname      , pg_get_expr(pr.prqual, c.oid)      , (CASE WHEN pr.prattrs IS NOT NULL THEN          (SELECT string_agg(attname, ', ')            FROM pg_catalog.generate_series(0, pg_catalog.array_upper(pr.prattrs::pg_catalog.int2[], 1)) s,                 pg_catalog.pg_attribute           WHERE attrelid = pr.prrelid AND attnum = prattrs[s])         ELSE NULL END) FROM pg_catalog.pg_publication p      JOIN pg_catalog.pg_publication_rel pr ON p.oid = pr.prpubid      JOIN pg_catalog.pg_class c ON c.oid = pr.prrelid WHERE pr.prrelid = 'child'::regclass UNION SELECT pubname      , NULL      , NULL FROM pg_catalog.pg_publication p WHERE p.puballtables AND pg_catalog.pg_relation_is_publishable('child'::regclass) ORDER BY 1;
SELECT t.tgname, pg_catalog.pg_get_triggerdef(t.oid, true), t.tgenabled, t.tgisinternal,   CASE WHEN t.tgparentid != 0 THEN     (SELECT u.tgrelid::pg_catalog.regclass      FROM pg_catalog.pg_trigger AS u,           pg_catalog.pg_partition_ancestors(t.tgrelid) WITH ORDINALITY AS a(relid, depth)      WHERE u.tgname = t.tgname AND u.tgrelid = a.relid            AND u.tgparentid = 0      ORDER BY a.depth LIMIT 1)   END AS parent FROM pg_catalog.pg_trigger t WHERE t.tgrelid = 'child'::regclass AND (NOT t.tgisinternal OR (t.tgisinternal AND t.tgenabled = 'D')) ORDER BY 1;
SELECT c.oid::pg_catalog.regclass FROM pg_catalog.pg_class c, pg_catalog.pg_inherits i WHERE c.oid = i.inhparent AND i.inhrelid = 'child'::regclass   AND c.relkind != 'p' AND c.relkind != 'I' ORDER BY inhseqno;
SELECT c.oid::pg_catalog.regclass, c.relkind, inhdetachpending, pg_catalog.pg_get_expr(c.relpartbound, c.oid) FROM pg_catalog.pg_class c, pg_catalog.pg_inherits i WHERE c.oid = i.inhrelid AND i.inhparent = 'child'::regclass ORDER BY pg_catalog.pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT', c.oid::pg_catalog.regclass::pg_catalog.text;
-- \di
SELECT n.nspname as "Schema",   c.relname as "Name",   CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' WHEN 't' THEN 'TOAST table' WHEN 'f' THEN 'foreign table' WHEN 'p' THEN 'partitioned table' WHEN 'I' THEN 'partitioned index' END as "Type",   pg_catalog.pg_get_userbyid(c.relowner) as "Owner",   c2.relname as "Table" FROM pg_catalog.pg_class c      LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace      LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam      LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid      LEFT JOIN pg_catalog.pg_class c2 ON i.indrelid = c2.oid WHERE c.relkind IN ('i','I','')       AND n.nspname <> 'pg_catalog'       AND n.nspname !~ '^pg_toast'       AND n.nspname <> 'information_schema'   AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1,2;
-- \dv
SELECT n.nspname as "Schema",   c.relname as "Name",   CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' WHEN 't' THEN 'TOAST table' WHEN 'f' THEN 'foreign table' WHEN 'p' THEN 'partitioned table' WHEN 'I' THEN 'partitioned index' END as "Type",   pg_catalog.pg_get_userbyid(c.relowner) as "Owner" FROM pg_catalog.pg_class c      LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('v','')       AND n.nspname <> 'pg_catalog'       AND n.nspname !~ '^pg_toast'       AND n.nspname <> 'information_schema'   AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1,2;
-- \ds
SELECT n.nspname as "Schema",   c.relname as "Name",   CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' WHEN 't' THEN 'TOAST table' WHEN 'f' THEN 'foreign table' WHEN 'p' THEN 'partitioned table' WHEN 'I' THEN 'partitioned index' END as "Type",   pg_catalog.pg_get_userbyid(c.relowner) as "Owner" FROM pg_catalog.pg_class c      LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('S','')       AND n.nspname <> 'pg_catalog'       AND n.nspname !~ '^pg_toast'       AND n.nspname <> 'information_schema'   AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1,2;
-- \dn
SELECT n.nspname AS "Name",   pg_catalog.pg_get_userbyid(n.nspowner) AS "Owner" FROM pg_catalog.pg_namespace n WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1;
-- \df
SELECT n.nspname as "Schema",   p.proname as "Name",   pg_catalog.pg_get_function_result(p.oid) as "Result data type",   pg_catalog.pg_get_function_arguments(p.oid) as "Argument data types",  CASE p.prokind   WHEN 'a' THEN 'agg'   WHEN 'w' THEN 'window'   WHEN 'p' THEN 'proc'   ELSE 'func'  END as "Type" FROM pg_catalog.pg_proc p      LEFT JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE pg_catalog.pg_function_is_visible(p.oid)       AND n.nspname <> 'pg_catalog'       AND n.nspname <> 'information_schema' ORDER BY 1, 2, 4;
-- \du
SELECT r.rolname, r.rolsuper, r.rolinherit,   r.rolcreaterole, r.rolcreatedb, r.rolcanlogin,   r.rolconnlimit, r.rolvaliduntil,   ARRAY(SELECT b.rolname         FROM pg_catalog.pg_auth_members m         JOIN pg_catalog.pg_roles b ON (m.roleid = b.oid)         WHERE m.member = r.oid) as memberof , r.rolreplication , r.rolbypassrls FROM pg_catalog.pg_roles r WHERE r.rolname !~ '^pg_' ORDER BY 1;
-- \dT
SELECT n.nspname as "Schema",   pg_catalog.format_type(t.oid, NULL) AS "Name",   pg_catalog.obj_description(t.oid, 'pg_type') as "Description" FROM pg_catalog.pg_type t      LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE (t.typrelid = 0 OR (SELECT c.relkind = 'c' FROM pg_catalog.pg_class c WHERE c.oid = t.typrelid))   AND NOT EXISTS(SELECT 1 FROM pg_catalog.pg_type el WHERE el.oid = t.typelem AND el.typarray = t.oid)       AND n.nspname <> 'pg_catalog'       AND n.nspname <> 'information_schema'   AND pg_catalog.pg_type_is_visible(t.oid) ORDER BY 1, 2;
-- \dp
SELECT n.nspname as "Schema",   c.relname as "Name",   CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'S' THEN 'sequence' WHEN 'f' THEN 'foreign table' WHEN 'p' THEN 'partitioned table' END as "Type",   pg_catalog.array_to_string(c.relacl, E'\n') AS "Access privileges",   pg_catalog.array_to_string(ARRAY(     SELECT attname || E':\n  ' || pg_catalog.array_to_string(attacl, E'\n  ')     FROM pg_catalog.pg_attribute a     WHERE attrelid = c.oid AND NOT attisdropped AND attacl IS NOT NULL   ), E'\n') AS "Column privileges",   pg_catalog.array_to_string(ARRAY(     SELECT polname     || CASE WHEN NOT polpermissive THEN        E' (RESTRICTIVE)'        ELSE '' END     || CASE WHEN polcmd != '*' THEN            E' (' || polcmd::pg_catalog.text || E'):'        ELSE E':'        END     || CASE WHEN polqual IS NOT NULL THEN            E'\n  (u): ' || pg_catalog.pg_get_expr(polqual, polrelid)        ELSE E''        END     || CASE WHEN polwithcheck IS NOT NULL THEN            E'\n  (c): ' || pg_catalog.pg_get_expr(polwithcheck, polrelid)        ELSE E''        END    || CASE WHEN polroles <> '{0}' THEN            E'\n  to: ' || pg_catalog.array_to_string(                ARRAY(                    SELECT rolname                    FROM pg_catalog.pg_roles                    WHERE oid = ANY (polroles)                    ORDER BY 1                ), E', ')        ELSE E''        END     FROM pg_catalog.pg_policy pol     WHERE polrelid = c.oid), E'\n')     AS "Policies" FROM pg_catalog.pg_class c      LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r','v','m','S','f','p')   AND n.nspname !~ '^pg_' AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1, 2;
-- \dm
SELECT n.nspname as "Schema",   c.relname as "Name",   CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' WHEN 't' THEN 'TOAST table' WHEN 'f' THEN 'foreign table' WHEN 'p' THEN 'partitioned table' WHEN 'I' THEN 'partitioned index' END as "Type",   pg_catalog.pg_get_userbyid(c.relowner) as "Owner" FROM pg_catalog.pg_class c      LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace      LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam WHERE c.relkind IN ('m','')       AND n.nspname <> 'pg_catalog'       AND n.nspname !~ '^pg_toast'       AND n.nspname <> 'information_schema'   AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1,2;
-- \db
SELECT spcname AS "Name",   pg_catalog.pg_get_userbyid(spcowner) AS "Owner",   pg_catalog.pg_tablespace_location(oid) AS "Location" FROM pg_catalog.pg_tablespace ORDER BY 1;
-- \drds
SELECT rolname AS "Role", datname AS "Database", pg_catalog.array_to_string(setconfig, E'\n') AS "Settings" FROM pg_catalog.pg_db_role_setting s LEFT JOIN pg_catalog.pg_database d ON d.oid = setdatabase LEFT JOIN pg_catalog.pg_roles r ON r.oid = setrole WHERE setdatabase = 0 ORDER BY 1, 2;
-- \timing on
-- drivers and tools
select version() like 'PostgreSQL 15%';
select current_schema(), current_schemas(true), current_schemas(false);
select pg_encoding_to_char(6), pg_is_in_recovery(), current_setting('server_encoding');
select set_config('application_name', 'me', false), current_setting('application_name');
select to_regclass('parent')::text, to_regclass('nothing') is null, to_regtype('integer')::text, to_regtype('nothing') is null;
select 'pg_class'::regclass::oid, 'pg_catalog.pg_type'::regclass::oid, 1259::regclass, 'pg_catalog'::regnamespace::oid;
select pg_get_serial_sequence('parent', 'id'), pg_get_serial_sequence('child', 'id'), pg_get_serial_sequence('child', 'kind');
select has_table_privilege('parent', 'select'), has_schema_privilege('public', 'usage'), has_table_privilege('postgres', 'parent', 'insert, update');
select oid, typname, typlen, typtype, typcategory, typelem, typarray, typdelim, typinput, typsend from pg_type where typname in ('int4', '_text', 'numeric', 'name', 'timestamptz', '_int4', 'oidvector') order by oid;
select t.typname, t.typtype, t.typcategory, t.typlen, a.typname from pg_type t join pg_type a on a.oid = t.typarray where t.typname in ('mood', 'positive') order by 1;
select e.enumlabel from pg_enum e join pg_type t on t.oid = e.enumtypid where t.typname = 'mood' order by e.enumsortorder;
select c.relname, c.relkind, c.relnatts, c.relchecks, c.relhasindex, c.relhastriggers, c.relpersistence from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'public' order by 1;
select attname, atttypid::regtype, attnum, attlen, atttypmod, attnotnull, atthasdef, attidentity, attgenerated, attndims, attbyval, attalign, attstorage from pg_attribute where attrelid = 'child'::regclass and attnum > 0 order by attnum;
select attname, format_type(atttypid, atttypmod), attnotnull from pg_attribute where attrelid = 'pg_class'::regclass and attnum > 0 order by attnum;
select conname, contype, conkey, confkey, confupdtype, confdeltype, confmatchtype, condeferrable, convalidated, conrelid::regclass, confrelid::regclass, pg_get_constraintdef(oid) from pg_constraint where conrelid in ('parent'::regclass, 'child'::regclass) order by 1;
select c.relname, i.indkey, i.indoption, i.indisunique, i.indisprimary, i.indnatts, i.indclass, i.indcollation, pg_get_expr(i.indpred, i.indrelid), pg_get_indexdef(c.oid), pg_get_indexdef(c.oid, 1, true) from pg_index i join pg_class c on c.oid = i.indexrelid where i.indrelid in ('parent'::regclass, 'child'::regclass) order by 1;
select adrelid::regclass, adnum, pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid in ('parent'::regclass, 'child'::regclass) order by 1, 2;
select * from pg_tables where schemaname = 'public' order by tablename;
select schemaname, tablename, indexname, indexdef from pg_indexes where schemaname = 'public' order by indexname;
select schemaname, sequencename, data_type, start_value, min_value, max_value, increment_by, cycle, cache_size from pg_sequences order by 2;
select rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolconnlimit, rolpassword from pg_roles where rolname !~ '^pg_';
select name, setting from pg_settings where name in ('standard_conforming_strings', 'server_encoding', 'max_identifier_length') order by name;
select count(*) from pg_timezone_names where name in ('UTC', 'Europe/Paris', 'America/New_York');
select amname, amtype from pg_am order by oid;
select count(*) from pg_get_keywords() where word in ('select', 'from', 'between') and catcode in ('R', 'C');
select proname, pronargs, prorettype::regtype, proargtypes, prokind, proisstrict, provolatile from pg_proc where oid in (870, 1299, 2147, 2803) order by proname, oid;
select oprname, oprleft::regtype, oprright::regtype, oprresult::regtype, oprcode from pg_operator where oid in (96, 98, 551) order by oid;
select pg_get_function_arguments(oid), pg_get_function_result(oid) from pg_proc where proname = 'lower' and prorettype = 25;
select table_name, table_type, is_insertable_into from information_schema.tables where table_schema = 'public' order by 1;
select table_catalog = current_database(), column_name, ordinal_position, column_default, is_nullable, data_type, character_maximum_length, character_octet_length, numeric_precision, numeric_precision_radix, numeric_scale, datetime_precision, udt_schema, udt_name, domain_name, dtd_identifier, is_identity, identity_generation, identity_start, identity_cycle, is_generated, generation_expression, is_updatable from information_schema.columns where table_schema = 'public' order by table_name, ordinal_position;
select constraint_name, table_name, constraint_type, is_deferrable, initially_deferred, enforced, nulls_distinct from information_schema.table_constraints where table_schema = 'public' and constraint_name not like '%not_null' order by 1;
select constraint_name, table_name, column_name, ordinal_position, position_in_unique_constraint from information_schema.key_column_usage where table_schema = 'public' order by 1, 4;
select constraint_name, table_name, column_name from information_schema.constraint_column_usage where table_schema = 'public' order by 1, 3;
select constraint_name, unique_constraint_name, match_option, update_rule, delete_rule from information_schema.referential_constraints;
select constraint_name, check_clause from information_schema.check_constraints where constraint_schema = 'public' and constraint_name not like '%not_null' order by 1;
select schema_name, schema_owner from information_schema.schemata where schema_name in ('public', 'pg_catalog', 'information_schema') order by 1;
select sequence_name, data_type, numeric_precision, start_value, minimum_value, maximum_value, increment, cycle_option from information_schema.sequences order by 1;
select table_name, check_option from information_schema.views where table_schema = 'public';
select domain_name, data_type, domain_default, udt_name from information_schema.domains where domain_schema = 'public';
select obj_description('parent'::regclass), obj_description('parent'::regclass, 'pg_class'), col_description('parent'::regclass, 2), col_description('parent'::regclass, 1);
select d.description, d.objsubid from pg_description d join pg_class c on c.oid = d.objoid and c.relname = 'parent' order by 2;
comment on column parent.nothing is 'x';
select pg_catalog.pg_class.relname from pg_catalog.pg_class join pg_catalog.pg_namespace on pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace where pg_class.relname = 'parent' and pg_catalog.pg_namespace.nspname = 'public';
select information_schema.tables.table_name from information_schema.tables where information_schema.tables.table_name = 'parent';
select pg_catalog.c.relname from pg_class c;
select pg_tables.tablename from pg_catalog.pg_tables where pg_catalog.pg_tables.tablename = 'parent';
select tableoid = 'pg_type'::regclass, typname from pg_type where oid = 23;
select tableoid::regclass from parent limit 1;
select tableoid from pg_class a, pg_class b limit 1;
set client_encoding = '''utf-8''';
show client_encoding;
set client_encoding = 'utf-9';
select relname from pg_class where oid = any(array['pg_type'::regclass::oid::int4]);
select relname from pg_class where oid in ('pg_type'::regclass::oid::int8, 1::int2);
select 1::oid < 2::int4, 1::int2 = 1::oid, 3::int2::oid, 3::int2 in (3::oid, 4::oid), 3::oid in (3::int2, 4::int4);
select oid = any('{23,25}'::int4[]), typname from pg_type where oid in (23::int2, 16::int2) order by 2;
select array[1, 2]::oid[], array[3::int2]::oid[] = array[3::oid], '{a,b}'::varchar[]::text[] = '{a,b}'::text[];
create table "odd$" ("a$" int primary key, name varchar(9), other text);
create table odder (ref int references "odd$", check (ref > 0));
create index odd_index on "odd$" ((other || name), lower(other), ("a$" + 1) desc, other);
select pg_get_constraintdef(oid), pg_get_constraintdef(oid, true) from pg_constraint where conrelid = 'odder'::regclass and contype = 'f';
select n, pg_get_indexdef('odd_index'::regclass, n, false), pg_get_indexdef('odd_index'::regclass, n, true) from generate_series(1, 4) n order by n;
select pg_get_indexdef('odd_index'::regclass), 'odd$'::text, quote_ident('odd$'), '"odd$"'::regclass;
drop table odder, "odd$";
select count(*) from pg_cast where oid >= 16384;

-- Words that stand for a function, with casts around them that are somebody else's.
create table words (a timestamptz(3) default current_timestamp, b timestamptz default current_timestamp(3), c date default current_timestamp, d timestamp(2) default current_timestamp(3),
  e time(2) default current_time, f date default current_timestamp::date, g timestamptz(2) default current_timestamp::timestamptz(2), h text default current_user::varchar(4),
  i varchar(28) default current_user, j char(7) default session_user, k varchar(9) default current_date, l text default current_catalog, m varchar(3) default current_schema);
select attname, pg_get_expr(adbin, adrelid) from pg_attrdef join pg_attribute on attrelid = adrelid and attnum = adnum where adrelid = 'words'::regclass order by adnum;
create view words_v as select current_user::varchar(4) as a, current_timestamp::date as b, current_timestamp::timestamptz(2) as c, current_timestamp(2) as d, current_date::timestamp as e;
select pg_get_viewdef('words_v');

-- What a new database has: a dump says nothing of it.
select nspname, nspacl, obj_description(oid, 'pg_namespace') from pg_namespace where nspname in ('pg_catalog', 'public') order by 1;
select objoid::regnamespace, classoid::regclass, objsubid, privtype, initprivs from pg_init_privs where objoid in (11, 2200) and classoid = 'pg_namespace'::regclass order by 1;

-- Constants of domains are shown as of the types that these are over.
create domain d1 text default 'NULL';
create domain d2 d1 check (value = any (array['a','foo']));
create domain d3 text[] default '{}';
create domain d4 d3 default '{a}';
create domain d5 text[];
create domain d6 d1 default 'x';
create domain d7 as date default current_date;
create domain d8 as d7 default '2020-01-01';
create domain d9 as d7 default current_date;
create domain e1 as text default current_user;
create domain e2 as e1 default current_user;
create domain e3 as bigint default 3;
create domain e4 as e3 default 4;
create domain e5 as interval(2) default '1 day';
create domain e6 as e5 default '1 day';
create domain e7 as d6;
create domain e8 as e4 default 5.5;
select typname, typdefault from pg_type where typname ~ '^[de][0-9]$' and typtype='d' order by 1;
create table of_domains(a d1 default 'a', b d2 default 'b', c d3 default '{c}', d d4 default '{d}', e d5 default null, f d6 default null, g d9 default '2020-02-02', h d9 default current_date, i e4 default 5, j e6 default '2 days', k e4 default '6', l d1[] default '{}', m d3[] default '{}', n e2 default 'a' || 'b', o d5 default array['a'], p e8 default null, q e4 default null::int, r d1 default null::text, s d5 default null::d5);
select attname, pg_get_expr(adbin, adrelid) from pg_attrdef join pg_attribute on attrelid=adrelid and attnum=adnum where adrelid='of_domains'::regclass order by adnum;
select column_name, column_default from information_schema.columns where table_name='of_domains' order by ordinal_position;
select domain_name, domain_default from information_schema.domains where domain_name ~ '^[de][0-9]$' order by 1;
create view domains_v as select 'a'::d1 as a, '{}'::d3 as b, null::d5 as c, 'x'::d2 as d, array['a']::d5 as e, 3::e4 as f, '3'::e4 as g;
select pg_get_viewdef('domains_v');
