"""Readers, data sets, metrics and objectives from a file of one's own: listed, trained from a recipe, resumed and remembered."""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from captioned import caption_table
from in_context_tables import swap_table
from shell import Firth
from tiny_runs import assert_stopping_changes_nothing

import firth
from firth import ideas
from firth.api import compose, train_recipe
from firth.config import Table, merged
from firth.errors import ConfigError, DataError
from firth.evaluation.metrics import flat
from firth.evaluation.translation import measures
from firth.ideas import Origin
from firth.layers.cross_entropy import cross_entropy
from firth.layers.objective import OBJECTIVES
from firth.serving.lab.library import RunLibrary
from firth.tasks import TASKS
from firth.tasks.translation import TranslationConfig
from firth.text.config import DataConfig, PairsConfig
from firth.text.data.sentence_pairs import PairReader
from firth.text.data_set import DATA_SETS, DataSet, Holds
from firth.text.datasets import download
from firth.text.readers.corpus import find, scan
from firth.text.readers.reader import READERS
from firth.training.metric import METRICS

FILES = Path(__file__).parent / "ideas"
FILM = "".join(f"{n}\n00:00:{n:02},000 --> 00:00:{n + 1:02},000\nLine {n} of the film.\n\n" for n in range(1, 60))


def table(settings: Table, **training: Any) -> Table:
    usual = {
        "model": {"kind": "gru", "width": 8},
        "tokenizer": {"kind": "char"},
        "training": {"steps": 6, "batch": 4, "context": 16, "device": "cpu", **training},
    }
    whole = merged(usual, settings)
    if "batch_tokens" in whole["training"]:
        del whole["training"]["batch"]
    return whole


def assert_trained_resumed_and_remembered(settings: Table, file: str, tmp_path: Path) -> Path:
    """The folder of the run."""
    whole = tmp_path / "whole"
    assert_stopping_changes_nothing(compose(table(settings)), tmp_path, at=4)
    assert (whole / "recipe.toml").read_text(encoding="utf-8").count(f'"{file} sha256:') == 1
    assert firth.load(whole, "cpu").recipe.ideas is not None
    return whole


@pytest.fixture
def film(tmp_path: Path) -> Path:
    path = tmp_path / "films" / "one.srt"
    path.parent.mkdir()
    path.write_text(FILM, encoding="utf-8")
    return path


def test_a_reader_is_chosen_by_the_suffix_and_remembered(film: Path, tmp_path: Path, use: Any) -> None:
    assert "00:00" in "".join(piece.text for piece in find(str(film)).pieces())
    use(FILES / "reader.py")
    assert "".join(piece.text for piece in find(str(film)).pieces()).startswith("Line 1 of the film.\nLine 2 of")
    assert find(str(film.parent)).files == (film,)
    for data in ({"path": str(film)}, {"path": str(film.parent)}, {"path": str(film), "format": "srt"}):
        assert [one.split()[0] for one in compose(table({"data": data})).resolved().ideas or ()] == ["reader.py"]
    assert_trained_resumed_and_remembered({"data": {"path": str(film)}}, "reader.py", tmp_path)


