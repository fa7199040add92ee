// n8n's database: its migrations by TypeORM, and what its repositories ask.
require('reflect-metadata');
const { Container } = require('@n8n/di');
const database = require('@n8n/db');

const plain = (_, value) => (typeof value === 'bigint' ? String(value) : value);

async function ask(name, request) {
  try {
    console.log(`${name}\t${JSON.stringify(await request(), plain)}`);
  } catch (error) {
    console.log(`${name}\tfailed: ${`${error.name}: ${error.message}`.replace(/\s+/g, ' ').slice(0, 400)}`);
  }
}

async function requests(source) {
  const repository = name => Container.get(database[`${name}Repository`]);
  let project;
  await ask('schema', async () => {
    const { upQueries } = await source.driver.createSchemaBuilder().log();
    return upQueries.map(one => one.query).sort();
  });
  await ask('scopes', async () => [await repository('Settings').count(), await repository('Role').find({ select: ['slug'], order: { slug: 'ASC' } })]);
  await ask('users', async () => {
    await repository('User').save([1, 2, 3].map(n => repository('User').create({ email: `User${n}@example.com`, firstName: `u${n}`, password: 'x', role: { slug: 'global:member' } })));
    const twice = await repository('User').save(repository('User').create({ email: 'user1@example.com', role: { slug: 'global:member' } })).catch(error => error.driverError.code);
    return [twice, await repository('User').find({ select: ['email', 'firstName'], order: { email: 'ASC' } })];
  });
  await ask('projects', async () => {
    project = await repository('Project').save(repository('Project').create({ name: 'project', type: 'team' }));
    return [await repository('Project').find({ select: ['name', 'type'] })];
  });
  await ask('workflows', async () => {
    for (const n of [1, 2, 3]) {
      const made = await repository('Workflow').save(repository('Workflow').create({
        id: `w${n}`, name: `workflow ${n}`, active: n === 1, nodes: [{ name: 'start', parameters: { n } }], connections: {}, settings: { timezone: 'UTC' }, versionId: `v${n}` }));
      await repository('SharedWorkflow').save({ workflowId: made.id, projectId: project.id, role: 'workflow:owner' });
    }
    const tag = await repository('Tag').save(repository('Tag').create({ id: 't1', name: 'tag' }));
    await repository('Workflow').save({ id: 'w2', tags: [tag] });
    const found = await repository('Workflow').find({ where: { shared: { projectId: project.id } }, relations: ['tags', 'shared'], order: { name: 'ASC' } });
    return found.map(one => [one.name, one.active, one.nodes, one.tags.map(t => t.name), one.shared.length]);
  });
  await ask('executions', async () => {
    for (let n = 0; n < 20; n += 1) {
      const made = await source.getRepository('ExecutionEntity').save({
        workflowId: `w${1 + (n % 3)}`, finished: n % 4 > 0, mode: 'manual', status: n % 4 ? 'success' : 'error', createdAt: new Date(1.7e12), startedAt: new Date(1.7e12 + n * 60000), storedAt: 'db' });
      await source.getRepository('ExecutionData').save({ executionId: made.id, workflowData: { n }, data: '[]' });
    }
    const counts = await source.getRepository('ExecutionEntity').createQueryBuilder('e').select('e.status', 'status').addSelect('count(*)', 'n').groupBy('e.status').orderBy('1').getRawMany();
    const page = await source.getRepository('ExecutionEntity').find({ where: { status: 'error' }, relations: ['executionData'], order: { id: 'DESC' }, take: 2 });
    return [counts, page.map(one => [one.id, one.workflowId, one.executionData.workflowData])];
  });
  await ask('removed', async () => {
    await repository('Workflow').delete('w1');
    return [await source.getRepository('ExecutionEntity').count(), await repository('SharedWorkflow').count()];
  });
  await ask('back and again', async () => {
    const name = (await source.query('select name from migrations order by id desc limit 1'))[0].name;
    await source.undoLastMigration();
    const left = await source.showMigrations();
    await source.runMigrations();
    return [name, left, await source.showMigrations()];
  });
}

async function main() {
  const connection = Container.get(database.DbConnection);
  await connection.init();
  try {
    if (process.argv[2] === 'migrate') {
      await connection.migrate();
    } else {
      // Its migrations have to be known, those that are there already too.
      await connection.migrate();
      await requests(Container.get(database.DataSource));
    }
    process.exit(0);
  } catch (error) {
    console.log(`stopped\tfailed: ${error.message}: ${error.query ?? ''}`.replace(/[^\S\t]+/g, ' '));
    process.exit(1);
  }
}

main();
