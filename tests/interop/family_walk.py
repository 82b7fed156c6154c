"""A walk through the config.json and the weights of every family: each key set to other values or removed, each tensor changed.

`transformers` opens the same folder. Either both compute the same, or firth refuses the folder: nothing is ignored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from encoder_decoder_folders import END, PAD, ending
from foreign_encoders import HEADS, LABELS
from foreign_encoders import saved as saved_encoder
from foreign_folders import randomised, saved, transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

import firth
from firth.errors import FirthError
from firth.interop import open_folder
from firth.tasks.answer import QuestionAnsweringRun
from firth.tasks.embedding import EmbeddingRun
from firth.tasks.tagging import TaggerRun

VOCAB = 340  # a few rows more than tokens
_TOKENS = {"vocab_size": VOCAB, "bos_token_id": 1, "eos_token_id": 0}
_DECODER = _TOKENS | {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip
_GROUPED = _DECODER | {"num_key_value_heads": 2}
_FALCON = {"ffn_hidden_size": 24} | {key: value for key, value in _DECODER.items() if key != "intermediate_size"}
_OPT = {"ffn_dim": 24} | {key: value for key, value in _DECODER.items() if key != "intermediate_size"}
_BERT = {key: value for key, value in _DECODER.items() if not key.endswith("token_id")} | {"layer_norm_eps": 1e-3}
_ROBERTA = _BERT | {"type_vocab_size": 2, "pad_token_id": 1}
_DEBERTA = _BERT | {
    "relative_attention": True, "position_buckets": 6, "max_relative_positions": 16, "pos_att_type": ["p2c", "c2p"],
    "share_att_key": True, "norm_rel_ebd": "layer_norm", "position_biased_input": False, "type_vocab_size": 2,
}  # fmt: skip
_PAIRS = {"vocab_size": VOCAB, "eos_token_id": END, "pad_token_id": PAD, "decoder_start_token_id": PAD}
_T5 = _PAIRS | {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_decoder_layers": 1, "num_heads": 4}
_T5 |= {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 12}
_BART: dict[str, Any] = _PAIRS | {"d_model": 16, "max_position_embeddings": 64, "forced_eos_token_id": None}
_BART |= {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in (("attention_heads", 4), ("ffn_dim", 24))}
_BART |= {"encoder_layers": 2, "decoder_layers": 1}
_KINDS = ["sliding_attention", "full_attention"]
_WINDOWS = {"head_dim": 8, "sliding_window": 7, "query_pre_attn_scalar": 8, "layer_types": _KINDS}


@dataclass(frozen=True)
class Case:
    """A tiny model of theirs: the name of its family, the rest of its architecture, and its settings."""

    name: str
    head: str
    settings: Mapping[str, Any]
    config: str = ""
    variant: str = ""

    @property
    def title(self) -> str:
        return f"{self.name}{self.head}{self.variant and ', '}{self.variant}"

    @property
    def architecture(self) -> Any:
        return getattr(transformers, f"{self.name}{self.head}")

    @property
    def pairs(self) -> bool:
        return self.head in ("ForConditionalGeneration", "MTModel")

    def write(self, folder: Path) -> Path:
        """The folder as `transformers` writes it, with every key that it knows in config.json."""
        config = getattr(transformers, self.config or f"{self.name}Config")(**self.settings)
        if self.head in ("ForSequenceClassification", "ForTokenClassification"):
            config.id2label, config.label2id = LABELS, {label: n for n, label in LABELS.items()}
        model = self.architecture(config)
        fixed = {name: tensor.clone() for name, tensor in model.state_dict().items() if self.is_computed(name)}
        randomised(model)
        model.load_state_dict(fixed, strict=False)
        if self.pairs:
            if hasattr(model, "final_logits_bias"):
                model.final_logits_bias.normal_(generator=torch.Generator().manual_seed(2))
            saved(folder, model, ending())
        elif self.head in (*HEADS, "ForPreTraining"):
            saved_encoder(folder, model)
        else:
            saved(folder, model)
        table = config.to_dict() | json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(table))
        return folder

    def is_computed(self, name: str) -> bool:
        """True for a tensor of fixed positions."""
        return self.name in ("Marian", "Pegasus") and "embed_positions" in name


DECODERS = [
    Case("GPT2", "LMHeadModel", _TOKENS | {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    Case("Llama", "ForCausalLM", _GROUPED),
    Case("Mistral", "ForCausalLM", _GROUPED | {"sliding_window": 7}),
    Case("Qwen2", "ForCausalLM", _GROUPED),
    Case("Qwen3", "ForCausalLM", _GROUPED | {"head_dim": 8}),
    Case("GPTNeoX", "ForCausalLM", _DECODER | {"hidden_size": 32}),
    Case("Bloom", "ForCausalLM", _TOKENS | {"hidden_size": 16, "n_layer": 2, "n_head": 4}),
    Case("Gemma", "ForCausalLM", _GROUPED | {"head_dim": 8}),
    Case("Gemma2", "ForCausalLM", _GROUPED | _WINDOWS | {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}),
    Case("Gemma3", "ForCausalLM", _GROUPED | _WINDOWS, "Gemma3TextConfig"),
    Case("OPT", "ForCausalLM", _OPT),
    Case("Falcon", "ForCausalLM", _FALCON),
    Case("Olmo2", "ForCausalLM", _GROUPED),
    Case("Phi3", "ForCausalLM", _GROUPED | {"pad_token_id": 0, "sliding_window": 7}),
]
_ENCODERS: dict[str, dict[str, Any]] = {
    "Bert": _BERT,
    "Roberta": _ROBERTA,
    "XLMRoberta": _ROBERTA,
    "Camembert": _ROBERTA,
    "DistilBert": {"vocab_size": VOCAB, "dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "max_position_embeddings": 64},
    "Electra": _BERT | {"embedding_size": 12},
    "Albert": _BERT | {"embedding_size": 12, "num_hidden_layers": 4, "num_hidden_groups": 2},
    "Deberta": _BERT
    | {
        "relative_attention": True,
        "max_relative_positions": 16,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "type_vocab_size": 2,
    },
    "MPNet": _BERT | {"pad_token_id": 1},
    "ModernBert": _DECODER | {"norm_eps": 1e-3, "local_attention": 4, "pad_token_id": 0, "layer_types": _KINDS},
    "DebertaV2": _DEBERTA,
}
ENCODERS = [Case(name, head, settings) for name, settings in _ENCODERS.items() for head in HEADS] + [
    Case("Electra", "ForPreTraining", _ENCODERS["Electra"]),
    Case("Bert", "ForPreTraining", _BERT),
    Case("Albert", "ForPreTraining", _ENCODERS["Albert"]),
]
TRANSLATORS = [
    Case("T5", "ForConditionalGeneration", _T5),
    Case("MT5", "ForConditionalGeneration", _T5),
    Case("UMT5", "ForConditionalGeneration", _T5 | {"num_decoder_layers": 2}),
    Case("Bart", "ForConditionalGeneration", _BART),
    Case("Marian", "MTModel", _BART | {"scale_embedding": True}),
    Case("Pegasus", "ForConditionalGeneration", _BART | {"scale_embedding": True}),
    Case("MBart", "ForConditionalGeneration", _BART | {"scale_embedding": True}),
    Case("M2M100", "ForConditionalGeneration", _BART | {"decoder_start_token_id": END}),
]
_HALF = {"rope_theta": 100.0, "partial_rotary_factor": 0.5}
_UNTIED = {"tie_word_embeddings": False}
VARIANTS = [
    *(Case(name, "ForMaskedLM", settings | _UNTIED, variant="untied") for name, settings in _ENCODERS.items()),
    *(Case(name, "ForCausalLM", _GROUPED | {"tie_word_embeddings": True}, variant="tied") for name in ("Llama", "Qwen2")),
    Case("GPTNeoX", "ForCausalLM", _DECODER | {"hidden_size": 32, "tie_word_embeddings": True}, variant="tied"),
    Case("Falcon", "ForCausalLM", _FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2}, variant="40B"),
    Case("Falcon", "ForCausalLM", _FALCON | {"alibi": True, "multi_query": False, "parallel_attn": False}, variant="RW"),
    Case(
        "Phi3", "ForCausalLM", _GROUPED | {"pad_token_id": 0, "rope_parameters": _HALF | {"rope_type": "default"}}, variant="half"
    ),
    Case("OPT", "ForCausalLM", _OPT | _UNTIED | {"do_layer_norm_before": False}, variant="post"),
    Case("T5", "ForConditionalGeneration", _T5 | _UNTIED | {"feed_forward_proj": "gated-gelu"}, variant="1.1"),
    Case(
        "Qwen2",
        "ForCausalLM",
        _GROUPED | {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
        variant="windows",
    ),
]
CASES = [*DECODERS, *ENCODERS, *TRANSLATORS, *VARIANTS]

# Keys that a config.json may have besides those of today's config classes: other spellings, older keys, settings of relatives.
MORE: dict[str, list[Any]] = {
    "add_bias_logits": [True],
    "add_cross_attention": [True],
    "add_final_layer_norm": [True],
    "attention_bias": [True],
    "attn_logit_softcapping": [5.0],
    "embedding_size": [12],
    "extra_pos_embeddings": [0],
    "final_logit_softcapping": [5.0],
    "global_attn_every_n_layers": [2],
    "head_dim": [4],
    "hidden_act": ["relu"],
    "hidden_size": [12],
    "is_decoder": [True],
    "layer_norm_eps": [0.1],
    "layer_types": [["full_attention", "full_attention"]],
    "logit_scale": [2.0],
    "mlp_bias": [True],
    "n_inner": [24],
    "normalize_before": [True],
    "num_attention_heads": [2],
    "num_hidden_layers": [1],
    "num_labels": [2],
    "partial_rotary_factor": [0.5],
    "position_embedding_type": ["relative_key", "rope"],
    "pruned_heads": [{"0": [1]}],
    "rope_interleaved": [True],
    "rope_scaling": [{"type": "linear", "factor": 4.0}, {"rope_type": "yarn", "factor": 4.0}],
    "rope_theta": [50.0],
    "rotary_emb_base": [50],
    "rotary_pct": [0.5],
    "scale_attn_weights": [False],
    "scale_decoder_outputs": [True, False],
    "seq_length": [32],
    "sliding_window": [3],
    "sliding_window_pattern": [2],
    "static_position_embeddings": [True],
    "tie_encoder_decoder": [True],
    "torch_dtype": ["bfloat16"],
    "type_vocab_size": [1],
    "use_bidirectional_attention": [True],
    "use_sliding_window": [True],
}
_ACTIVATIONS = [
    "gelu",
    "gelu_new",
    "gelu_pytorch_tanh",
    "gelu_fast",
    "quick_gelu",
    "relu",
    "relu2",
    "silu",
    "swish",
    "tanh",
    "mish",
]
_WORDS = {
    "feed_forward_proj": ["relu", "gelu", "silu", "gated-gelu", "gated-silu", "gated-relu"],
    "position_embedding_type": ["absolute", "relative_key", "relative_key_query"],
    "norm_rel_ebd": ["none", "layer_norm"],
    "rope_type": ["linear", "dynamic", "yarn", "longrope", "llama3", "proportional"],
    "problem_type": ["regression", "single_label_classification", "multi_label_classification"],
    "classifier_pooling": ["cls", "mean"],
    "summary_type": ["last", "mean", "first"],
}
_ROPE = [
    {"rope_type": "linear", "rope_theta": 100.0, "factor": 4.0},
    {"rope_type": "dynamic", "rope_theta": 100.0, "factor": 4.0},
    {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16},
    {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16, "attention_factor": 2.0},
    {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 8.0},
    {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 2.0},
    {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16, "truncate": False},
    {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0},
    {"rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 16},
    {"rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 2.0,
     "original_max_position_embeddings": 16},
    {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
]  # fmt: skip
# What a folder is, rather than what its model computes.
UNCHANGED = ("architectures", "model_type", "transformers_version", "id2label", "label2id")
_REMOVED = object()
# Neutral where they can run: their default padding is a row that the tiny embedding lacks. Null is what a missing key is.
THEIRS_FAILS = (("Marian", "without pad_token_id"), ("ModernBert", "without pad_token_id"))


def other_values(key: str, value: Any) -> list[Any]:
    """Values of the same key that a config.json may have."""
    match value:
        case bool():
            others: list[Any] = [not value]
        case int():
            others = [value + 1, value // 2, 0]
        case float():
            others = [2 * value + 0.1]
        case str():
            others = _WORDS.get(key, _ACTIVATIONS if "act" in key else ["something"])
        case None:
            others = [*_WORDS.get(key, _ACTIVATIONS[:2] if "act" in key else []), *([] if "dropout" in key else [True, 3]), 0.5]
        case list():
            others = [value[::-1], value[:1] * len(value), value[-1:] * len(value), value[:1], []]
        case dict():
            others = [changed for inner, old in value.items() for changed in _with_others(value, inner, old, nested=True)]
            if "rope_type" in value:
                others += _ROPE
    return [one for one in others if one != value] + ([_REMOVED] if value is None else [None, _REMOVED])


def _with_others(table: Mapping[str, Any], key: str, old: Any, nested: bool = False) -> Iterator[dict[str, Any]]:
    rest = {name: value for name, value in table.items() if name != key}
    for new in other_values(key, old):
        if new is _REMOVED:
            yield rest
        elif new is not None or not nested:
            yield {**rest, key: new}


def changed_keys(table: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each change, in words, and the config.json with it."""
    for key, old in table.items():
        if key not in UNCHANGED:
            for changed in _with_others(table, key, old):
                yield f"{key} = {json.dumps(changed[key])}" if key in changed else f"without {key}", changed
    for key, values in MORE.items():
        for new in values:
            if key not in table:
                yield f"{key} = {json.dumps(new)}", {**table, key: new}


