// A server of MCP 2025-11-25 over Streamable HTTP that sends its client polling (SEP-1699), on the official TypeScript SDK:
// each stream of events begins with an id and the time to wait, `test_reconnection` closes its own before it answers, and
// the answer is had with `Last-Event-ID`. Copied beside `node_modules` by `cargo xtask install`.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

const WAIT = 700;
const sessions = new Map();

/** Events in the order in which they came, each of one stream. */
function newEventStore() {
  const events = [];
  return {
    async storeEvent(streamId, message) {
      events.push({ id: `${streamId}/${events.length}`, streamId, message });
      return events.at(-1).id;
    },
    async getStreamIdForEventId(id) {
      return events.find((event) => event.id === id)?.streamId;
    },
    async replayEventsAfter(id, { send }) {
      const at = events.findIndex((event) => event.id === id);
      const { streamId } = events[at];
      const missed = events.slice(at + 1).filter((event) => event.streamId === streamId && event.message.jsonrpc);
      for (const event of missed) await send(event.id, event.message);
      return streamId;
    },
  };
}

function newServer() {
  const server = new McpServer({ name: 'polling', version: '1.0.0' });
  server.registerTool('test_reconnection', { description: 'Closes its stream, then answers.' }, async (extra) => {
    extra.closeSSEStream();
    await new Promise((resolve) => setTimeout(resolve, 100));
    return { content: [{ type: 'text', text: 'reconnected' }] };
  });
  return server;
}

async function newTransport() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    eventStore: newEventStore(),
    retryInterval: WAIT,
    onsessioninitialized: (id) => sessions.set(id, transport),
  });
  await newServer().connect(transport);
  return transport;
}

const http = createServer(async (request, response) => {
  const session = request.headers['mcp-session-id'];
  const transport = session ? sessions.get(session) : await newTransport();
  if (!transport) return response.writeHead(404).end();
  await transport.handleRequest(request, response);
});
http.listen(0, '127.0.0.1', () => console.log(`listening http://127.0.0.1:${http.address().port}/mcp`));
