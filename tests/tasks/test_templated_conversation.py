"""A conversation run whose messages are written by a chat template: trained, asked, evaluated, and self-contained."""

from __future__ import annotations

from pathlib import Path

import pytest
from chat_lines import chat_table, write_chats
from chat_templates import CHATML, MARKED

from firth.api import compose, load, train_recipe
from firth.config import Table
from firth.errors import DataError
from firth.text.template_format import TemplateFormat


def table(folder: Path, template: str, **training: int | float) -> Table:
    own = chat_table(write_chats(folder / "chats.jsonl"), context=64, steps=100, **training)
    special = ["<|im_start|>", "<|im_end|>"]
    return own | {"objective": {"kind": "conversation", "template": template, "special_tokens": special}}


@pytest.mark.parametrize("source", [CHATML, pytest.param(MARKED, marks=pytest.mark.long)])
def test_a_run_learns_and_answers_with_a_template(source: str, tmp_path: Path) -> None:
    path = tmp_path / "chat.jinja"
    path.write_text(source)
    out = train_recipe(compose(table(tmp_path, str(path))), tmp_path / "run").path
    path.unlink()
    run = load(out, "cpu")
    assert isinstance(run.format, TemplateFormat)
    assert run.recipe.objective.template == source, "the run keeps the template itself"
    history = [{"role": "user", "content": "name 7"}]
    assert run.chat(history).strip() == "seven"
    history += [{"role": "assistant", "content": "seven"}, {"role": "user", "content": "again"}]
    assert run.chat(history).strip() == "seven"
    scores = run.evaluate()
    assert scores["exact"] > 0.9


def test_a_template_that_does_not_work_is_refused_before_training(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not valid Jinja"):
        train_recipe(compose(table(tmp_path, "{% for %}")), tmp_path / "run")
    with pytest.raises(DataError, match="cannot read the chat template"):
        train_recipe(compose(table(tmp_path, str(tmp_path / "absent.jinja"))), tmp_path / "run")
    assert not (tmp_path / "run").exists()
