"""The models in this folder: a tiny one of every family of public models, kept as text, and what firth says with it.

    PYTHONPATH=.:tests:tests/interop python tests/interop/public_models/make.py [NAME…]

It needs `transformers`, which writes config.json, the tokenizer, and the names and shapes of the weights. The test does not: it
draws the weights by name from a seed (tests/old_runs/drawn/make.py). Whether the numbers are right is shown by the other tests of
this folder, with `transformers` as the oracle; these show that they stay.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from family_walk import Case

HERE = Path(__file__).parent
NAMES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
ENCODERS = ("BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification", "BertForQuestionAnswering")
ENCODERS += ("RobertaForMaskedLM", "XLMRobertaForSequenceClassification", "CamembertForTokenClassification")
ENCODERS += ("DistilBertForMaskedLM", "DistilBertForSequenceClassification", "ElectraForPreTraining", "ElectraForMaskedLM")
ENCODERS += ("ElectraForSequenceClassification", "ModernBertForMaskedLM", "DebertaV2ForMaskedLM", "DebertaV2Model")
ENCODERS += ("DebertaV2ForQuestionAnswering", "BertForPreTraining", "ModernBertForSequenceClassification")
ENCODERS += ("AlbertForMaskedLM", "AlbertForSequenceClassification", "MPNetForMaskedLM", "MPNetModel")
ENCODERS += ("DebertaForMaskedLM", "DebertaForQuestionAnswering")
VARIANTS = ("Llama, tied", "T5, 1.1", "Qwen2, windows", "Falcon, 40B", "Falcon, RW", "Phi3, half")


def main() -> None:
    from family_walk import CASES, DECODERS, TRANSLATORS
    from old_runs.drawn.make import KEPT, expect, keep

    from firth.api import import_model

    plain = {case.title: case for case in (*DECODERS, *TRANSLATORS)}
    chosen = plain | {case.title: case for case in CASES if case.title in ENCODERS}
    chosen |= {case.title: case for case in CASES if f"{case.name}, {case.variant}" in VARIANTS}
    gemma = plain["Gemma2ForCausalLM"]  # elsewhere this scale is that of the width of a head
    scaled = dataclasses.replace(gemma, settings=gemma.settings | {"query_pre_attn_scalar": 12}, variant="scale")
    chosen[scaled.title] = scaled
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for title, case in chosen.items():
            if sys.argv[1:] and title not in sys.argv[1:]:
                continue
            name = title.replace(", ", "-").replace(".", "_")
            model = case.write(folder / name)
            _drop_computed(case, model / "model.safetensors")
            keep(model, HERE / name, NAMES, HERE / "tokenizers")
            expect(HERE / name, folder)
            print(title, flush=True)
            if title in ("GPT2LMHeadModel", "LlamaForCausalLM", "BertForMaskedLM", "T5ForConditionalGeneration"):
                run = import_model(model, folder / f"{name}-imported")
                keep(Path(run), HERE / f"{name}-imported", KEPT, HERE / "tokenizers")
                expect(HERE / f"{name}-imported", folder)
    used = {place for path in HERE.glob("*/weights.json") for place in json.loads(path.read_text())["shared"].values()}
    for path in (HERE / "tokenizers").iterdir():
        if f"../tokenizers/{path.name}" not in used:  # a vocabulary that is learned again may be another one
            path.unlink()


def _drop_computed(case: Case, path: Path) -> None:
    """Leave out tensors that are computed: the weights that the test draws would have other values."""
    from safetensors.torch import load_file, save_file

    weights = load_file(path)
    kept = {name: tensor for name, tensor in weights.items() if not case.is_computed(name)}
    if len(kept) < len(weights):
        save_file(kept, path, metadata={"format": "pt"})


if __name__ == "__main__":
    main()
