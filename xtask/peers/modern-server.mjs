// A server of MCP 2026-07-28 and of nothing older, over stdio, on the official TypeScript SDK: what a modern server made
// with somebody else's code looks like from outside. Copied beside `node_modules` by `cargo xtask install`.

import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';

function newServer() {
  const server = new McpServer({ name: 'modern', version: '1.0.0' }, { capabilities: { tools: {}, resources: {}, prompts: {} } });

  server.registerTool(
    'add',
    {
      description: 'Adds two numbers.',
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      outputSchema: z.object({ sum: z.number() }),
      annotations: { readOnlyHint: true },
    },
    async ({ a, b }) => ({
      content: [{ type: 'text', text: `${a} + ${b} = ${a + b}` }],
      structuredContent: { sum: a + b },
    }),
  );

  server.registerTool(
    'fail',
    { description: 'Answers with a tool error.', inputSchema: z.object({}) },
    async () => ({ content: [{ type: 'text', text: 'this tool always fails' }], isError: true }),
  );

  server.registerTool(
    'wait',
    {
      description: 'Answers after so many milliseconds.',
      inputSchema: z.object({ milliseconds: z.number().int().min(0).max(60_000) }),
    },
    async ({ milliseconds }) => {
      await new Promise((resolve) => setTimeout(resolve, milliseconds));
      return { content: [{ type: 'text', text: `waited ${milliseconds} ms` }] };
    },
  );

  server.registerResource('greeting', 'test://greeting', { mimeType: 'text/plain' }, async (uri) => ({
    contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'hello' }],
  }));

  server.registerPrompt(
    'introduce',
    { description: 'A message that introduces somebody.', argsSchema: z.object({ name: z.string() }) },
    ({ name }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `My name is ${name}.` } }] }),
  );

  return server;
}

serveStdio(newServer, { legacy: 'reject', onerror: (error) => console.error(error.message) });
