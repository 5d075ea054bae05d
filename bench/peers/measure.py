"""The rows of the benchmark, for clients in Python.

`client.py` and `fastmcp_client.py` say how their library connects; the rest is here, so that both do the same.

    python client.py ROW COUNT -- COMMAND [ARGS…]      a server to start
    python client.py ROW COUNT URL                     a server over Streamable HTTP

Prints one line of JSON on standard output; everything else, the server's words too, goes to standard error.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import anyio

IN_FLIGHT = 64
WARM_UP_ONE = 200
WARM_UP_MANY = 1_000

# Far above what any row takes: a limit of the client must not decide a row.
TIMEOUT_SECONDS = 600.0
MAX_PAGES = 100_000

OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]


@dataclass(frozen=True)
class Target:
    """A server to start, or one that is there already."""

    command: str | None
    args: list[str]
    url: str | None


class Connection(Protocol):
    """What a library must do."""

    async def call(self, name: str, arguments: dict[str, Any], on_progress: OnProgress | None = None) -> str:
        """Calls a tool. Gives back the text of its result; fails if the tool does."""

    async def tools(self) -> list[Any]:
        """All tools of all pages."""


Connect = Callable[[], AbstractAsyncContextManager[Connection]]


def measure(connect: Callable[[Target], AbstractAsyncContextManager[Connection]]) -> None:
    """Runs the row that the command line names."""
    match sys.argv[1:]:
        case [row, count, "--", command, *args] if row in ROWS:
            target = Target(command, args, None)
        case [row, count, url] if row in ROWS:
            target = Target(None, [], url)
        case _:
            sys.exit("usage: ROW COUNT (-- COMMAND [ARGS…] | URL)")
    try:
        print(json.dumps(anyio.run(ROWS[row], lambda: connect(target), int(count))))
    except Exception as error:
        traceback.print_exc()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        sys.exit(f"error: {error}")  # in one line, the last, where the benchmark looks for it


async def one(connect: Connect, count: int) -> dict[str, float]:
    async with connect() as connection:
        await connection.tools()
        for _ in range(WARM_UP_ONE):
            await echo(connection)
        times = []
        watch = Watch()
        for _ in range(count):
            started = time.perf_counter()
            await echo(connection)
            times.append(time.perf_counter() - started)
        seconds, cpu = watch.stop()
        return {
            "p50_us": round(median(times) * 1e6, 1),
            "per_second": round(count / seconds, 1),
            "cpu_us": round(cpu / count * 1e6, 1),
            **memory(),
        }


async def many(connect: Connect, count: int) -> dict[str, float]:
    async with connect() as connection:
        await connection.tools()
        await in_flight(connection, WARM_UP_MANY)
        watch = Watch()
        await in_flight(connection, count)
        seconds, cpu = watch.stop()
        return {"per_second": round(count / seconds, 1), "cpu_us": round(cpu / count * 1e6, 1), **memory()}


async def in_flight(connection: Connection, count: int) -> None:
    """So many calls that each wait for the one before: always as many are under way, until none is left to begin."""
    left = iter(range(count))

    async def lane() -> None:
        for _ in left:
            await echo(connection)

    async with anyio.create_task_group() as lanes:
        for _ in range(min(IN_FLIGHT, count)):
            lanes.start_soon(lane)


async def tool_list(connect: Connect, count: int) -> dict[str, float]:
    async with connect() as connection:
        watch = Watch()
        tools = await connection.tools()
        seconds, _ = watch.stop()
        expect(len(tools) >= count, f"{len(tools)} tools came, and not {count}")
        return {"ms": round(seconds * 1e3, 1), **memory()}


async def big(connect: Connect, count: int) -> dict[str, float]:
    async with connect() as connection:
        await connection.tools()
        watch = Watch()
        text = await connection.call("text", {"bytes": count})
        seconds, _ = watch.stop()
        length = len(text.encode())
        expect(length == count, f"{length} bytes came, and not {count}")
        return {"ms": round(seconds * 1e3, 1), **memory()}


async def events(connect: Connect, count: int) -> dict[str, float]:
    came = highest = disordered = 0

    async def on_progress(progress: float, _total: float | None, _message: str | None) -> None:
        nonlocal came, highest, disordered
        came += 1
        if progress > highest:
            highest = progress
        else:
            disordered += 1

    async with connect() as connection:
        await connection.tools()
        watch = Watch()
        await connection.call("progress", {"steps": count}, on_progress)
        seconds, _ = watch.stop()
        # What comes after the result is lost to whoever has gone on with it.
        return {
            "per_second": round(came / seconds, 1),
            "ms": round(seconds * 1e3, 1),
            "lost": count - came,
            "disordered": disordered,
            **memory(),
        }


async def servers(connect: Connect, count: int) -> dict[str, float]:
    ready = 0
    all_ready = anyio.Event()

    async def keep() -> None:
        # A connection ends in the task that began it.
        nonlocal ready
        async with connect() as connection:
            await connection.tools()
            ready += 1
            if ready == count:
                all_ready.set()
            await done.wait()

    done = anyio.Event()
    watch = Watch()
    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(keep)
        await all_ready.wait()
        seconds, _ = watch.stop()
        result = {"ms": round(seconds * 1e3, 1), **memory()}
        done.set()
    return result


ROWS: dict[str, Callable[[Connect, int], Awaitable[dict[str, float]]]] = {
    "stdio-one": one,
    "stdio-64": many,
    "http-one": one,
    "http-64": many,
    "list": tool_list,
    "big": big,
    "events": events,
    "servers": servers,
}


class Watch:
    """Wall time, and the processor time of all threads of this process; both in seconds."""

    def __init__(self) -> None:
        self._cpu = self._cpu_now()
        self._started = time.perf_counter()

    def stop(self) -> tuple[float, float]:
        seconds = time.perf_counter() - self._started
        return seconds, self._cpu_now() - self._cpu

    @staticmethod
    def _cpu_now() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime


async def echo(connection: Connection) -> None:
    text = await connection.call("echo", {"text": "hello"})
    expect(text == "hello", f"echo answered {text}")


def memory() -> dict[str, float]:
    """The most memory that this process ever had, where the system is Linux and tells."""
    try:
        line = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return {}
    return {"hwm_kb": int(line[1])} if line else {}


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RuntimeError(otherwise)
