"""Walk: the whole forward pass of a model as one picture, down to the matrices of a layer and one dot product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch

from firth.decoding.sampling.choice import penalised, pick, probabilities
from firth.decoding.sampling.draw import Draws
from firth.errors import ConfigError, DataError
from firth.models import ConditionalDecoder
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Example, Room
from firth.serving.lab.starters import GPT
from firth.serving.lab.token_count import count_source_tokens
from firth.serving.lab.unknown_text import read
from firth.serving.lab.walk_json import WINDOW, line_json, matrices_json, stage_json
from firth.tasks.abilities.continuation import end_tokens
from firth.tasks.abilities.walk_inputs import Walked, walk_text
from firth.tasks.ability import ATTENTION, GENERATE, WALK

if TYPE_CHECKING:
    from firth.serving.lab.library import LoadedRun

MOST_TOKENS = 96  # of the picture: with more, its lines could not be told apart
CANDIDATES = 12


class _WalkInputs(NamedTuple):
    text: str
    ids: str
    last: str


# The latest walk of each loaded run, so that another stage, head or cell needs no second forward pass.
_LATEST: WeakKeyDictionary[LoadedRun, tuple[_WalkInputs, Walked]] = WeakKeyDictionary()


def whole(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """Every stage with the tokens that pass it, and the distribution over the next token."""
    with library.using(request.text("run"), progress) as run:
        walked = _walked(request, run, progress)
        stages = [stage_json(stage) for stage in walked.walk.stages]
        facts = {"ids": list(walked.ids), "tokens": list(walked.tokens), "stages": stages, "next": _next(request, run, walked)}
    return ViewResult({}, _python(request, library), facts)


def next_token(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The distribution over the next token and the token drawn from it, for other settings."""
    with library.using(request.text("run"), progress) as run:
        facts = {"next": _next(request, run, _walked(request, run, progress))}
    return ViewResult({}, _python(request, library), facts)


