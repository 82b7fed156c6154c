"""Nothing in a public model is ignored: every key of its config.json and every tensor is computed as in `transformers`, is known
to change nothing, or is refused."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from family_walk import CASES, Case, Finding, walk_keys, walk_tensors
from foreign_folders import transformers

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
    pytest.mark.usefixtures("_quiet"),
]
# Families that share the code of another, and heads whose keys are those of another head: only their tensors are walked.
_SAME_KEYS = ("XLMRoberta", "Camembert")
_SAME_HEADS = ("ForTokenClassification", "ForQuestionAnswering")
KEYS = [case for case in CASES if case.name not in _SAME_KEYS and case.head not in _SAME_HEADS]
# What was once wrong without a word, and a sample of each kind of model.
QUICK = {
    "MT5ForConditionalGeneration": (37, 19),
    "BertForMaskedLM, untied": (47, 23),
    "DebertaV2ForMaskedLM, untied": (193, 79),
    "BloomForCausalLM": (37, 13),
    "AlbertForMaskedLM": (97, 31),
    "MPNetForMaskedLM": (97, 31),
    "DebertaForMaskedLM": (97, 31),
    "ModernBertForSequenceClassification": (97, 31),
}


@pytest.fixture
def _quiet() -> Iterable[None]:
    transformers.logging.set_verbosity_error()
    yield
    transformers.logging.set_verbosity_warning()


def titles(cases: Iterable[Case]) -> list[str]:
    return [case.title for case in cases]


def assert_no_fault(compared_cases: Iterable[Finding]) -> None:
    findings = list(compared_cases)
    faults = [
        f"{one.change}: {one.verdict} {one.what}" for one in findings if one.verdict not in ("same", "refused", "only ours")
    ]
    assert not faults, "\n".join(faults)
    assert findings[0].verdict == "same"
    assert sum(one.verdict == "same" for one in findings) > len(findings) // 4  # a reader that refuses everything would pass


@pytest.mark.parametrize("case", [case for case in CASES if case.title in QUICK], ids=lambda case: case.title)
def test_a_few_keys_and_tensors_are_computed_as_theirs_or_refused(case: Case, tmp_path: Path) -> None:
    keys, tensors = QUICK[case.title]
    folder = case.write(tmp_path / "model")
    assert_no_fault([*walk_keys(case, folder, keys), *walk_tensors(case, folder, tensors)])


@pytest.mark.long
@pytest.mark.parametrize("case", KEYS, ids=titles(KEYS))
def test_every_key_is_computed_as_theirs_or_refused(case: Case, tmp_path: Path) -> None:
    assert_no_fault(walk_keys(case, case.write(tmp_path / "model")))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=titles(CASES))
def test_every_tensor_counts_as_theirs_or_is_refused(case: Case, tmp_path: Path) -> None:
    assert_no_fault(walk_tensors(case, case.write(tmp_path / "model")))
