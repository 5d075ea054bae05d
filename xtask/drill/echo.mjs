// A small MCP server that says back what it is called with, and what its caller gave for it. Over HTTP it writes its address on a
// line; with `--stdio` it serves its parent. It appends the text of each call to the file `EXECUTED`, if there is one, before it answers.

import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

const object = (/** @type {string[]} */ required) => ({
  type: "object",
  properties: { text: { type: "string" }, pause: { type: "integer" } },
  required,
});

const tool = (/** @type {string} */ name, /** @type {string} */ description) => ({
  name,
  description,
  inputSchema: object(["text"]),
  annotations: { readOnlyHint: true },
});

/** What is answered to a message. `own` is what a header or a variable holds for the caller. */
async function answer({ method, params }, own) {
  switch (method) {
    case "initialize":
      return {
        protocolVersion: params.protocolVersion,
        capabilities: { tools: {}, prompts: {} },
        serverInfo: { name: "echo", version: "1" },
      };
    case "ping":
      return {};
    case "tools/list":
      return {
        tools: [
          tool("echo", "Says it back."),
          tool("asked", "Does so after a question."),
          tool("barred", "Does so where no rule forbids it."),
        ],
      };
    case "prompts/list":
      return { prompts: [{ name: "say", arguments: [{ name: "text", required: true }] }] };
    case "prompts/get":
      return { messages: [{ role: "user", content: { type: "text", text: `${params.arguments.text} ${own}` } }] };
    case "tools/call": {
      const { text, pause } = params.arguments;
      if (process.env.EXECUTED) appendFileSync(process.env.EXECUTED, `${text}\n`);
      if (pause) await new Promise((over) => setTimeout(over, pause));
      // A result has a word of its own, which is made of the argument.
      return { content: [{ type: "text", text: `${text} ${text.replace("arg-", "res-")} ${own}` }] };
    }
    default:
      return undefined;
  }
}

async function answered(message, own) {
  if (message.id === undefined) return null;
  const result = await answer(message, own);
  const error = { code: -32601, message: "no such method" };
  return { jsonrpc: "2.0", id: message.id, ...(result ? { result } : { error }) };
}

if (process.argv.includes("--stdio")) {
  createInterface({ input: process.stdin }).on("line", async (line) => {
    const message = await answered(JSON.parse(line), process.env.OWN ?? "");
    if (message) process.stdout.write(`${JSON.stringify(message)}\n`);
  });
} else {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    if (request.method !== "POST") return response.writeHead(405).end();
    const message = await answered(JSON.parse(body), request.headers["x-own"] ?? "");
    response.writeHead(message ? 200 : 202, { "content-type": "application/json" });
    response.end(message ? JSON.stringify(message) : undefined);
  });
  server.keepAliveTimeout = 600_000;
  server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
  process.stdin.resume();
  process.stdin.on("end", () => process.exit(0));
}
