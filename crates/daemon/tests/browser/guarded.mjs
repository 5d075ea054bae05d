// An MCP server that refuses requests without a token, and the authorization server that gives one to a user who agrees.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";

/** @param {import("node:http").IncomingMessage} request */
async function bodyOf(request) {
  let body = "";
  for await (const piece of request) body += piece;
  return body;
}

/** What the MCP server answers to a message. @param {any} message */
function answerTo({ id, method }) {
  if (id === undefined) return null;
  const result = {
    initialize: {
      protocolVersion: "2025-11-25",
      capabilities: { tools: {} },
      serverInfo: { name: "guarded", version: "1" },
    },
    "tools/list": { tools: [{ name: "secret-tool", inputSchema: { type: "object" } }] },
  }[method];
  const error = { code: -32601, message: "no such method" };
  return { jsonrpc: "2.0", id, ...(result ? { result } : { error }) };
}

/** Starts it. Returns its address, and a function that ends it. */
export async function guarded() {
  const tokens = new Set();
  const codes = new Set();
  let issuer = "";
  const pages = {
    "/.well-known/oauth-protected-resource/mcp": () => ({ resource: `${issuer}/mcp`, authorization_servers: [issuer] }),
    "/.well-known/oauth-authorization-server": () => ({
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/token`,
      registration_endpoint: `${issuer}/register`,
      response_types_supported: ["code"],
      code_challenge_methods_supported: ["S256"],
      token_endpoint_auth_methods_supported: ["none"],
      authorization_response_iss_parameter_supported: true,
    }),
  };
  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? "/", issuer);
    const body = await bodyOf(request);
    const json = (status, value, headers = {}) => {
      response.writeHead(status, { "content-type": "application/json", ...headers });
      response.end(value === null ? undefined : JSON.stringify(value));
    };
    if (Object.hasOwn(pages, url.pathname)) return json(200, pages[url.pathname]());
    if (url.pathname === "/register") return json(201, { ...JSON.parse(body), client_id: "dashboard" });
    if (url.pathname === "/authorize") {
      const code = randomUUID();
      codes.add(code);
      const back = new URL(url.searchParams.get("redirect_uri") ?? "");
      for (const [name, value] of Object.entries({ code, state: url.searchParams.get("state") ?? "", iss: issuer })) {
        back.searchParams.set(name, value);
      }
      response.writeHead(200, { "content-type": "text/html" });
      const href = back.href.replaceAll("&", "&amp;");
      return response.end(`<!doctype html><title>Sign in</title><a href="${href}">Agree</a>`);
    }
    if (url.pathname === "/token") {
      if (!codes.delete(new URLSearchParams(body).get("code"))) return json(400, { error: "invalid_grant" });
      const token = randomUUID();
      tokens.add(token);
      return json(200, { access_token: token, token_type: "Bearer", expires_in: 3600 });
    }
    if (url.pathname !== "/mcp") return json(404, null);
    if (!tokens.has(request.headers.authorization?.replace("Bearer ", ""))) {
      const metadata = `${issuer}/.well-known/oauth-protected-resource/mcp`;
      return json(401, null, { "www-authenticate": `Bearer resource_metadata="${metadata}"` });
    }
    if (request.method !== "POST") return json(405, null);
    const answer = answerTo(JSON.parse(body));
    return json(answer ? 200 : 202, answer);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", () => listening(null)));
  const address = server.address();
  issuer = `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
  return {
    url: `${issuer}/mcp`,
    end() {
      server.closeAllConnections();
      server.close();
    },
  };
}