@dataclass(frozen=True)
class Finding:
    change: str
    verdict: str  # "same", "refused", "only ours" (they refuse the values), or a fault: "differs", "guessed", "error"
    what: str = ""


def compared(case: Case, folder: Path, change: str) -> Finding:
    """The output of both libraries for a folder."""
    try:
        ours_all = our_outputs(firth.load(folder, "cpu"))
    except FirthError as error:
        return Finding(change, "error" if "\n" in str(error) else "refused", str(error))
    except Exception as error:
        return Finding(change, "error", f"{type(error).__name__}: {error}")
    expected = _theirs(case, folder)
    # null is what a missing key is; some of their models cannot run with it. Their default for a missing padding id, such as
    # 58100, is no row of so small an embedding.
    if expected == "guessed" and (change.endswith("null") or change == "without pad_token_id"):
        expected = "only ours"
    if isinstance(expected, str):
        return Finding(change, expected)
    apart = max(
        float((ours - theirs).abs().max() / theirs.abs().max()) if ours.shape == theirs.shape else float("inf")
        for ours, theirs in zip(ours_all, expected, strict=True)
    )
    return Finding(change, "same" if apart <= 1e-4 else "differs", f"{apart:.2g}")


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    """token_BT, length_B, and which tokens are no padding."""
    length_B = torch.tensor([20, 7])
    token_BT = torch.randint(5, 140, (2, 20), generator=torch.Generator().manual_seed(1))
    seen_BT = torch.arange(20) < length_B[:, None]
    return token_BT.masked_fill(~seen_BT, PAD), length_B, seen_BT


