-- What the tools find: made on both servers in front of their queries.
create role reader;
create schema shop;
comment on schema shop is 'what is sold';
create type shop.state as enum ('open', 'paid', 'sent');
create domain shop.code as varchar(8) check (value ~ '^[A-Z]+$');
create table shop.customer (id serial primary key, name varchar(40) not null, email text unique, born date, tags text[] default '{}', since timestamptz default now());
create table shop.sale (id bigint generated always as identity primary key, customer int not null references shop.customer (id) on delete cascade, at timestamp(3),
  state shop.state default 'open', code shop.code, total numeric(10, 2) check (total >= 0), twice numeric generated always as (total * 2) stored, extra jsonb,
  unique (customer, at));
create index sale_state on shop.sale (state desc, lower(code)) where total > 10;
create view shop.open_sales as select s.id, c.name, s.total from shop.sale s join shop.customer c on c.id = s.customer where s.state = 'open';
create sequence shop.numbers start 100 increment 5 maxvalue 10000 cycle;
comment on table shop.sale is 'one for each sale';
comment on column shop.sale.total is 'with taxes';
grant select on shop.customer to reader;
grant select, insert on shop.sale to reader;
insert into shop.customer (name, email) values ('Ann', 'ann@example.com'), ('Bob', 'bob@example.com');
insert into shop.sale (customer, at, total, code) values (1, '2024-01-01', 12.5, 'AB'), (2, '2024-01-02', 3, 'CD');
