// The client of the official TypeScript SDK 2.x. Unless told otherwise it begins with the handshake of the eras before
// 2026-07-28; TOOLRACK_BENCH_ERA=auto lets it ask for the newest first, for which it starts an older server twice.
// `measure.mjs` says how it is called.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { LIMITS, measure } from './measure.mjs';

const OPTIONS = { versionNegotiation: { mode: process.env.TOOLRACK_BENCH_ERA ?? 'legacy' }, listMaxPages: LIMITS.pages };

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