def _theirs(case: Case, folder: Path) -> list[Tensor] | str:
    """A verdict where they refuse the folder, or would fill what is missing with random numbers."""
    try:
        case.architecture.config_class.from_pretrained(folder)
    except Exception:
        return "only ours"
    try:
        opened, report = case.architecture.from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
        if report["missing_keys"] or report["mismatched_keys"]:
            return "guessed"
        for module in opened.modules():  # how a call returns, not what
            if hasattr(module, "config"):
                module.config.return_dict = True
                module.config.output_attentions = False  # with it, their Falcon adds its mask of bools as ones
        with torch.inference_mode():
            return their_outputs(case, opened.eval())
    except Exception:
        return "guessed"


def their_outputs(case: Case, model: Any) -> list[Tensor]:
    token_BT, _, seen_BT = inputs()
    if case.pairs:
        out = model(token_BT, attention_mask=seen_BT.long(), decoder_input_ids=token_BT[:, :7], return_dict=True)
        return [out.logits]
    if case.head in ("ForCausalLM", "LMHeadModel"):
        return [model(token_BT[:1], return_dict=True).logits]
    more: dict[str, Any] = {}
    if case.head == "ForQuestionAnswering" and getattr(model.config, "type_vocab_size", 0) > 1:
        more = {"token_type_ids": (torch.arange(20) >= 3).long().expand(2, 20)}
    out = model(token_BT, attention_mask=seen_BT.long(), return_dict=True, **more)
    match case.head:
        case "Model":
            pooled = out.get("pooler_output")
            return [out.last_hidden_state[seen_BT], *([] if pooled is None else [pooled])]
        case "ForSequenceClassification":
            return [out.logits]
        case "ForQuestionAnswering":
            seen_BT = _passage(seen_BT)
            return [out.start_logits[seen_BT], out.end_logits[seen_BT]]
        case "ForPreTraining" if case.name in ("Bert", "Albert"):
            return [out.prediction_logits[seen_BT]]
        case _:
            return [out.logits[seen_BT]]


