"""Many clients at once: `firth serve` beside a plain FastAPI server around `transformers`' generate(), in the same run.

    pip install fastapi uvicorn
    python benchmarks/serving.py [--clients 16 64] [--tokens 64] [--rounds 3] [--threads 2] [--fronts 2]
    python benchmarks/serving.py --device cuda --dtype bf16 --clients 64 --tokens 128 --plain-clients 16 [--answers 10]
    python benchmarks/serving.py --depth 2 --width 64 --vocab 500 --tokens 8           # in miniature

A folder with GPT-2 124M (random weights; 12 layers of width 768, a vocabulary of 50,257) is served by `firth serve` and by the
plain server at the end of this file: each request takes a lock, and generate() writes its answer to a streamer. Each is a process
of its own, alone at its time. All clients send a prompt of 32 tokens at once, over HTTP on loopback, and read the stream of their
answer, always the most probable tokens. Their connections stay open between the rounds, as those of the `openai` package do.
Times are those of the clients: to the first token, and to the end of the answer. With --answers, each client asks for several,
one after another, as in a server that is always busy. Of the rounds, the one with the median time counts. "of bare decoding":
the same jobs given to the engine of `firth serve` in this process, without HTTP. On Linux also the processor time of `firth
serve` per token: of its first process, of the busiest of the others (the engine, if it is one), and of the rest (HTTP).

serving_in_turn.py runs this file with several versions of firth.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

CPU_GOAL, GPU_GOAL, OVERHEAD = 2.0, 20_000, 0.10  # × the plain server; tokens per second; of bare decoding
LAST = b"0\r\n"  # the length of the last chunk of an HTTP response
STARTS = 300  # seconds that a server may take to start
SETTLES = 2  # seconds until the clients begin


@dataclass(frozen=True)
class Measured:
    """Seconds from the first request to the last answer, and those of each client."""

    seconds: float
    first: list[float]
    whole: list[float]

    def row(self, tokens: int) -> str:
        rate = len(self.whole) * tokens / self.seconds  # of all answers
        times = "".join(f"{quantile(times, 0.5):>11.2f}{quantile(times, 0.95):>9.2f}" for times in (self.first, self.whole))
        return f"{rate:>10,.0f}{times}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", nargs="+", type=int, default=[16, 64])
    parser.add_argument("--plain-clients", nargs="+", type=int, help="of the plain server, if not the same; 0: leave it out")
    parser.add_argument("--tokens", type=int, default=64, help="of each answer")
    parser.add_argument("--answers", type=int, default=1, help="that each client asks for in a round, one after another")
    parser.add_argument("--prompt", type=int, default=32, help="tokens")
    parser.add_argument("--rounds", type=int, default=3)
    few = max(1, (os.cpu_count() or 1) // 4)
    parser.add_argument("--processes", type=int, default=few, help="that the clients share [default: a quarter of the cores]")
    parser.add_argument("--fronts", type=int, help="processes of firth serve that handle HTTP [default: firth's own]")
    parser.add_argument("--device", default="cpu", choices=("cuda", "cpu"))
    parser.add_argument("--dtype", default="float32", choices=("float32", "bf16"))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--slots", type=int, help="of firth serve [default: the number of clients]")
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--vocab", type=int, default=50_257)
    parser.add_argument("--plain", nargs=4, help=argparse.SUPPRESS)  # folder, port, device, dtype: be the plain server
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.plain:
        plain_server(*options.plain)
        return
    name = torch.cuda.get_device_name() if options.device == "cuda" else f"CPU, {options.threads} threads"
    print(f"{name}; torch {torch.__version__}; {options.dtype}, prompts of {options.prompt} tokens, {options.tokens} new ones\n")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "gpt2"
        write_folder(folder, options.depth, options.width, options.vocab)
        for clients in options.clients:
            compare(folder, clients, options)


def compare(folder: Path, clients: int, options: argparse.Namespace) -> None:
    print(f"{f'{clients} clients':<28}{'tokens/s':>10}{'first p50':>11}{'p95':>9}{'whole p50':>11}{'p95':>9}  (seconds)")
    slots = options.slots or clients
    bare = engine_alone(folder, clients, slots, options)
    print(f"{'the engine alone':<28}{bare.row(options.tokens)}", flush=True)
    firth = "-m", "firth", "serve", str(folder), "--device", options.device, "--dtype", options.dtype, "--slots", str(slots)
    fronts = [] if options.fronts is None else ["--processes", str(options.fronts)]
    port = free_port()
    with server([*firth, *fronts, "--port", str(port)], port, options.threads) as pid:
        before = processor_seconds(pid)
        ours = median_round(port, "/v1/completions", clients, options)
        after = processor_seconds(pid)
    print(f"{'firth serve':<28}{ours.row(options.tokens)}", flush=True)
    cost = ours.seconds / bare.seconds - 1
    print(f"HTTP costs {cost:.0%} of bare decoding (goal {OVERHEAD:.0%})", flush=True)
    if after:
        tokens = (options.rounds + 1) * clients * options.answers * options.tokens
        first, *others = (1e6 * (after[one] - before.get(one, 0.0)) / tokens for one in after)
        busiest, *rest = sorted(others, reverse=True) or [0.0]
        print(f"processor time per token: {first:.1f} + {busiest:.1f} + {sum(rest):.1f} µs ({len(rest)} processes)", flush=True)
    of_plain = clients if options.plain_clients is None else min(clients, max(options.plain_clients))
    if not of_plain:
        return
    port = free_port()
    plain = [str(Path(__file__)), "--threads", str(options.threads), "--plain", str(folder), str(port), options.device]
    with server([*plain, options.dtype], port, options.threads):
        theirs = median_round(port, "/generate", of_plain, options)
    print(f"{f'plain server, {of_plain} clients':<28}{theirs.row(options.tokens)}", flush=True)
    ratio = len(ours.whole) / ours.seconds / (len(theirs.whole) / theirs.seconds)
    goal = f"{CPU_GOAL} ×" if options.device == "cpu" else f"{GPU_GOAL:,} tokens/s"
    print(f"tokens per second {ratio:.2f} × the plain server's (goal {goal}), ", end="")
    print(f"p95 of whole answers {quantile(ours.whole, 0.95) / quantile(theirs.whole, 0.95):.2f} × its\n", flush=True)


def quantile(values: list[float], q: float) -> float:
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def prompts_of(client: int, turn: int, options: argparse.Namespace) -> list[list[int]]:
    """Others in every round: firth would remember those of the last."""
    generator = torch.Generator().manual_seed(1_000 * turn + client)
    return torch.randint(options.vocab, (options.answers, options.prompt), generator=generator).tolist()


# ------------------------------------------------------------------------------------------------ clients


def median_round(port: int, path: str, clients: int, options: argparse.Namespace) -> Measured:
    """All clients of a round begin when those of the last one have ended, whatever process they are in."""
    processes = min(options.processes, clients)
    spawning = multiprocessing.get_context("spawn")
    barrier, found = spawning.Barrier(processes), spawning.SimpleQueue()
    shares = [range(number, clients, processes) for number in range(processes)]
    workers = [spawning.Process(target=some_clients, args=(barrier, found, port, path, share, options)) for share in shares]
    for worker in workers:
        worker.start()
    times = [found.get() for _ in workers]
    for worker in workers:
        worker.join()
    if None in times:
        raise SystemExit("a client failed")
    rounds = []
    for turn in range(1, options.rounds + 1):  # the first one warms up
        at = [client for share in times for client in share[turn]]
        seconds = max(end for _, _, end in at) - min(began for began, _, _ in at)
        rounds.append(Measured(seconds, [first - began for began, first, _ in at], [end - began for began, _, end in at]))
    return sorted(rounds, key=lambda one: one.seconds)[len(rounds) // 2]


def some_clients(barrier: Any, queue: Any, port: int, path: str, share: Iterable[int], options: argparse.Namespace) -> None:
    """Their times in each round: began, first event, last event."""

    async def rounds() -> list[list[tuple[float, float, float]]]:
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in share]
        times = []
        for turn in range(options.rounds + 1):
            prompts = [prompts_of(client, turn, options) for client in share]
            barrier.wait()
            asked = zip(connections, prompts, strict=True)
            found = await asyncio.gather(*(ask_for_all(*one, path, own, options.tokens) for one, own in asked))
            times.append([answer for answers in found for answer in answers])
        for _, writer in connections:
            writer.close()
        return times

    try:
        queue.put(asyncio.run(rounds()))
    except BaseException:
        barrier.abort()  # the others would wait for these clients
        queue.put(None)
        raise


async def ask_for_all(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, prompts: list[list[int]], tokens: int
) -> list[tuple[float, float, float]]:
    return [await ask(reader, writer, path, prompt, tokens) for prompt in prompts]


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, prompt: list[int], tokens: int
) -> tuple[float, float, float]:
    """When the request was sent, and when the first and the last event of the streamed answer came."""
    asked = {"model": "gpt2", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True}
    body = json.dumps(asked).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    began, first = time.perf_counter(), None
    writer.write(head.encode() + body)
    status = await reader.readline()
    if b" 200 " not in status:
        raise SystemExit(f"{path} answered {status.decode().strip()}: {(await reader.read(1000)).decode()}")
    while (line := await reader.readline()) != LAST:  # of the chunks of the answer
        if not line:
            raise SystemExit(f"{path} ended in the middle of an answer")
        if first is None and line.startswith(b"data: "):
            first = time.perf_counter()
    await reader.readline()
    assert first is not None
    return began, first, time.perf_counter()


# ------------------------------------------------------------------------------------------------ servers


@contextmanager
def server(command: list[str], port: int, threads: int) -> Iterator[int]:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL, env=environment)
    try:
        wait_for(port, process)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    began = time.perf_counter()
    while time.perf_counter() - began < STARTS:
        if process.poll() is not None:
            raise SystemExit(f"the server ended with {process.returncode}")
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as connection:
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                if b" 200 " in connection.recv(100):
                    time.sleep(SETTLES)
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit("the server does not start")


def processor_seconds(pid: int) -> dict[int, float]:
    """Of the process, which comes first, and of all that it has started. Empty where there is no /proc."""
    found: dict[int, float] = {}
    parents, ticks = {}, os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 1
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, (_, parent, *facts) = int(stat.parent.name), stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[number] = int(parent), (int(facts[9]) + int(facts[10])) / ticks
    waiting = [pid] if pid in parents else []
    while waiting:
        one = waiting.pop(0)
        found[one] = parents[one][1]
        waiting += sorted(child for child, (parent, _) in parents.items() if parent == one)
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


# ------------------------------------------------------------------------------------------------ the engine alone


def engine_alone(folder: Path, clients: int, slots: int, options: argparse.Namespace) -> Measured:
    from firth.api import load
    from firth.decoding.engine.engine import Engine

    network: Any = load(folder, options.device, dtype=options.dtype).network
    engine = Engine(network, slots=slots)
    engine.start()
    rounds = [engine_round(engine, clients, turn, options) for turn in range(options.rounds + 1)][1:]
    engine.close()
    return sorted(rounds, key=lambda found: found.seconds)[len(rounds) // 2]


def engine_round(engine: Any, clients: int, turn: int, options: argparse.Namespace) -> Measured:
    from firth.decoding.config import DecodingConfig
    from firth.decoding.engine.engine import Finished, Job

    config = DecodingConfig(tokens=options.tokens, temperature=0)
    first, whole, done = [], [], threading.Semaphore(0)
    waiting = [[Job(tuple(prompt), config) for prompt in prompts_of(client, turn, options)] for client in range(clients)]

    def submit(client: int) -> None:
        began, begun = time.perf_counter(), False

        def deliver(events: list[Any]) -> None:
            nonlocal begun
            if not begun:
                begun = True
                first.append(time.perf_counter() - began)
            if isinstance(events[-1], Finished):
                whole.append(time.perf_counter() - began)
                submit(client) if waiting[client] else done.release()

        engine.submit(waiting[client].pop(), deliver)

    began = time.perf_counter()
    for client in range(clients):
        submit(client)
    for _ in range(clients):
        done.acquire()
    return Measured(time.perf_counter() - began, first, whole)


# ------------------------------------------------------------------------------------------------ the model, the plain server


def write_folder(folder: Path, depth: int, width: int, vocab: int) -> None:
    """GPT-2 with random weights, and a tokenizer that spells every token with letters of its own."""
    import tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.utils import logging

    torch.manual_seed(0)
    sizes = {"n_layer": depth, "n_embd": width, "n_head": max(1, width // 64), "vocab_size": vocab}
    config = GPT2Config(**sizes, bos_token_id=None, eos_token_id=None, architectures=["GPT2LMHeadModel"])
    logging.disable_progress_bar()
    GPT2LMHeadModel(config).save_pretrained(folder)
    words = {spelled(id): id for id in range(vocab)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(words, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))


def spelled(id: int) -> str:
    return "".join(chr(ord("a") + id // 26**place % 26) for place in range(4))


def plain_server(folder: str, port: str, device: str, dtype: str) -> None:
    import uvicorn
    from fastapi import FastAPI, Request
    from fastapi.responses import StreamingResponse
    from transformers import AsyncTextIteratorStreamer, AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    kind = torch.bfloat16 if dtype == "bf16" else torch.float32
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=kind).to(device).eval()
    app, lock = FastAPI(), asyncio.Lock()

    @app.get("/health")
    def health() -> str:
        return "ok"

    async def generate(request: Request) -> StreamingResponse:
        asked = await request.json()
        token_1T = torch.tensor([asked["prompt"]], device=device)

        async def answer() -> AsyncIterator[str]:
            async with lock:
                streamer = AsyncTextIteratorStreamer(tokenizer, skip_prompt=True)
                settings = {"max_new_tokens": asked["max_tokens"], "min_new_tokens": asked["max_tokens"], "do_sample": False}
                given = {"attention_mask": torch.ones_like(token_1T), "pad_token_id": 0, "streamer": streamer}
                thread = threading.Thread(target=model.generate, args=(token_1T,), kwargs={**settings, **given})
                thread.start()
                async for text in streamer:
                    yield f"data: {json.dumps({'text': text})}\n\n"
                thread.join()
            yield "data: [DONE]\n\n"

        return StreamingResponse(answer(), media_type="text/event-stream")

    generate.__annotations__ = {"request": Request, "return": StreamingResponse}  # local names, which FastAPI cannot look up
    app.post("/generate", response_model=None)(generate)
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main()
