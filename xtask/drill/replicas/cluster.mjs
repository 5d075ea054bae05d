// A Postgres of the drill's own: in a temporary folder, on a socket there, without a network.

import { execFile, execFileSync, spawn } from "node:child_process";
import { chownSync, closeSync, existsSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { untilPrinted } from "../processes.mjs";

/** The user that runs Postgres where the drill runs as root: Postgres refuses to run as root. */
const UNPRIVILEGED = 65534;
const isRoot = process.getuid?.() === 0;
const asUnprivileged = isRoot ? ["--reuid", `${UNPRIVILEGED}`, "--regid", `${UNPRIVILEGED}`, "--clear-groups"] : [];

const CREATE_ROLE_AND_DATABASE = `CREATE ROLE toolrack LOGIN NOSUPERUSER NOBYPASSRLS
CREATE DATABASE toolrack OWNER toolrack
`;
const SETTINGS = {
  listen_addresses: "",
  fsync: "off",
  shared_buffers: "64MB",
  max_connections: "300",
  min_wal_size: "32MB",
  max_wal_size: "64MB",
};
const PORT = 5432;

/** The folder with the programs of the newest Postgres that is installed. */
function programs() {
  const all = "/usr/lib/postgresql";
  const versions = existsSync(all) ? readdirSync(all).map(Number).sort((one, other) => other - one) : [];
  if (versions.length === 0) throw new Error("Postgres is not installed: run `cargo xtask install`");
  return join(all, String(versions[0]), "bin");
}

/** One cluster of Postgres. It ends with this process. */
export class Cluster {
  /** Makes the folder; `disk` is the size in bytes of a file system for it alone, which only root can have. */
  constructor(disk = undefined) {
    this.folder = mkdtempSync(join(tmpdir(), "toolrack-drill-postgres-"));
    this.disk = disk;
    if (disk) execFileSync("mount", ["-t", "tmpfs", "-o", `size=${disk}`, "toolrack-drill", this.folder]);
    if (isRoot) chownSync(this.folder, UNPRIVILEGED, UNPRIVILEGED);
    this.data = join(this.folder, "data");
    this.url = `postgres://toolrack@${encodeURIComponent(this.folder)}/toolrack`;
    /** Where a proxy connects. */
    this.socket = join(this.folder, `.s.PGSQL.${PORT}`);
  }

  #as = (/** @type {string} */ name, /** @type {string[]} */ ...args) => [
    ...["--pdeathsig", "QUIT", ...asUnprivileged],
    ...[join(programs(), name), ...args],
  ];
  get #of() {
    return { cwd: this.folder, env: { PATH: process.env.PATH, LC_ALL: "C" }, stdio: /** @type {const} */ ("pipe") };
  }

  /** Makes an empty database. */
  create() {
    const settings = ["-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"];
    execFileSync("setpriv", this.#as("initdb", "-D", this.data, ...settings), this.#of);
    const alone = this.#as("postgres", "--single", "-D", this.data, "postgres");
    execFileSync("setpriv", alone, { ...this.#of, input: CREATE_ROLE_AND_DATABASE });
    return this;
  }

  /** Makes a standby of another cluster, which that one waits for at each commit. */
  async follow(primary) {
    const words = ["-D", this.data, "-h", primary.folder, "-U", "postgres", "--no-sync", "--checkpoint=fast", "-R", "-X", "stream"];
    await promisify(execFile)("setpriv", this.#as("pg_basebackup", ...words), this.#of);
    await this.start();
    await primary.alone("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()");
    return this;
  }

  /** Makes this standby a primary. */
  promote() {
    return this.alone("SELECT pg_promote()");
  }

  /** Starts it, and waits until it accepts connections. */
  async start() {
    const settings = Object.entries({ ...SETTINGS, unix_socket_directories: this.folder });
    const words = settings.flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const stdio = /** @type {const} */ (["ignore", "ignore", "pipe"]);
    const server = spawn("setpriv", this.#as("postgres", "-D", this.data, ...words), { ...this.#of, stdio });
    this.server = server;
    this.ended = new Promise((over) => server.once("exit", over));
    await untilPrinted(server, server.stderr, "ready to accept");
  }

  /** Ends it: at once, without a checkpoint. */
  async end() {
    this.server?.kill("SIGQUIT");
    await this.ended;
  }

  /** The first process of it. */
  get pid() {
    return Number(this.server?.pid);
  }

  get hasEnded() {
    return this.server?.exitCode !== null || this.server?.signalCode !== null;
  }

  /** Stops all its processes where they are, or lets them go on. */
  freeze(signal = "SIGSTOP") {
    const first = Number(this.server?.pid);
    // The first process is stopped first, so that it starts no others meanwhile.
    for (const pid of [first, ...childrenOf(first)]) {
      try {
        process.kill(pid, signal);
      } catch (error) {
        if (error.code !== "ESRCH") throw error;
      }
    }
  }

  thaw() {
    this.freeze("SIGCONT");
  }

  /** Fills its disk. Returns how to make it free again. */
  fill() {
    if (!this.disk) throw new Error("this cluster has no disk of its own that could be filled");
    const ballast = join(this.folder, "ballast");
    const file = openSync(ballast, "w");
    for (const size of [1 << 20, 4096]) fillUp(file, Buffer.alloc(size, 1), this.disk);
    closeSync(file);
    return () => rmSync(ballast);
  }

  async #psql(url, ...words) {
    const all = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", ...words, url];
    return (await promisify(execFile)("psql", all)).stdout;
  }

  /** Runs statements as the owner of the cluster, each in a transaction of its own. */
  alone(...statements) {
    return this.#psql(this.url.replace("toolrack@", "postgres@"), ...statements.flatMap((sql) => ["-c", sql]));
  }

  /** Runs `sql` on the rows of the whole team. Returns a list of columns for each row. */
  async rows(sql) {
    const out = await this.#psql(this.url, "--single-transaction", "-c", "SET LOCAL toolrack.tenant = '*'", "-c", sql);
    return out.split("\n").filter(Boolean).map((line) => line.split("|"));
  }

  /** Copies the database. Returns the URL of the copy. */
  async copy(name) {
    const file = join(this.folder, `${name}.sql`);
    await promisify(execFile)("pg_dump", ["-h", this.folder, "-U", "postgres", "-f", file, "toolrack"]);
    await this.alone(`CREATE DATABASE ${name} OWNER toolrack`);
    const url = this.url.replace(/toolrack$/, name);
    await this.#psql(url.replace("toolrack@", "postgres@"), "-f", file);
    return url;
  }

  async drop(name) {
    await this.alone(`DROP DATABASE ${name} WITH (FORCE)`);
  }

  async remove() {
    if (!this.hasEnded) await this.end();
    if (this.disk) execFileSync("umount", ["--lazy", this.folder]);
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Writes `piece` again and again until the disk, which has `most` bytes, is full. */
function fillUp(file, piece, most) {
  try {
    for (let written = 0; written < most; written += piece.length) writeSync(file, piece);
  } catch (error) {
    if (error.code !== "ENOSPC") throw error;
  }
}

/** The processes that a process has started. */
function childrenOf(parent) {
  return readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map(Number).filter((pid) => parentOf(pid) === parent);
}

function parentOf(pid) {
  try {
    return Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, "latin1"))?.[1]);
  } catch {
    return undefined;
  }
}
