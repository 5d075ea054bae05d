"""Turns of an agent of pydantic-ai, with a model in the same process: `python agent.py ROW COUNT`.

Prints one line of JSON. The tools are those of the other agents (`tool.json`), and one that returns its text.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import anyio
from measure import Watch, memory
from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

ROUNDS = 10
TOOLS = {"agent-1": 1, "agent-100": 100, "agent-1000": 1_000}
ECHO = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


async def echo(text: str) -> str:
    return text


async def nothing(**_: Any) -> str:
    return ""


def tools(count: int) -> list[Tool[None]]:
    like = json.loads(Path(__file__).with_name("tool.json").read_text())
    others = (
        Tool.from_schema(nothing, f"tool_{index:04}", like["description"], like["schema"]) for index in range(count - 1)
    )
    return [Tool.from_schema(echo, "echo", "Returns the text.", ECHO), *others]


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Calls in every round but the last, and never the same."""
    round = 1 + sum(isinstance(message, ModelResponse) for message in messages)
    if round == ROUNDS:
        return ModelResponse(parts=[TextPart("That is all.")])
    return ModelResponse(parts=[ToolCallPart("echo", {"text": f"hello {round}"})])


async def turns(count: int, agent: Agent[None, str]) -> dict[str, float]:
    await agent.run("Say it.")
    times = []
    watch = Watch()
    for _ in range(count):
        started = time.perf_counter()
        result = await agent.run("Say it.")
        times.append((time.perf_counter() - started) / ROUNDS)
        if result.output != "That is all." or len(result.all_messages()) != 2 * ROUNDS:
            raise RuntimeError("the turn went otherwise")
    _, cpu = watch.stop()
    return {"p50_us": round(median(times) * 1e6, 1), "cpu_us": round(cpu / count / ROUNDS * 1e6, 1), **memory()}


def main() -> None:
    row, count = sys.argv[1], int(sys.argv[2])
    agent = Agent(FunctionModel(answer), instructions="You are helpful.", tools=tools(TOOLS[row]))
    print(json.dumps(anyio.run(turns, count, agent)))


main()