def _passage(seen_BT: Tensor) -> Tensor:
    """The tokens after a question of three, without the last, [SEP]."""
    last_B = seen_BT.sum(1, keepdim=True) - 1
    return (torch.arange(20) >= 3) & (torch.arange(20) < last_B)


@torch.inference_mode()
def our_outputs(run: Any) -> list[Tensor]:
    """The same of ours."""
    token_BT, length_B, seen_BT = inputs()
    network, family = run.network, run.recipe.model.family
    if family == "seq2seq":
        return [network(token_BT, length_B, token_BT[:, :7])]
    if family == "language":
        return [network(token_BT[:1])[0]]
    match run:
        case EmbeddingRun():
            from firth.inspection.contextual_vectors import layers

            state_BTd = layers(network, token_BT, length_B)[-1]
            return [state_BTd[seen_BT], *([] if network.pooler is None else [network.pooler(state_BTd[:, 0])])]
        case TaggerRun():
            every_BT = torch.arange(20).expand(2, 20)
            return [network(token_BT, length_B, every_BT, torch.zeros(2, 20, 1, dtype=torch.int64))[seen_BT]]
        case QuestionAnsweringRun():
            seen_BT = _passage(seen_BT)
            start_BT, end_BT = network(token_BT, length_B, torch.tensor([3, 3]))
            return [start_BT[seen_BT], end_BT[seen_BT]]
    output = network(token_BT, length_B)
    return [output if output.dim() == 2 and len(output) == 2 and output.shape[1] != 20 else output[seen_BT]]


