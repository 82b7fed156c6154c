"""Drawings of models for rooms of the lab: one kind of those that a model has, for light pages and for dark ones."""

from __future__ import annotations

from firth.inspection.drawing import KINDS, Subject, draw_model, kinds_of

WHOLE = "model"  # the kind that every model has


def drawing_facts(subject: Subject, wanted: str) -> dict[str, object]:
    """What the page shows. A kind that this model does not have, because another one did, gives way to the whole model."""
    own = kinds_of(subject)
    kind = wanted if wanted in own else WHOLE
    drawing = draw_model(subject, kind)
    return {
        "kind": kind,
        "kinds": [{"value": one, "label": f"{KINDS[one][:1].upper()}{KINDS[one][1:]}"} for one in own],
        "title": drawing.title,
        "description": drawing.description,
        "light": drawing.svg("light"),
        "dark": drawing.svg("dark"),
        "file": drawing.svg("auto"),
        "name": f"{subject.name.replace(' ', '-')}-{kind}.svg",
    }
