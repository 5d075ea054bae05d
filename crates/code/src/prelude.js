// The globals of a script besides those of the language. `ask` and `print` are functions of the host. The function that
// this returns settles the promise of a request.
(ask, print) => {
  "use strict";
  // Copies: a script that replaces the originals affects only itself.
  const { parse, stringify } = JSON;
  const { isArray } = Array;
  const { apply } = Reflect;
  const waiting = new Map();
  let last = 0;

  class ToolError extends Error {
    constructor(code, message) {
      super(message);
      this.name = "ToolError";
      this.code = code;
    }
  }

  const request = (kind, name, argument) =>
    new Promise((resolve, reject) => {
      const number = ++last;
      const refusal = ask(number, kind, name.toWellFormed(), argument.toWellFormed());
      if (refusal === undefined) waiting.set(number, { resolve, reject });
      else reject(new ToolError("TOO_MUCH", refusal));
    });

  const call = async (name, given = {}, ...more) => {
    if (given === null || typeof given !== "object" || isArray(given) || more.length > 0) {
      throw new TypeError(`${name} takes one object with its arguments`);
    }
    return request("call", name, stringify(given));
  };

  // `then` is no tool: `await tools` and `await tools.server` would call it.
  const isTool = (name) => typeof name === "string" && name !== "then";
  // `tools.server.tool({...})`, and `tools["any name"]({...})`.
  const toolsOf = (name) =>
    new Proxy(function () {}, {
      apply: (_, __, given) => call(name, ...given),
      get: (_, tool) => (isTool(tool) ? (...given) => call(`${name}/${tool}`, ...given) : undefined),
    });
  globalThis.tools = new Proxy({}, { get: (_, name) => (isTool(name) ? toolsOf(name) : undefined) });

  globalThis.search_tools = async (given, limit = 5) => {
    const { query, limit: count = limit } = typeof given === "object" && given !== null ? given : { query: given };
    return request("search", String(query), String(count));
  };
  globalThis.get_tool_details = async (given) =>
    request("details", String(typeof given === "object" && given !== null ? given.name : given), "");

  const replacer = (_, value) => {
    if (typeof value === "bigint") return String(value);
    if (value instanceof Map) return Object.fromEntries(value);
    if (value instanceof Set) return [...value];
    return value;
  };
  const toText = (value) => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return String(value);
    return stringify(value, replacer) ?? String(value);
  };
  globalThis.print = (...values) => print(values.map(toText).join(" ").toWellFormed());
  globalThis.console = {};
  for (const level of ["log", "info", "warn", "error", "debug"]) globalThis.console[level] = globalThis.print;

  // Searching one text for another is a single step, which QuickJS cannot interrupt. A search is refused if it could need
  // more comparisons than this, which take seconds. Usual texts need far fewer comparisons than they could.
  const MAX_COMPARISONS = 1e10;
  const isObject = (value) => (typeof value === "object" && value !== null) || typeof value === "function";
  const textOf = (value) => (isObject(value) ? `${value}` : value);
  const searches = {
    indexOf: undefined,
    lastIndexOf: undefined,
    includes: Symbol.match,
    split: Symbol.split,
    replace: Symbol.replace,
    replaceAll: Symbol.replace,
  };
  for (const [name, symbol] of Object.entries(searches)) {
    const search = String.prototype[name];
    const bounded = {
      [name](wanted, ...more) {
        // QuickJS can interrupt regular expressions, so only searches for plain text are limited.
        const isDelegated = symbol !== undefined && isObject(wanted) && wanted[symbol] != null;
        if (this == null || isDelegated) return apply(search, this, [wanted, ...more]);
        const text = textOf(this);
        const part = textOf(wanted);
        if (typeof text === "string" && typeof part === "string") {
          const comparisons = (text.length - part.length + 1) * part.length;
          if (comparisons > MAX_COMPARISONS) throw new RangeError(`${name}: both texts are too long`);
        }
        return apply(search, text, [part, ...more]);
      },
    };
    Object.defineProperty(String.prototype, name, { value: bounded[name] });
  }

  return (number, code, text) => {
    const { resolve, reject } = waiting.get(number);
    waiting.delete(number);
    if (code === "") resolve(parse(text));
    else reject(new ToolError(code, text));
  };
}
