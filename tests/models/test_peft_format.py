"""Adapters in peft's format: `peft` reads ours and we read its, for GPT-2 and LLaMA of the same weights."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from test_adapters import language, lora, shaken
from test_hugging_face import gpt2, llama, made, tokens

from firth.errors import DataError
from firth.layers.lora import Target
from firth.models import TransformerLM
from firth.models.adapters import adapt, freeze, merged_weights
from firth.models.peft_format import CONFIG, WEIGHTS, Slot, load_adapter, save_adapter

os.environ.setdefault("HF_HUB_OFFLINE", "1")

DEPTH = 3


def llama_table() -> dict[str, Slot]:
    names: dict[str, tuple[str, Target]] = {
        "self_attn.q_proj": ("attention.qkv", "query"),
        "self_attn.k_proj": ("attention.qkv", "key"),
        "self_attn.v_proj": ("attention.qkv", "value"),
        "self_attn.o_proj": ("attention.out", "output"),
        "mlp.gate_proj": ("feedforward.up", "gate"),
        "mlp.up_proj": ("feedforward.up", "up"),
        "mlp.down_proj": ("feedforward.down", "down"),
    }
    return {
        f"model.layers.{n}.{there}": Slot(f"blocks.{n}.{here}", (role,))
        for n in range(DEPTH)
        for there, (here, role) in names.items()
    }


def gpt2_table() -> dict[str, Slot]:
    names: dict[str, tuple[str, tuple[Target, ...]]] = {
        "attn.c_attn": ("attention.qkv", ("query", "key", "value")),
        "attn.c_proj": ("attention.out", ("output",)),
        "mlp.c_fc": ("feedforward.up", ("up",)),
        "mlp.c_proj": ("feedforward.down", ("down",)),
    }
    return {
        f"transformer.h.{n}.{there}": Slot(f"blocks.{n}.{here}", roles)
        for n in range(DEPTH)
        for there, (here, roles) in names.items()
    }


GPT2 = {"position": "learned", "norm": "layer", "activation": "gelu", "bias": True}
LLAMA = {"position": "rotary", "norm": "rms", "activation": "swiglu", "kv_heads": 2}
FAMILIES: dict[str, tuple[dict[str, Any], Any, Any, list[str]]] = {
    "gpt2": (GPT2, gpt2, gpt2_table, ["c_attn", "mlp.c_proj"]),
    "llama": (LLAMA, llama, llama_table, ["q_proj", "v_proj", "gate_proj", "down_proj"]),
}


def adapted_model(options: dict[str, Any], targets: tuple[str, ...]) -> TransformerLM:
    model = made(**options)
    adapt(model, lora(rank=2, alpha=3.0, targets=targets), torch.Generator().manual_seed(0))
    freeze(model)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(len(parameter)))
    return model.eval()


@pytest.fixture(scope="module")
def peft() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("peft", reason="the oracle of adapters")


@pytest.mark.long  # peft takes ten seconds to import
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("targets", [("query", "value"), ("query", "key", "value", "output", "up", "down"), ("key", "down")])
def test_peft_reads_our_adapter_and_gives_the_same_logits(
    family: str, targets: tuple[str, ...], peft: Any, tmp_path: Path
) -> None:
    options, theirs_of, table, _ = FAMILIES[family]
    model = adapted_model(options, targets)
    save_adapter(model, tmp_path, table(), base="a tiny model", transposed=family == "gpt2")
    theirs = theirs_of(made(**options))
    with torch.no_grad():
        plain = theirs(tokens()).logits
        adapted = peft.PeftModel.from_pretrained(theirs, tmp_path).eval()(tokens()).logits
        ours = model(tokens())[0]
    torch.testing.assert_close(adapted, ours, rtol=1e-4, atol=1e-4)
    assert (plain - ours).abs().max() > 0.1


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("more", ["plain", "rslora", "patterns"])
def test_we_read_an_adapter_that_peft_saved(family: str, more: str, peft: Any, tmp_path: Path) -> None:
    options, theirs_of, table, modules = FAMILIES[family]
    model = made(**options)
    patterns = {"rank_pattern": {modules[0]: 5}, "alpha_pattern": {modules[-1]: 7}}
    settings = {"plain": {}, "rslora": {"use_rslora": True}, "patterns": patterns}[more]
    torch.manual_seed(0)
    config = peft.LoraConfig(
        r=4, lora_alpha=6, target_modules=modules, init_lora_weights=False, fan_in_fan_out=family == "gpt2", **settings
    )
    theirs = peft.get_peft_model(theirs_of(model), config).eval()
    theirs.save_pretrained(tmp_path)
    load_adapter(model, tmp_path, table())
    with torch.no_grad():
        expected, ours = theirs(tokens()).logits, model.eval()(tokens())[0]
        plain = made(**options)
        before = plain(tokens())[0]
        plain.load_state_dict(merged_weights(model))
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(plain(tokens())[0].detach(), expected, rtol=1e-4, atol=1e-4)
    assert (before - expected).abs().max() > 0.1


def test_what_is_saved_is_read_back_under_our_own_names(tmp_path: Path) -> None:
    model, fresh, token_BT = language(), language(), torch.arange(10).view(2, 5)
    adapt(model, lora(), torch.Generator().manual_seed(0))
    freeze(model, ["norm.weight"])
    shaken(model)
    with torch.no_grad():
        model.get_parameter("norm.weight").mul_(1.5)
    save_adapter(model, tmp_path)
    told = json.loads((tmp_path / CONFIG).read_text())
    assert (told["peft_type"], told["r"], told["lora_alpha"], told["modules_to_save"]) == ("LORA", 2, 3.0, ["norm"])
    assert "blocks.0.attention.query" in told["target_modules"]
    load_adapter(fresh, tmp_path)
    torch.testing.assert_close(fresh(token_BT)[0], model(token_BT)[0], rtol=0, atol=1e-12)


def test_an_adapter_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    model = language()
    adapt(model, lora(), torch.Generator().manual_seed(0))
    save_adapter(model, tmp_path / "a")
    with pytest.raises(DataError, match="no place for"):
        load_adapter(language(depth=1), tmp_path / "a")
    with pytest.raises(DataError, match=r"has the shape|is for 8 rows"):
        load_adapter(language(width=16), tmp_path / "a")
    with pytest.raises(DataError, match=r"table of names has no place for 14 adapters, the first of blocks\.0"):
        save_adapter(model, tmp_path / "b", {})
    for key, value, message in (("peft_type", "IA3", "does not describe a LoRA"), ("use_dora", True, "use_dora = True")):
        other = Path(shutil.copytree(tmp_path / "a", tmp_path / key))
        told = json.loads((other / CONFIG).read_text())
        (other / CONFIG).write_text(json.dumps(told | {key: value}))
        with pytest.raises(DataError, match=message):
            load_adapter(language(), other)
    (tmp_path / "a" / WEIGHTS).write_bytes(b"no")
    with pytest.raises(DataError, match="no readable adapter"):
        load_adapter(language(), tmp_path / "a")


HOSTILE: dict[str, tuple[Any, str]] = {
    "init_lora_weights": ("pissa", "init_lora_weights = 'pissa', which is not supported"),
    "alora_invocation_tokens": ([1], r"alora_invocation_tokens = \[1\]"),
    "layer_replication": ([[0, 2]], "layer_replication"),
    "a_key_of_tomorrow": (2, "a_key_of_tomorrow = 2, which is not supported"),
    "lora_alpha": (float("nan"), "no usable lora_alpha .* nan is not finite"),
    "alpha_pattern": ({"(.*a)*b": 1}, r"the key '\(\.\*a\)\*b' of alpha_pattern is no plain pattern"),
}


@pytest.mark.parametrize("key", HOSTILE)
def test_an_adapter_with_settings_that_change_the_computation_is_refused(key: str, tmp_path: Path) -> None:
    value, message = HOSTILE[key]
    model = language()
    adapt(model, lora(), torch.Generator().manual_seed(0))
    save_adapter(model, tmp_path)
    told = json.loads((tmp_path / CONFIG).read_text())
    (tmp_path / CONFIG).write_text(json.dumps(told | {key: value}))
    with pytest.raises(DataError, match=message):
        load_adapter(language(), tmp_path)


def test_an_adapter_with_numbers_that_are_not_finite_is_refused(tmp_path: Path) -> None:
    model = language()
    adapt(model, lora(), torch.Generator().manual_seed(0))
    with torch.no_grad():
        next(one for name, one in model.named_parameters() if name.endswith(".a"))[0, 0] = float("inf")
    save_adapter(model, tmp_path)
    with pytest.raises(DataError, match=r"1 of \d+ numbers of base_model.* in .*adapter_model\.safetensors are not finite"):
        load_adapter(language(), tmp_path)
