-- ON CONFLICT over expressions
create table people (id int primary key, email text, nick text);
create unique index on people (lower(email));
create unique index on people (upper(nick), id);
create unique index on people (nick) where nick > 'm';
insert into people values (1, 'A@x', 'ann') on conflict (lower(email)) do nothing;
insert into people values (4, 'd@x', 'dan') on conflict (id, upper(nick)) do nothing returning id;
insert into people values (6, 'f@x', 'x') on conflict (upper(email)) do nothing;
insert into people values (6, 'f@x', 'x') on conflict (lower(email), id) do nothing;
insert into people values (6, 'f@x', 'x') on conflict (lower(nothing)) do nothing;
insert into people values (6, 'f@x', 'x') on conflict (nick) do nothing;
insert into people values (6, 'f@x', 'x') on conflict (nick) where nick > 'm' do nothing;
insert into people values (7, 'g@x', 'a7') on conflict (id) do update set nick = excluded.nick where people.id = 0;
