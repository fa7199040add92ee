// Requests of Umami's by Prisma: what it keeps, and figures of visits by queries of the kind that its pages send.
import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from '@prisma/client';
import { ask } from './asked.mjs';

const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env.DATABASE_URL }) });
const id = (kind, number) => `00000000-0000-4000-8${kind.toString().padStart(3, '0')}-${number.toString().padStart(12, '0')}`;
const site = id(1, 1);
const owner = id(2, 1);

await ask('users', async () => {
  await prisma.user.createMany({ data: [1, 2, 3].map(n => ({ id: id(2, n), username: `user${n}`, password: 'x', role: 'user' })) });
  const changed = await prisma.user.update({ where: { username: 'user2' }, data: { role: 'admin' }, select: { role: true } });
  const twice = await prisma.user.create({ data: { id: id(2, 9), username: 'user1', password: 'x', role: 'user' } }).catch(error => error.code);
  return [changed, twice, await prisma.user.findMany({ orderBy: { username: 'asc' }, select: { username: true, role: true } })];
});

await ask('teams', async () => {
  const team = await prisma.team.create({
    data: { id: id(3, 1), name: 'team', teamUser: { create: [{ id: id(4, 1), userId: owner, role: 'owner' }, { id: id(4, 2), userId: id(2, 2), role: 'member' }] } },
    select: { name: true, teamUser: { select: { role: true, user: { select: { username: true } } }, orderBy: { role: 'asc' } } },
  });
  await prisma.website.create({ data: { id: site, name: 'site', domain: 'example.com', userId: owner, teamId: id(3, 1) } });
  return [team, await prisma.website.findMany({ where: { OR: [{ userId: owner }, { team: { teamUser: { some: { userId: owner } } } }] }, select: { name: true } })];
});

await ask('visits', async () => {
  const start = Date.UTC(2024, 0, 1);
  await prisma.session.createMany({ data: Array.from({ length: 30 }, (_, n) => ({
    id: id(5, n), websiteId: site, browser: ['chrome', 'firefox'][n % 2], country: ['FR', 'DE', 'IT'][n % 3], createdAt: new Date(start + n * 3_600_000) })) });
  await prisma.websiteEvent.createMany({ data: Array.from({ length: 200 }, (_, n) => ({
    id: id(6, n), websiteId: site, sessionId: id(5, n % 30), urlPath: `/${n % 7}`, eventType: n % 10 ? 1 : 2, eventName: n % 10 ? null : 'click',
    referrerDomain: n % 4 ? null : 'elsewhere', createdAt: new Date(start + n * 1_700_000) })) });
  await prisma.eventData.createMany({ data: Array.from({ length: 20 }, (_, n) => ({
    id: id(7, n), websiteId: site, websiteEventId: id(6, n * 10), eventKey: 'price', numberValue: n * 1.25, dataType: 2 })) });
  return [await prisma.websiteEvent.count(), await prisma.websiteEvent.groupBy({ by: ['urlPath'], _count: true, orderBy: { _count: { urlPath: 'desc' } }, take: 3 })];
});

await ask('figures', () => prisma.$queryRawUnsafe(
  `select sum(t.c) as pageviews, count(distinct t.session_id) as uniques, sum(case when t.c = 1 then 1 else 0 end) as bounces,
     sum(case when t.last < t.first + interval '1 hour' then floor(extract(epoch from (t.last - t.first))) else 0 end) as totaltime
   from (select e.session_id, to_char(date_trunc('hour', e.created_at), 'YYYY-MM-DD HH24:00:00'), count(*) as c, min(e.created_at) as first, max(e.created_at) as last
         from website_event e join website w on e.website_id = w.website_id
         where w.website_id = $1::uuid and e.created_at between $2 and $3 and event_type = $4 group by 1, 2) t`, site, new Date(0), new Date(2e12), 1));

await ask('days', () => prisma.$queryRawUnsafe(
  `select to_char(date_trunc('day', e.created_at at time zone 'Europe/Paris'), 'YYYY-MM-DD') x, count(*) y, s.country from website_event e
     join session s on s.session_id = e.session_id where e.website_id = $1::uuid group by 1, 3 order by 1, 3`, site));

await ask('funnel', () => prisma.$queryRawUnsafe(
  `with level1 as (select distinct session_id, created_at from website_event where website_id = $1::uuid and url_path = $2),
     level2 as (select distinct e.session_id, e.created_at from level1 l join website_event e on l.session_id = e.session_id
       where e.created_at between l.created_at and l.created_at + interval '3000 minute' and e.url_path = $3)
   select 1 as level, count(distinct session_id) from level1 union select 2, count(distinct session_id) from level2 order by level`, site, '/1', '/3'));

await ask('data', () => prisma.$queryRawUnsafe(
  `select event_key, data_type, sum(number_value) total, count(*) n, min(number_value)::float8 least from event_data where website_id = $1::uuid group by 1, 2`, site));

await ask('removed', async () => {
  const counts = await prisma.$transaction([
    prisma.eventData.deleteMany({ where: { websiteId: site } }), prisma.websiteEvent.deleteMany({ where: { websiteId: site, eventType: 2 } }),
    prisma.session.deleteMany({ where: { country: 'IT' } }), prisma.website.delete({ where: { id: site }, select: { name: true } })]);
  return [counts, await prisma.session.count()];
});

await prisma.$disconnect();
