// Requests to an application: the name of each and what came of it, a line each, for a comparison with another server's.
const plain = (_, value) => (typeof value === 'bigint' ? String(value) : value);

export async function ask(name, request) {
  try {
    console.log(`${name}\t${JSON.stringify(await request(), plain)}`);
  } catch (error) {
    console.log(`${name}\tfailed: ${`${error.name}: ${error.message}`.replace(/\s+/g, ' ').slice(-400)}`);
  }
}
