-- Functions and operators by their texts.
select 'abs(int4)'::regprocedure, 'abs(int4)'::regprocedure::oid, 'now'::regproc, 1397::regproc, 1397::regprocedure;
select '+(int4, integer)'::regoperator, '-(none,int4)'::regoperator, '||/'::regoper, 551::regoper, 551::regoperator;
select 'pg_catalog.abs(int4)'::regprocedure, 'now()'::regprocedure, '0'::regoper, 99999::regprocedure, 99999::regoperator;
select 'abs'::regprocedure;
select 'abs(int4'::regprocedure;
select 'abs(text)'::regprocedure;
select 'nope(text)'::regprocedure;
select 'abs'::regproc;
select 'nope'::regoper;
select '-'::regoper;
select '+(int4)'::regoperator;
select '+(int4,int4,int4)'::regoperator;
select '*(text,text)'::regoperator;
