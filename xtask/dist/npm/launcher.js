#!/usr/bin/env node
// Becomes the program of the package for this machine, which npm has chosen by system, processor and C library.
'use strict';

const { spawn } = require('node:child_process');
const { accessSync, constants } = require('node:fs');

const packages = @PACKAGES@;
const kind = `${process.platform}-${process.arch}`;
const suffix = process.platform === 'win32' ? '.exe' : '';

function program() {
  try {
    return require.resolve(`${packages[kind]}/bin/toolrack${suffix}`);
  } catch {
    const wanted = packages[kind];
    console.error(wanted ? `error: the package ${wanted} is not installed` : `error: Toolrack has no program for ${kind}`);
    console.error(wanted
      ? 'hint: install without `--omit=optional`; on Linux it needs glibc, which Alpine does not have'
      : 'hint: build it from source, with cargo');
    process.exit(1);
  }
}

const path = program();
const words = process.argv.slice(2);

become();
start();

// The same process: signals, the terminal and the exit code are the program's own. Returns where that is not possible: an
// older Node has no `execve`, that of Windows throws, and all others end with a core dump if the file may not be run.
function become() {
  try {
    accessSync(path, constants.X_OK);
    process.execve(path, [path, ...words], process.env);
  } catch {
    // The child that comes next, or its error, says more.
  }
}

function start() {
  const child = spawn(path, words, { stdio: 'inherit' });
  // A terminal sends these to both; the program decides.
  for (const signal of ['SIGINT', 'SIGQUIT']) process.on(signal, () => {});
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    console.error(`error: ${path} cannot be started: ${error.message}`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => {
    if (!signal) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}
