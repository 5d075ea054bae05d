// The client of the official TypeScript SDK 1.x, which speaks the eras before 2026-07-28. `measure.mjs` says how it is called.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { LIMITS, measure } from './measure.mjs';

await measure(async ({ command, args, url }) => {
  const transport = command
    ? new StdioClientTransport({ command, args, maxBufferSize: LIMITS.buffer })
    : new StreamableHTTPClientTransport(new URL(url));
  const client = new Client({ name: 'bench', version: '1.0.0' });
  await client.connect(transport);
  return {
    call: (name, args, onprogress) =>
      client.callTool({ name, arguments: args }, undefined, { onprogress, timeout: LIMITS.timeout }),
    async tools() {
      const tools = [];
      let cursor;
      do {
        const page = await client.listTools({ cursor }, { timeout: LIMITS.timeout });
        tools.push(...page.tools);
        cursor = page.nextCursor;
      } while (cursor !== undefined);
      return tools;
    },
    close: () => client.close(),
  };
});
