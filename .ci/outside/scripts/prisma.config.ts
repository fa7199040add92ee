import { PrismaPg } from '@prisma/adapter-pg';
import { defineConfig } from 'prisma/config';

export default defineConfig({
  experimental: { adapter: true },
  engine: 'js',
  schema: 'package/db/postgresql/schema.prisma',
  migrations: { path: 'package/db/postgresql/migrations' },
  adapter: async () => new PrismaPg({ connectionString: process.env.DATABASE_URL }),
});
