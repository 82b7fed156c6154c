"""firth serve"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from firth.cli.app import complain, verb
from firth.cli.decoding_options import Quantise, quantisation


@verb()
def serve(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders, folders of runs, or public models.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on. Any other than this machine's own needs an API key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)] = 8000,
    key_file: Annotated[
        Path | None, typer.Option(help="File with API keys, one per line. [default: the variable FIRTH_API_KEY]")
    ] = None,
    slots: Annotated[int, typer.Option(help="Number of texts that each model generates at once.", min=1)] = 16,
    context: Annotated[
        int | None,
        typer.Option(help="Tokens per text that memory is reserved for. [default: the model's context, at most 4,096]", min=1),
    ] = None,
    queue: Annotated[int, typer.Option(help="Texts that may wait in the queue; more are refused with status 429.", min=1)] = 256,
    max_tokens: Annotated[int, typer.Option(help="Maximum number of tokens that a request may generate per text.", min=1)] = 4096,
    max_prompt: Annotated[
        int | None, typer.Option(help="Maximum length of a prompt, in tokens. [default: the model's context]", min=1)
    ] = None,
    max_body: Annotated[int, typer.Option(help="Maximum size of a request, in bytes.", min=1)] = 4 << 20,
    connections: Annotated[int, typer.Option(help="Maximum number of open connections.", min=1)] = 4096,
    per_address: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of connections per address; 0 sets no limit. [default: 256; no limit for this machine]",
            min=0,
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Maximum duration of a request in seconds, including time in the queue.", min=0.001)
    ] = 600,
    drain: Annotated[float, typer.Option(help="Seconds to finish running requests when the server stops.", min=0)] = 30,
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Device to compute on.")] = "auto",
    dtype: Annotated[
        Literal["float32", "bf16", "float16"] | None,
        typer.Option(help="Type of the weights in memory. [default: that of the file]", show_default=False),
    ] = None,
    quantise: Quantise = None,
    engine: Annotated[
        Literal["auto", "process", "thread"],
        typer.Option(
            help="Run each model in its own process or thread. [default: process on a GPU or with several --processes]",
            show_default=False,
        ),
    ] = "auto",
    processes: Annotated[
        int | None,
        typer.Option(
            help="Number of processes that handle HTTP. [default: 1; on a GPU half the number of cores, at most 8]",
            min=1,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve runs over HTTP, with OpenAI's API and firth's own.

    A client names a run by its folder's name. Ctrl-C or SIGTERM stops the server once the running requests are
    finished; a second Ctrl-C stops it at once.
    """
    from firth.serving.connection_limits import ConnectionLimits
    from firth.serving.http.keys import check_address, read_keys
    from firth.serving.http.limits import Limits

    keys = read_keys(key_file)
    check_address(host, keys)
    limits = Limits(
        body=max_body,
        prompt=max_prompt,
        tokens=max_tokens,
        queue=queue,
        seconds=timeout,
        connection=ConnectionLimits(
            total=connections, per_address=256 if per_address is None else per_address, loopback=per_address is not None
        ),
    )

    from firth.serving.http.models import load_models
    from firth.serving.http.server import listen
    from firth.serving.http.server import serve as serve_by_one
    from firth.serving.http.supervisor import check_fronts, default_processes, serve_by_fronts
    from firth.training.loop import device_for

    on_gpu = device_for(device).type == "cuda"
    apart = engine == "process" or (engine == "auto" and (on_gpu or (processes or 1) > 1))
    check_fronts(processes or 1, apart=apart)
    listener = listen(host, port)
    try:
        models = load_models(
            runs, limits, device=device, dtype=dtype, quantise=quantisation(quantise), slots=slots, capacity=context, apart=apart
        )
    except BaseException:
        listener.close()
        raise
    name = f"[{host}]" if ":" in host and not host.startswith("[") else host
    address = f"http://{name}:{listener.getsockname()[1]}"
    names = ", ".join(model.name for model in models)
    several = processes or default_processes(models, on_gpu=on_gpu and apart)
    run_server = partial(serve_by_fronts, processes=several) if several > 1 else serve_by_one
    run_server(
        models,
        listener,
        limits=limits,
        keys=keys,
        drain=drain,
        ready=lambda: print(f"Serving {names} at {address}/v1 (see {address}/docs; Ctrl-C ends it)", flush=True),
        draining=lambda: complain("ending: no new requests; Ctrl-C again to end at once"),
    )
    for model in models:
        model.run.network.to("meta")  # torch complains if weights that were shared on a GPU are still there at the end
    print("The server has ended.")
