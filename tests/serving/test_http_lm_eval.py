"""lm_eval's local-completions: the log-likelihoods of a task over the HTTP API are those of `run.score`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from http_servers import serving

import firth
from firth.api import compose, train_recipe
from firth.tasks.next_token import LanguageModelRun

# Texts at the beginning of a document, after <eos>, as `score` reads them.
PAIRS = [("the list is empty.", "the list is a set."), ("a name is in the set.", "日本語"), ("the café serves users.", "set")]

CODE = """
import json, sys
import lm_eval
from lm_eval.tasks import TaskManager
address, model, tokenizer, folder = sys.argv[1:]
arguments = f"model={model},base_url={address}/completions,tokenizer={tokenizer},tokenizer_backend=huggingface,num_concurrent=2"
scored = lm_eval.simple_evaluate("local-completions", model_args=arguments, tasks=["lines"], batch_size=3, log_samples=True,
    task_manager=TaskManager(include_path=folder, include_defaults=False), bootstrap_iters=0)
print(json.dumps([[one["doc"], [float(value[0]) for value in one["filtered_resps"]]] for one in scored["samples"]["lines"]]))
"""

TASK = """
task: lines
dataset_path: json
dataset_kwargs: {{data_files: {{validation: {file}}}}}
output_type: multiple_choice
validation_split: validation
doc_to_text: ""
doc_to_choice: "{{{{[one, other]}}}}"
doc_to_target: 0
target_delimiter: ""
metric_list: [{{metric: acc}}]
"""


@pytest.mark.long
def test_loglikelihoods_are_those_of_score(tmp_path: Path) -> None:
    pytest.importorskip("lm_eval", reason="needs lm_eval[api]")
    pytest.importorskip("tenacity", reason="needs lm_eval[api]")
    lines = [text for pair in PAIRS for text in pair]
    (tmp_path / "text.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in lines * 8), encoding="utf-8")
    table = {
        "data": {"path": str(tmp_path / "text.jsonl"), "valid": 0.1},
        "tokenizer": {"kind": "bpe", "vocab": 290},
        "model": {"kind": "transformer", "width": 32, "depth": 1, "heads": 2, "position": "rotary", "norm": "rms"},
        "training": {"steps": 30, "batch": 8, "context": 64, "rate": 0.01, "device": "cpu"},
    }
    run_path = train_recipe(compose(table), tmp_path / "gpt").path  # type: ignore[arg-type]
    firth.export_model(run_path, tmp_path / "exported")  # with the tokenizer as transformers reads it
    questions = tmp_path / "questions.jsonl"
    rows = [{"one": one, "other": other} for one, other in PAIRS]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "lines.yaml").write_text(TASK.format(file=questions), encoding="utf-8")
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}
    with serving(run_path) as served:
        command = [sys.executable, "-c", CODE, served.url, "gpt", str(tmp_path / "exported"), str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    log_likelihoods = json.loads(done.stdout.strip().splitlines()[-1])
    run = firth.load(run_path, "cpu")
    assert isinstance(run, LanguageModelRun)
    assert run.tokenizer.eos is not None
    assert len(log_likelihoods) == len(PAIRS)
    for document, values in log_likelihoods:
        expected = [score.log_probability for score in run.score([document["one"], document["other"]])]
        assert values == pytest.approx(expected, abs=1e-3), document
