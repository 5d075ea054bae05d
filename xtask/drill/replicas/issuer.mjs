// An authorization server that allows everything at once and whose access tokens soon expire, and a server that wants such tokens and
// passes requests on to another one. It appends each renewal to the file `RENEWED`, and writes the address of the server on a line.

import { randomUUID } from "node:crypto";
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";

const [behind, lifetime] = [process.argv[2], Number(process.argv[3])];
/** When each access token expires. */
const tokens = new Map();
let origin = "";

/** Tokens of one sign-in. A refresh token says how many times the tokens were renewed before. */
function issue(family, number) {
  const token = randomUUID();
  tokens.set(token, performance.now() + lifetime * 1_000);
  return { access_token: token, token_type: "Bearer", expires_in: lifetime, refresh_token: `${family}.${number}` };
}

/** A client may renew again with a token that it has used: the drill counts that, and the client is not locked out. */
function renew(refreshToken) {
  const [family, number] = refreshToken.split(".");
  appendFileSync(String(process.env.RENEWED), `${family} ${number} ${Date.now()}\n`);
  return issue(family, Number(number) + 1);
}

const METADATA = {
  response_types_supported: ["code"],
  grant_types_supported: ["authorization_code", "refresh_token"],
  code_challenge_methods_supported: ["S256"],
  token_endpoint_auth_methods_supported: ["none"],
  scopes_supported: ["tools"],
};

/** What the pages of the authorization server say. */
function page(url, form) {
  switch (url.pathname) {
    case "/.well-known/oauth-protected-resource":
    case "/.well-known/oauth-protected-resource/mcp":
      return { resource: `${origin}/mcp`, authorization_servers: [origin], scopes_supported: ["tools"] };
    case "/.well-known/oauth-authorization-server":
      return {
        ...METADATA,
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        registration_endpoint: `${origin}/register`,
      };
    case "/register":
      return { ...form, client_id: randomUUID(), token_endpoint_auth_method: "none" };
    case "/token":
      return form.grant_type === "refresh_token" ? renew(form.refresh_token) : issue(randomUUID(), 0);
    default:
      return undefined;
  }
}

/** Passes a request with a token that counts on to the server behind. */
async function pass(request, body, response) {
  const token = request.headers.authorization?.split(" ")[1];
  if (!(tokens.get(token) > performance.now())) {
    const where = `${origin}/.well-known/oauth-protected-resource/mcp`;
    return response.writeHead(401, { "www-authenticate": `Bearer error="invalid_token", resource_metadata="${where}"` }).end();
  }
  const headers = { "content-type": "application/json", "x-own": request.headers["x-own"] ?? "" };
  const answer = await fetch(behind, { method: request.method, headers, ...(body && { body }) });
  response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "application/json" });
  response.end(await answer.text());
}

const formOf = (request, body) =>
  request.headers["content-type"]?.includes("json") ? JSON.parse(body) : Object.fromEntries(new URLSearchParams(body));

const server = createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  const url = new URL(String(request.url), origin);
  if (url.pathname === "/mcp") return pass(request, body, response);
  if (url.pathname === "/authorize") {
    const back = new URL(String(url.searchParams.get("redirect_uri")));
    back.searchParams.set("code", randomUUID());
    back.searchParams.set("state", String(url.searchParams.get("state")));
    back.searchParams.set("iss", origin);
    return response.writeHead(302, { location: back.href }).end();
  }
  const said = page(url, body ? formOf(request, body) : {});
  const status = said === undefined ? 404 : url.pathname === "/register" ? 201 : 200;
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" }).end(JSON.stringify(said ?? {}));
});
server.keepAliveTimeout = 600_000;
server.listen(0, "127.0.0.1", () => {
  origin = `http://127.0.0.1:${server.address().port}`;
  console.log(`${origin}/mcp`);
});
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
