"""Caption: an image, the captions that beam search finds, and where each word attends. The images are those of the run's data set
if firth has it, and otherwise scenes."""

from __future__ import annotations

import base64

from firth.figures.figure import Table
from firth.figures.image_attention import png
from firth.progress import Progress
from firth.serving.lab.library import RunLibrary
from firth.serving.lab.request import ViewRequest
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Example, Room, choices
from firth.serving.lab.starters import CAPTIONER
from firth.tasks.ability import CAPTION
from firth.text.config import CaptionsConfig
from firth.text.data.captions import some_images

MOST_SCENES = 200
PARTS = {"test": "like those in training", "unseen": "with pairs of colour and shape never seen in training"}


def captions(request: ViewRequest, library: RunLibrary, progress: Progress) -> ViewResult:
    """The captions of one scene, best first, and the cells of the image behind each word of the best one."""
    run, part = request.text("run"), request.choice("part", tuple(PARTS), "test")
    number = request.number("number", int, 1, least=1, most=MOST_SCENES)
    beam = request.number("beam", int, 3, least=1, most=12)
    with library.using(run, progress) as model:
        captioner = model.expect(CAPTION)
        shown = _shown(model.recipe.data)
        images, truths = some_images(shown, part, number)
        image_HWC, truth = images[-1], truths[-1]
        progress("captioning", 0, 2)
        (candidates,) = captioner.captions([image_HWC], model.decoding({"beam": beam}))
        progress("computing attention", 1, 2)
        seen = captioner.overlay(image_HWC, candidates[0].text) if candidates[0].text else None
    lines = [
        f"data = CaptionsConfig(name={shown.name!r}, size={shown.size!r}, kinds={shown.kinds!r})",
        f"images, _ = some_images(data, {part!r}, {number})\nimage = images[-1]",
        f'(captions,) = model.captions([image], model.decoding({{"beam": {beam}}}))',
        "for one in captions:\n    print(one.score, one.text)",
        *([] if seen is None else ["figure = model.overlay(image, captions[0].text).figure()", "figure.plot"]),
    ]
    imports = ["from firth.text.config import CaptionsConfig", "from firth.text.data.captions import some_images"]
    rows = [(f"{n}", one.text, f"{one.score:.4f}", f"{one.log_probability:.4f}") for n, one in enumerate(candidates, start=1)]
    facts = {
        "image": "data:image/png;base64," + base64.b64encode(png(image_HWC)).decode(),
        "truth": truth,
        "captions": [one.text for one in candidates],
    }
    figures = {} if seen is None else {"overlay": seen.figure()}
    headings = {"overlay": "Where each word attends"}
    table = Table(("rank", "caption", "score", "log p"), rows)
    return ViewResult(figures, library.program(run, *lines, imports=imports), facts, table, headings)


def _shown(data: CaptionsConfig) -> CaptionsConfig:
    return CaptionsConfig(name=data.name, size=data.size, kinds=data.kinds) if data.name else CaptionsConfig(name="scenes")


ROOM = Room(
    "caption",
    "Caption",
    "A caption for an image, and where each word looks.",
    {"captions": captions},
    ability=CAPTION,
    if_none="There is no run that captions images. Train one on single shapes; the whole recipe, with several shapes in an "
    "image, takes about half an hour on a CPU:",
    starter=CAPTIONER,
    choices=lambda library: {"part": choices(PARTS, PARTS)},
    facts={"most_scenes": MOST_SCENES},
    notice="See whether each word attends to the shape that it names, and what the model confuses when it does not.",
    examples=(
        Example("Another image", {"part": "test", "number": "5"}),
        Example("A pair never seen in training", {"part": "unseen", "number": "1"}),
    ),
)