def test_a_changed_reader_reads_again(film: Path, tmp_path: Path, use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firth.text.sealed.SETTLED", -1.0)  # a scan of a file that is this new is cached, too
    own = tmp_path / "mine.py"
    own.write_bytes((FILES / "reader.py").read_bytes())
    use(own)
    before = scan(find(str(film)))
    own.write_text(own.read_text(encoding="utf-8").replace('"".join(kept)', '"".join(kept).upper()'), encoding="utf-8")
    use(own)
    after = scan(find(str(film)))
    assert after.characters == before.characters
    assert after.sha256 != before.sha256


def test_a_reader_reads_each_side_of_sentence_pairs(film: Path, use: Any) -> None:
    use(FILES / "reader.py")
    pairs = PairReader.of(PairsConfig(path=str(film), target_path=str(film))).read(str(film), str(film), lambda *_: None)
    assert [pair.source for pair in pairs[:2]] == ["Line 1 of the film.", "Line 2 of the film."]


def test_an_unknown_format_is_corrected(use: Any) -> None:
    use(FILES / "reader.py")
    assert READERS["srt"].title() == "srt"
    with pytest.raises(ConfigError, match=r"'srtt'; expected one of 'auto', 'txt', .*'srt'\. Did you mean .srt.\?"):
        compose(table({"data": {"path": "a", "format": "srtt"}}))
    with pytest.raises(ConfigError, match=r'there is no file format "srtt"; choose one of: .* Did you mean "srt"\?'):
        DataConfig(path="a", format="srtt")


def test_a_data_set_is_made_once_trained_on_and_remembered(tmp_path: Path, use: Any) -> None:
    use(FILES / "dataset.py")
    parts = download.parts(DATA_SETS["brackets"])
    train, test = (set(parts[part].read_text(encoding="utf-8").splitlines()) for part in ("train", "test"))
    assert train
    assert not train & test
    assert download.parts(DATA_SETS["brackets"]) == parts
    run = assert_trained_resumed_and_remembered({"data": {"name": "brackets"}}, "dataset.py", tmp_path)
    assert firth.load(run, "cpu").evaluate(progress=False)["split"] == "test"


def labelled(draw: Random) -> Table:
    return {"text": (word := "".join(draw.choices("abcd", k=6))), "label": "ab"[word < "c"]}


RECORDS: dict[Holds, tuple[Table, Any]] = {
    "sentence pairs": (
        {"model": {"family": "seq2seq", "kind": "gru", "width": 8}, "training": {"batch_tokens": 100}},
        lambda draw: {"source": (word := "".join(draw.choices("abcd", k=6))), "target": word[::-1]},
    ),
    "labelled texts": (
        {"model": {"family": "encoder", "kind": "gru", "width": 8}},
        labelled,
    ),
    "tagged words": (
        {"model": {"family": "encoder", "kind": "gru", "width": 8}, "objective": {"kind": "tagging"}},
        lambda draw: {"words": (words := draw.choices("abcd", k=6)), "tags": [word.upper() for word in words]},
    ),
    "questions": (
        {"model": {"family": "encoder", "kind": "gru", "width": 8}, "objective": {"kind": "answer"}},
        lambda draw: {"context": (words := " ".join(draw.choices("abcd", k=6))), "question": "first?", "answer": words[0]},
    ),
    "conversations": (
        {"objective": {"kind": "conversation"}, "training": {"context": 64}},
        lambda draw: {
            "messages": [
                {"role": "user", "content": (word := "".join(draw.choices("abcd", k=6)))},
                {"role": "assistant", "content": word[::-1]},
            ]
        },
    ),
}


@pytest.mark.parametrize("holds", RECORDS)
def test_every_task_with_examples_in_files_learns_from_a_data_set_that_is_made(holds: Holds, tmp_path: Path, use: Any) -> None:
    settings, example = RECORDS[holds]
    origin = ideas._used["mine"] = Origin("mine.py", f"sha256:{holds.replace(' ', '-')}")
    DATA_SETS.join(DataSet("mine", "a test", made=holds, example=example, sizes=(40, 10, 10)), origin)
    train_recipe(compose(table({"data": {"name": "mine"}, **settings}, steps=2)), tmp_path / "run")
    assert firth.load(tmp_path / "run", "cpu").evaluate(progress=False)["split"] == "test"


def test_a_data_set_with_too_few_examples_is_refused() -> None:
    few = DataSet("few", "a test", made="running text", example=lambda draw: "a", sizes=(1, 1, 1))
    with pytest.raises(DataError, match="the data set few has too few different examples"):
        download.parts(few)


def test_own_data_sets_are_listed(use: Any, capsys: pytest.CaptureFixture[str]) -> None:
    use(FILES / "dataset.py")
    with pytest.raises(ConfigError, match=r'"data\.name" is .bracket.; expected one of .*.brackets.\. Did you mean "brackets"'):
        compose(table({"data": {"name": "bracket"}}))
    from firth.cli.data import list_

    assert "brackets" in RunLibrary().corpora
    list_()
    listed = capsys.readouterr().out
    assert "made     balanced brackets of two kinds\n" + " " * 36 + "running text; from dataset.py\n" in listed


def test_a_metric_of_labels_is_measured_selects_and_is_remembered(tmp_path: Path, use: Any, firth: Firth) -> None:
    use(FILES / "metric.py")
    data = tmp_path / "words.jsonl"
    draw = Random(0)
    data.write_text("".join(json.dumps(labelled(draw)) + "\n" for _ in range(60)), encoding="utf-8")
    settings = {
        "data": {"path": str(data)},
        "model": {"family": "encoder", "kind": "gru", "width": 8},
        "training": {"select": "balanced_accuracy", "evaluate_every": 2},
        "expected": {"metric": "balanced_accuracy"},
    }
    assert compose(table({**settings, "training": {"evaluate_every": 2}})).resolved().ideas is not None
    run = assert_trained_resumed_and_remembered(settings, "metric.py", tmp_path)
    result = json.loads(firth("evaluate", str(run), "--json").out)
    recalls = [one["recall"] for one in result["classes"]]
    assert result["balanced_accuracy"] == pytest.approx(sum(recalls) / len(recalls))
    assert f"balanced accuracy   {result['balanced_accuracy']:.4f}" in firth("evaluate", str(run)).out
    with pytest.raises(ConfigError, match=r"or \"balanced_accuracy\"\. Did you mean \"balanced_accuracy\"\?"):
        compose(table({**settings, "training": {"select": "balanced_acuracy"}}))
    with pytest.raises(ConfigError, match=r'training\.select is "balanced_accuracy"; for next-token choose "loss"\.'):
        compose(table({"data": {"path": "a"}, "training": {"select": "balanced_accuracy"}}))


def test_a_metric_of_texts_measures_translations(tmp_path: Path, use: Any) -> None:
    use(FILES / "metric.py")
    scores = measures(["a b a b", "c d"], ["a b", "c d"], [2, 2], lower=False, language=None)
    assert flat(scores)["distinct_2"] == pytest.approx(3 / 4)  # a b, b a, a b, c d
    settings, example = RECORDS["sentence pairs"]
    data = tmp_path / "pairs.jsonl"
    draw = Random(0)
    data.write_text("".join(json.dumps(example(draw)) + "\n" for _ in range(60)), encoding="utf-8")
    select = {"data": {"path": str(data)}, "training": {"select": "distinct_2", "evaluate_every": 1}}
    run = train_recipe(compose(table(merged(settings, select), steps=2)), tmp_path / "run")
    logged = json.loads((run.path / "log.jsonl").read_text(encoding="utf-8").splitlines()[-1])["valid"]
    assert logged["distinct_2"] == firth.load(run.path, "cpu").evaluate(split="valid")["distinct_2"]


def test_every_metric_of_a_task_is_described() -> None:
    assert {name for task in TASKS for name in task.metrics} <= set(METRICS.kinds)
    assert all(one.about for one in METRICS)


def test_a_metric_that_is_no_number_is_refused(use: Any, tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    text = (FILES / "metric.py").read_text(encoding="utf-8")
    own.write_text(text.replace("return len(set(pairs)) / max(1, len(pairs))", "return pairs"), encoding="utf-8")
    use(own)
    with pytest.raises(DataError, match=r"the metric distinct_2 is \[.*\]; expected a number"):
        measures(["a b"], ["a b"], [2], lower=False, language=None)


PLAIN = {"text": "the list is empty. a name is in the set.\n" * 40}
ENCODER = {"family": "encoder", "kind": "gru", "width": 8}
LEARNS: dict[str, Table] = {
    "classification": {"data": {"name": "mine"}, "model": ENCODER},
    "next-token": {"data": PLAIN},
    "masked": {"data": PLAIN, "model": ENCODER},
    "translation": {"data": {"name": "mine"}, **RECORDS["sentence pairs"][0]},
}


@pytest.mark.parametrize("kind", ["classification", *(pytest.param(kind, marks=pytest.mark.long) for kind in [*LEARNS][1:])])
def test_an_objective_is_trained_resumed_and_remembered(kind: str, tmp_path: Path, use: Any) -> None:
    use(FILES / "objective.py")
    holds: Holds = "sentence pairs" if kind == "translation" else "labelled texts"
    origin = ideas._used["mine"] = Origin("mine.py", f"sha256:{kind}")
    DATA_SETS.join(DataSet("mine", "a test", made=holds, example=RECORDS[holds][1], sizes=(40, 10, 10)), origin)
    usual = merged(LEARNS[kind], {"objective": {"kind": kind}})
    run = assert_trained_resumed_and_remembered(merged(usual, {"objective": {"loss": "focal"}}), "objective.py", tmp_path)
    other = train_recipe(compose(table(usual)), tmp_path / "usual").path
    focal, cross = (json.loads((path / "log.jsonl").read_text(encoding="utf-8").splitlines()[0]) for path in (run, other))
    assert focal["loss"] < cross["loss"]
    assert firth.load(run, "cpu").evaluate(progress=False)["loss"] > 0


SEQ2SEQ = {"family": "seq2seq", "kind": "gru", "width": 8}
LINES = {"data": {"text": "the list is empty.\na name is in the set.\n" * 40}, "training": {"evaluate_every": 1}}
MEASURED: dict[str, Table] = {
    "tagging": RECORDS["tagged words"][0],
    "answer": RECORDS["questions"][0],
    "conversation": {**RECORDS["conversations"][0], "decoding": {"tokens": 8}},
    "conversation/answer": merged(RECORDS["conversations"][0], {"objective": {"per": "answer"}, "decoding": {"tokens": 8}}),
    "span-corruption": {**LINES, "model": SEQ2SEQ},
    "denoising": {**LINES, "model": SEQ2SEQ},
    "in-context": swap_table("lstm", steps=2),
    "caption": caption_table({"name": "scenes", "count": 20, "size": 24, "kinds": ["one"]}, steps=2),
}
QUICK = ("tagging", "answer", "conversation")


@pytest.mark.parametrize("name", [one if one in QUICK else pytest.param(one, marks=pytest.mark.long) for one in MEASURED])
def test_every_task_of_predictions_minimises_an_own_loss_and_has_own_metrics_of_what_it_outputs(
    name: str, tmp_path: Path, use: Any
) -> None:
    use(FILES / "objective.py")
    use(FILES / "metric.py")
    kind, settings = name.partition("/")[0], MEASURED[name]
    task = TASKS[kind]
    if task.reads in RECORDS:
        origin = ideas._used["mine"] = Origin("mine.py", f"sha256:{name}")
        DATA_SETS.join(DataSet("mine", "a test", made=task.reads, example=RECORDS[task.reads][1], sizes=(40, 10, 10)), origin)
        settings = {"data": {"name": "mine"}, **settings}
    own = {"labels": "balanced_accuracy", "texts": "distinct_2"}.get(task.compares or "")
    losses, usual = [], merged(settings, {"objective": {"kind": kind}, "training": {"steps": 2, "log_every": 1}})
    usual = usual if kind in ("caption", "in-context") else table(usual)
    if own is None:
        with pytest.raises(ConfigError, match=f"distinct_2 compares texts, and {kind} is not evaluated on texts"):
            compose(merged(usual, {"training": {"select": "distinct_2"}}))
    select = {"training": {"select": own or "loss", "evaluate_every": 1}}
    for loss in ("focal", "cross-entropy"):
        run = train_recipe(compose(merged(merged(usual, select), {"objective": {"loss": loss}})), tmp_path / loss)
        lines = [json.loads(line) for line in (run.path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        losses.append(next(line["loss"] for line in lines if "loss" in line))
        assert own is None or any(own in line.get("valid", {}) for line in lines)
    assert 0 < losses[0] < losses[1]
    result = firth.load(tmp_path / "focal", "cpu").evaluate(progress=False)
    assert own is None or isinstance(result[own], float)


def test_losses_of_whole_sentences_and_of_no_predictions_refuse_an_own_one(use: Any) -> None:
    use(FILES / "objective.py")
    crf = merged(RECORDS["tagged words"][0], {"data": {"path": "a"}, "model": {"readout": "crf"}, "objective": {"loss": "focal"}})
    with pytest.raises(ConfigError, match=r'objective\.loss = "focal" .* model\.readout = "crf" scores whole sentences'):
        compose(table(crf))
    for kind in ("electra", "embedding", "in-context-regression"):
        with pytest.raises(ConfigError, match=r"objective\.loss"):
            compose(table({"data": {"path": "a"}, "model": ENCODER, "objective": {"kind": kind, "loss": "focal"}}))


def test_the_loss_of_tokens_is_the_mean_of_the_objective_over_what_is_no_padding(use: Any) -> None:
    use(FILES / "objective.py")
    draw = torch.Generator().manual_seed(0)
    x_BTd, weight_Vd = torch.randn(2, 5, 4, generator=draw).double(), torch.randn(7, 4, generator=draw).double()
    target_BT = torch.randint(7, (2, 5), generator=draw).index_fill_(1, torch.tensor([4]), -1)
    loss = cross_entropy(x_BTd, weight_Vd, None, target_BT, padded=True, row_loss=OBJECTIVES["focal"].loss)
    p_BTV = (x_BTd @ weight_Vd.T).softmax(-1)
    p = [float(p_BTV[b, t, target_BT[b, t]]) for b in range(2) for t in range(4)]
    assert float(loss) == pytest.approx(sum(-((1 - one) ** 2) * math.log(one) for one in p) / len(p))


def test_unknown_objectives_and_tasks_are_corrected(use: Any) -> None:
    use(FILES / "objective.py")
    use(FILES / "task.py")
    for given, near in (({"loss": "fokal"}, "focal"), ({"kind": "surprisel"}, "surprisal")):
        with pytest.raises(ConfigError, match=f'Did you mean "{near}"'):
            compose(table({"data": {"text": "abc" * 100}, "objective": {"kind": "next-token", **given}}))
    with pytest.raises(
        ConfigError, match=r'objective\.smoothing is 0\.1, which only applies to objective\.loss = "cross-entropy"'
    ):
        TranslationConfig(smoothing=0.1, loss="focal")
