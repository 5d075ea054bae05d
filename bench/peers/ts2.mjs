// The client of the official TypeScript SDK 2.x, which speaks all eras: the newest that the server has, or with the variable
// TOOLRACK_BENCH_ERA=legacy those before 2026-07-28. `measure.mjs` says how it is called.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { LIMITS, measure } from './measure.mjs';

const OPTIONS = { versionNegotiation: { mode: process.env.TOOLRACK_BENCH_ERA ?? 'auto' }, listMaxPages: LIMITS.pages };

await measure(async ({ command, args, url }) => {
  const transport = command
    ? new StdioClientTransport({ command, args, maxBufferSize: LIMITS.buffer })
    : new StreamableHTTPClientTransport(new URL(url));
  const client = new Client({ name: 'bench', version: '1.0.0' }, OPTIONS);
  await client.connect(transport);
  return {
    call: (name, args, onprogress) => client.callTool({ name, arguments: args }, { onprogress, timeout: LIMITS.timeout }),
    tools: async () => (await client.listTools(undefined, { timeout: LIMITS.timeout })).tools,
    close: () => client.close(),
  };
});
