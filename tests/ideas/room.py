"""A room of the lab: how probable a model finds each line of a text, as bars."""

from firth.figures.ranking import ranking
from firth.serving.lab.result import ViewResult
from firth.serving.lab.room import Room
from firth.tasks.ability import SCORE


def lines(request, library, progress):
    run, texts = request.text("run"), request.text("text").splitlines()
    with library.using(run, progress) as model:
        scores = [one.log_probability for one in model.score(texts)]
    python = f"import firth\n\nmodel = firth.load({str(library.path(run))!r})\nprint(model.score({texts!r}))\n"
    return ViewResult({"lines": ranking(list(zip(texts, scores, strict=True)), "log-probability")}, python)


ROOM = Room(
    name="likelihood",
    title="Likelihood",
    about="How probable a language model finds each line of a text.",
    views={"lines": lines},
    ability=SCORE,
    if_none="There is no language model.",
)
