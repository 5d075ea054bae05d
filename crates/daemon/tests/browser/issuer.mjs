// An issuer of access tokens (RFC 9068) that a team trusts, and what a forger makes of its tokens.

import { createHmac, generateKeyPairSync, randomUUID, sign } from "node:crypto";
import { createServer } from "node:http";

/** @param {string | Buffer} bytes */
export const base64url = (bytes) => Buffer.from(bytes).toString("base64url");

/** A key pair, and how it stands in a list of keys. @param {"RS256" | "ES256"} alg @param {object} [more] */
export function pair(alg, more = {}) {
  const { publicKey, privateKey } =
    alg === "RS256" ? generateKeyPairSync("rsa", { modulusLength: 2048 }) : generateKeyPairSync("ec", { namedCurve: "P-256" });
  const kid = randomUUID();
  return { kid, alg, publicKey, privateKey, jwk: { ...publicKey.export({ format: "jwk" }), kid, alg, use: "sig", ...more } };
}

/** A token of three parts that are as they are given. @param {string} head @param {string} said @param {(text: string) => string} seal */
export function written(head, said, seal) {
  const text = `${base64url(head)}.${base64url(said)}`;
  return `${text}.${seal(text)}`;
}

/** The signature of a key pair. @param {{privateKey: import("node:crypto").KeyObject}} by @param {"ieee-p1363" | "der"} [form] */
export const seal = (by, form = "ieee-p1363") => (/** @type {string} */ text) =>
  base64url(sign("sha256", Buffer.from(text), { key: by.privateKey, dsaEncoding: form }));

/** A signature with a secret. @param {string | Buffer} secret */
export const mac = (secret) => (/** @type {string} */ text) => createHmac("sha256", secret).update(text).digest("base64url");

export class Issuer {
  rsa = pair("RS256");
  ec = pair("ES256");
  /** Listed, but not for signatures. */
  enc = pair("RS256", { use: "enc", alg: "RSA-OAEP" });
  shared = "a secret that this issuer and its clients share";
  /** The paths that were asked for. @type {string[]} */
  asked = [];

  async up() {
    const keys = [
      this.rsa.jwk,
      this.ec.jwk,
      this.enc.jwk,
      { kty: "oct", kid: "shared", alg: "HS256", k: base64url(this.shared) },
    ];
    this.server = createServer((request, response) => {
      this.asked.push(String(request.url));
      const pages = {
        "/.well-known/oauth-authorization-server": { issuer: this.url, jwks_uri: `${this.url}/keys` },
        "/keys": { keys },
      };
      const page = pages[String(request.url)];
      response.writeHead(page ? 200 : 404, { "content-type": "application/json" });
      response.end(JSON.stringify(page ?? {}));
    });
    await new Promise((listens) => this.server.listen(0, "127.0.0.1", () => listens(undefined)));
    this.url = `http://127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (this.server.address()).port}`;
    return this;
  }

  /** What a right token for `audience` says. @param {string} audience @param {object} [more] */
  claims(audience, more = {}) {
    const now = Math.floor(Date.now() / 1000);
    return {
      iss: this.url,
      aud: audience,
      sub: "ann-of-the-issuer",
      email: "ann@acme.example",
      email_verified: true,
      client_id: "a-program",
      iat: now,
      exp: now + 600,
      jti: randomUUID(),
      ...more,
    };
  }

  /** A token with these claims, which this issuer signs. @param {object} claims @param {object} [head] @param {any} [by] */
  token(claims, head = {}, by = this.rsa) {
    return written(JSON.stringify({ alg: by.alg, typ: "at+jwt", kid: by.kid, ...head }), JSON.stringify(claims), seal(by));
  }

  down() {
    this.server?.closeAllConnections();
    this.server?.close();
  }
}
