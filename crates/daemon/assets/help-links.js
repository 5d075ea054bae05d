// Which part of the guide explains what. A test follows each link.

import { hashOf } from "./router.js";

/** By topic: the page, and the heading on it. */
export const HELP = {
  access: ["teams", "your-own-access"],
  approvals: ["policy", "approvals"],
  audit: ["policy", "the-audit-log"],
  chat: ["agents", "a-turn"],
  credentials: ["teams", "credentials-of-a-person"],
  configuration: ["servers", "where-configuration-lives"],
  overview: ["start"],
  people: ["teams", "administrators-of-a-tenant"],
  quotas: ["teams", "quotas"],
  quarantine: ["trust", "tools-stay-what-you-agreed-to"],
  "adding servers": ["servers", "dialects"],
  servers: ["servers"],
  "a server that does not work": ["troubleshooting"],
  sessions: ["agents", "chat"],
  tools: ["policy", "rules"],
  trust: ["trust", "a-projects-file-is-a-proposal"],
  "signing in": ["sign-in"],
  teams: ["teams"],
};

/** @typedef {keyof typeof HELP} Topic */

/** The place where something is explained. @param {Topic} topic */
export const helpAbout = (topic) => hashOf(["help", ...HELP[topic]]);
