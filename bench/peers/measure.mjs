// The rows of the benchmark, for clients in JavaScript. `ts1.mjs` and `ts2.mjs` say how their SDK connects; the rest is here,
// so that both do the same. Copied beside `node_modules` by `cargo xtask bench`, since Node looks for packages from there.
//
//   node ts1.mjs ROW COUNT -- COMMAND [ARGS…]      a server to start
//   node ts1.mjs ROW COUNT URL                     a server over Streamable HTTP
//
// Prints one line of JSON on standard output; everything else, the server's words too, goes to standard error.

import { readFileSync } from 'node:fs';

const IN_FLIGHT = 64;
const WARM_UP_ONE = 200;
const WARM_UP_MANY = 1_000;

// Far above what any row takes: a limit of the client must not decide a row.
export const LIMITS = { timeout: 600_000, buffer: 256 * 1024 * 1024, pages: 100_000 };

const ROWS = {
  'stdio-one': one,
  'stdio-64': many,
  'http-one': one,
  'http-64': many,
  list,
  big,
  events,
  servers,
};

// Runs the row that the command line names. `connect` is given `{ command, args }` or `{ url }` and resolves to a connection:
// `call(name, args, onprogress)` resolves to the SDK's result, `tools()` to all tools of all pages, `close()` ends it.
export async function measure(connect) {
  const [row, count, ...rest] = process.argv.slice(2);
  const target = rest[0] === '--' ? { command: rest[1], args: rest.slice(2) } : { url: rest[0] };
  const work = ROWS[row];
  if (!work || !(Number(count) > 0) || !(target.command ?? target.url)) {
    throw new Error('usage: ROW COUNT (-- COMMAND [ARGS…] | URL)');
  }
  try {
    const result = await work(() => connect(target), Number(count));
    // An HTTP client may keep idle connections for a while, which is none of our business: the line is out, so end.
    process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
  } catch (error) {
    console.error(error);
    console.error(`error: ${error.message}`); // in one line, the last, where the benchmark looks for it
    process.exit(1);
  }
}

async function one(connect, count) {
  const connection = await ready(connect);
  for (let n = 0; n < WARM_UP_ONE; n += 1) await echo(connection);
  const times = new Float64Array(count);
  const watch = new Watch();
  for (let n = 0; n < count; n += 1) {
    const started = performance.now();
    await echo(connection);
    times[n] = performance.now() - started;
  }
  const { ms, cpu } = watch.stop();
  const result = { p50_us: tenths(median(times) * 1_000), per_second: perSecond(count, ms), cpu_us: tenths(cpu / count) };
  return finished(result, [connection]);
}

async function many(connect, count) {
  const connection = await ready(connect);
  await inFlight(connection, WARM_UP_MANY);
  const watch = new Watch();
  await inFlight(connection, count);
  const { ms, cpu } = watch.stop();
  return finished({ per_second: perSecond(count, ms), cpu_us: tenths(cpu / count) }, [connection]);
}

// So many calls that each wait for the one before: always as many calls are under way, until none is left to begin.
async function inFlight(connection, count) {
  let left = count;
  const lane = async () => {
    while (left > 0) {
      left -= 1;
      await echo(connection);
    }
  };
  await Promise.all(Array.from({ length: Math.min(IN_FLIGHT, count) }, lane));
}

async function list(connect, count) {
  const connection = await connect();
  const watch = new Watch();
  const tools = await connection.tools();
  const { ms } = watch.stop();
  expect(tools.length >= count, `${tools.length} tools came, and not ${count}`);
  return finished({ ms: tenths(ms) }, [connection]);
}

async function big(connect, count) {
  const connection = await ready(connect);
  const watch = new Watch();
  const text = textOf(await connection.call('text', { bytes: count }));
  const { ms } = watch.stop();
  expect(Buffer.byteLength(text) === count, `${Buffer.byteLength(text)} bytes came, and not ${count}`);
  return finished({ ms: tenths(ms) }, [connection]);
}

async function events(connect, count) {
  const connection = await ready(connect);
  let came = 0;
  let highest = 0;
  let disordered = 0;
  const watch = new Watch();
  const result = await connection.call('progress', { steps: count }, ({ progress }) => {
    came += 1;
    if (progress > highest) highest = progress;
    else disordered += 1;
  });
  const { ms } = watch.stop();
  // What comes after the result is lost to whoever has gone on with it.
  const lost = count - came;
  textOf(result);
  return finished({ per_second: perSecond(came, ms), ms: tenths(ms), lost, disordered }, [connection]);
}

async function servers(connect, count) {
  const watch = new Watch();
  const start = async () => {
    const connection = await connect();
    await connection.tools();
    return connection;
  };
  const connections = await Promise.all(Array.from({ length: count }, start));
  const { ms } = watch.stop();
  return finished({ ms: tenths(ms) }, connections);
}

// A connection whose tools are known, as they are to whoever calls one: some clients ask for them in their first call.
async function ready(connect) {
  const connection = await connect();
  await connection.tools();
  return connection;
}

async function echo(connection) {
  const text = textOf(await connection.call('echo', { text: 'hello' }));
  expect(text === 'hello', `echo answered ${text}`);
}

function textOf({ content, isError }) {
  expect(!isError && content[0]?.type === 'text', 'the tool failed, or its result is not text');
  return content[0].text;
}

// Adds the memory while all connections still stand, then ends them.
async function finished(result, connections) {
  const memory = highWater();
  await Promise.all(connections.map((connection) => connection.close()));
  return memory === undefined ? result : { ...result, hwm_kb: memory };
}

// Wall time in milliseconds, and the processor time of all threads of this process in microseconds.
class Watch {
  #cpu = process.cpuUsage();
  #started = performance.now();

  stop() {
    const ms = performance.now() - this.#started;
    const { user, system } = process.cpuUsage(this.#cpu);
    return { ms, cpu: user + system };
  }
}

// The most memory that this process ever had, where the system is Linux and tells.
function highWater() {
  try {
    const line = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'));
    return line ? Number(line[1]) : undefined;
  } catch {
    return undefined;
  }
}

function median(times) {
  const sorted = times.toSorted();
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function perSecond(count, ms) {
  return tenths((count * 1_000) / ms);
}

function tenths(number) {
  return Math.round(number * 10) / 10;
}

function expect(holds, otherwise) {
  if (!holds) throw new Error(otherwise);
}