def walk_keys(case: Case, folder: Path, every: int = 1) -> Iterator[Finding]:
    """The folder as it is, and with each `every`-th change of its config.json."""
    path = folder / "config.json"
    good = path.read_text()
    yield compared(case, folder, "unchanged")
    for change, table in islice(changed_keys(json.loads(good)), 0, None, every):
        path.write_text(json.dumps(table))
        yield compared(case, folder, change)
    path.write_text(good)


def walk_tensors(case: Case, folder: Path, every: int = 1) -> Iterator[Finding]:
    """Each `every`-th tensor with other values, and so each that firth knows and the file lacks."""
    path = folder / "model.safetensors"
    good = load_file(path)
    draw = torch.Generator().manual_seed(3)
    for name, tensor in islice((good | _lacking(folder, good)).items(), 0, None, every):
        noise = torch.randn(tensor.shape, generator=draw) / 4
        save_file({**good, name: tensor + noise}, path, metadata={"format": "pt"})
        yield compared(case, folder, name)
    save_file(good, path, metadata={"format": "pt"})


def _lacking(folder: Path, good: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies and other tensors that an older file may hold, one layer's of each."""
    opened = open_folder(folder)
    table = opened.family.weights_of(opened.model)
    copies = {
        name: good[origin] if isinstance(origin, str) else origin(opened.model).float() for name, origin in table.repeated.items()
    }
    names = {name.format(n=0, p=kind) for name in table.ignored for kind in ("weight", "bias")}
    return {name: tensor for name, tensor in (dict.fromkeys(sorted(names), torch.ones(3)) | copies).items() if name not in good}
