// What a script finds beside the language. `ask` and `print` are ours; what this gives back settles what was asked.
(ask, print) => {
  "use strict";
  // Kept here, so that a script that replaces them confuses only itself.
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

  const asked = (kind, name, argument) =>
    new Promise((resolve, reject) => {
      const number = ++last;
      const refused = ask(number, kind, name.toWellFormed(), argument.toWellFormed());
      if (refused === undefined) waiting.set(number, { resolve, reject });
      else reject(new ToolError("TOO_MUCH", refused));
    });

  const call = async (name, given = {}, ...more) => {
    if (given === null || typeof given !== "object" || isArray(given) || more.length > 0) {
      throw new TypeError(`${name} takes one object with its arguments`);
    }
    return asked("call", name, stringify(given));
  };

  // `tools.server.tool({...})`, and `tools["any name"]({...})`.
  const named = (name) =>
    new Proxy(function () {}, {
      apply: (_, __, given) => call(name, ...given),
      get: (_, tool) => (typeof tool === "string" ? (...given) => call(`${name}/${tool}`, ...given) : undefined),
    });
  globalThis.tools = new Proxy({}, { get: (_, name) => (typeof name === "string" ? named(name) : undefined) });

  globalThis.search_tools = async (given, limit = 5) => {
    const { query, limit: most = limit } = typeof given === "object" && given !== null ? given : { query: given };
    return asked("search", String(query), String(most));
  };
  globalThis.get_tool_details = async (given) =>
    asked("details", String(typeof given === "object" && given !== null ? given.name : given), "");

  const plain = (_, value) => {
    if (typeof value === "bigint") return String(value);
    if (value instanceof Map) return Object.fromEntries(value);
    if (value instanceof Set) return [...value];
    return value;
  };
  const shown = (value) => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return String(value);
    return stringify(value, plain) ?? String(value);
  };
  globalThis.print = (...values) => print(values.map(shown).join(" ").toWellFormed());
  globalThis.console = {};
  for (const level of ["log", "info", "warn", "error", "debug"]) globalThis.console[level] = globalThis.print;

  // To look for a text in a text is one step, however long it takes. This is what the slowest search may compare, which takes
  // seconds; searches of texts that are no trap take far less than they might.
  const COMPARISONS = 1e10;
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
      [name](sought, ...more) {
        // Regular expressions look at the clock.
        const isElsewhere = symbol !== undefined && isObject(sought) && sought[symbol] != null;
        if (this == null || isElsewhere) return apply(search, this, [sought, ...more]);
        const text = textOf(this);
        const part = textOf(sought);
        if (typeof text === "string" && typeof part === "string") {
          const comparisons = (text.length - part.length + 1) * part.length;
          if (comparisons > COMPARISONS) throw new RangeError(`${name}: both texts are too long`);
        }
        return apply(search, text, [part, ...more]);
      },
    };
    Object.defineProperty(String.prototype, name, { value: bounded[name] });
  }

  return (number, code, said) => {
    const { resolve, reject } = waiting.get(number);
    waiting.delete(number);
    if (code === "") resolve(parse(said));
    else reject(new ToolError(code, said));
  };
}