def stage(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The matrices of one stage, for one head; of a wide matrix some columns."""
    number, head = request.number("stage", int, 0, least=0), request.number("head", int, 0, least=0)
    start = request.number("from", int, 0, least=0)
    with library.using(request.text("run"), progress) as run:
        one = _walked(request, run, progress).walk.stage(number)
        matrices = matrices_json(one.matrices(min(head, max(0, one.heads - 1))), start)
    facts = {"stage": number, "name": one.name, "heads": one.heads, "matrices": matrices}
    return ViewResult({}, _python(request, library, f".stages[{number}].matrices({head})"), facts)


def cell(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The computation of one number of a matrix."""
    number, head = request.number("stage", int, 0, least=0), request.number("head", int, 0, least=0)
    with library.using(request.text("run"), progress) as run:
        one = _walked(request, run, progress).walk.stage(number)
        matrices = one.matrices(min(head, max(0, one.heads - 1)))
        which = request.number("matrix", int, 0, least=0, most=len(matrices) - 1)
        matrix = matrices[which]
        rows, columns = matrix.value.shape
        row, column = (
            request.number("row", int, 0, least=0, most=rows - 1),
            request.number("column", int, 0, least=0, most=columns - 1),
        )
        lines = [line_json(line) for line in matrix.lines(row, column)]
    facts = {
        "matrix": which,
        "name": matrix.name,
        "row": row,
        "column": column,
        "value": float(matrix.value[row, column]),
        "lines": lines,
    }
    return ViewResult({}, _python(request, library, f".stages[{number}].matrices({head})[{which}].lines({row}, {column})"), facts)


def _walked(request: ViewRequest, run: LoadedRun, progress: Progress) -> Walked:
    inputs = _WalkInputs(read(request, "text", run, ""), request.text("ids", ""), request.text("last", "", most=200))
    latest = _LATEST.get(run)
    if latest is None or latest[0] != inputs:
        ids = _ids(inputs.ids)
        tokens = max(count_source_tokens(run, inputs.text), len(ids or ()))
        if tokens > MOST_TOKENS:
            raise DataError(f"the text has {tokens:,} tokens; the walk shows at most {MOST_TOKENS}. Shorten the text.")
        progress("running the model", 0, 1)
        latest = inputs, walk_text(run, inputs.text, ids, inputs.last)
        _LATEST[run] = latest
    return latest[1]


def _ids(given: str) -> Sequence[int] | None:
    """The ids that the page sends, separated by commas; "-" for none, "" for those of the text."""
    try:
        return None if not given else [] if given == "-" else [int(id) for id in given.split(",")]
    except ValueError:
        raise ConfigError(f'ids is "{given[:60]}"; expected token ids separated by commas') from None


def _next(request: ViewRequest, run: LoadedRun, walked: Walked) -> dict[str, Any]:
    config = run.decoding(
        {
            "temperature": request.number("temperature", float, 1.0, least=0, most=10),
            "top_k": request.number("top_k", int, 0, least=0),
            "seed": request.number("seed", int, 0, least=0),
        }
    )
    logits_TV = walked.walk.logits_TV.detach().float().cpu()
    written = [walked.ids[: len(walked.ids) - ahead] for ahead in range(len(logits_TV))][::-1]
    rows = [logits_TV[row : row + 1] for row in range(len(written))]
    rows = [penalised(one, config, torch.tensor([past])) if past else one for one, past in zip(rows, written, strict=True)]
    logits_TV = torch.cat(rows)
    p_TV, share_TV = walked.walk.logits_TV.detach().float().cpu().softmax(-1), probabilities(logits_TV, config)
    drawn = int(pick(logits_TV[-1:], config, torch.from_numpy(Draws(config.seed, 0).of(walked.written, 1))))
    ends, chosen_Tk = _ends(run), p_TV.topk(min(CANDIDATES, p_TV.shape[1])).indices.tolist()

    def candidate(row: int, id: int) -> dict[str, Any]:
        p, share = float(p_TV[row, id]), float(share_TV[row, id])
        return {"id": id, "token": run.tokenizer.token(id), "probability": p, "share": share, "ends": id in ends}

    def earlier(row: int) -> dict[str, Any]:
        """What could have followed an earlier token, with what did."""
        came = written[row + 1][-1]
        return {"candidates": [candidate(row, id) for id in chosen_Tk[row]], "came": candidate(row, came)}

    return {
        "candidates": [candidate(-1, id) for id in chosen_Tk[-1]],
        "drawn": candidate(-1, drawn),
        "entropy": float(torch.special.entr(share_TV[-1]).sum() / torch.log(torch.tensor(2.0))),
        "ended": bool(walked.ids) and walked.ids[-1] in ends,
        "earlier": [earlier(row) for row in range(len(written) - 1)],
    }


def _ends(run: LoadedRun) -> tuple[int, ...]:
    """The tokens that end a text or a translation."""
    if isinstance(run.network, ConditionalDecoder):
        return tuple({*run.tokenizer.ends, *(() if run.tokenizer.eos is None else (run.tokenizer.eos,))})
    return end_tokens(run)


def _python(request: ViewRequest, library: RunLibrary, part: str = "") -> str:
    given = _ids(request.text("ids", ""))
    ids = "" if given is None else f", {list(given)!r}"
    walk = f"walk = walk_text(model, {request.known_text('text')!r}{ids}).walk{part}"
    return library.program(request.text("run"), walk, imports=["from firth.tasks.abilities.walk_inputs import walk_text"])


ROOM = Room(
    "walk",
    "Walk",
    "The whole forward pass of a model: tokens through its layers, the matrices inside each, and every number worked out.",
    {"whole": whole, "next": next_token, "stage": stage, "cell": cell},
    ability=WALK,
    first=lambda facts: facts.can(GENERATE) and facts.can(ATTENTION),
    if_none="There is no language model or translator. Train a small Transformer on the documentation on your disk:",
    starter=GPT,
    facts={"window": WINDOW, "most_tokens": MOST_TOKENS},
    notice="A Transformer layer adds to what enters it; a recurrent layer passes its state on from token to token.",
    examples=(
        Example("Inside the first layer", {"stage": "1"}),
        Example("Always the most probable token", {"temperature": "0"}),
        Example("From scores to probabilities", {"stage": "99"}),
    ),
)
