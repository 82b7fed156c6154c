"""Settings of public encoders that firth does not compute, and models of ours that a family cannot express, are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from foreign_encoders import BERT, built, saved

import firth
from firth.errors import ConfigError, DataError
from firth.interop import FAMILIES, Family
from firth.models import TransformerEncoderConfig
from firth.models.config import transformer

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # of DeBERTa
ALBERT = BERT | {"embedding_size": 20}
MPNET = BERT | {"pad_token_id": 1}
DEBERTA = BERT | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}
MODERNBERT = BERT | {"pad_token_id": 0}

CHANGED: dict[str, tuple[str, str, dict[str, Any], dict[str, Any], str]] = {
    "two layers in a group": ("Albert", "Model", ALBERT, {"inner_group_num": 2}, "inner_group_num is 2; firth only computes 1"),
    "uneven groups": ("Albert", "Model", ALBERT, {"num_hidden_groups": 2}, r"model\.layer_groups = 2 does not divide"),
    "wide embedding": ("Albert", "Model", ALBERT, {"embedding_size": 32}, "embedding_size is 32, as hidden_size"),
    "activation": (
        "Albert",
        "ForMaskedLM",
        ALBERT,
        {"hidden_act": "gelu_fast"},
        "hidden_act is 'gelu_fast'; firth only computes",
    ),
    "buckets": (
        "MPNet",
        "Model",
        MPNET,
        {"relative_attention_num_buckets": 16},
        "relative_attention_num_buckets is 16; firth only",
    ),
    "padding": ("MPNet", "Model", MPNET, {"pad_token_id": 0}, "pad_token_id is 0; firth only computes 1"),
    "talking heads": ("Deberta", "Model", DEBERTA, {"talking_head": True}, "talking_head is True; firth only computes False"),
    "absolute positions": ("Deberta", "Model", DEBERTA, {"position_biased_input": True}, "position_biased_input is True"),
    "one kind of distance": ("Deberta", "Model", DEBERTA, {"pos_att_type": ["c2p"]}, "firth only computes 'p2c|c2p'"),
    "ranges of distance": ("Deberta", "Model", DEBERTA, {"position_buckets": 8}, "does not know: position_buckets = 8"),
    "other pooling": (
        "ModernBert",
        "ForSequenceClassification",
        MODERNBERT,
        {"classifier_pooling": "max"},
        "classifier_pooling is 'max'; firth only computes 'cls' or 'mean'",
    ),
    "biased head": (
        "ModernBert",
        "ForTokenClassification",
        MODERNBERT,
        {"classifier_bias": True},
        "classifier_bias is True; firth only computes False",
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_setting_that_is_not_computed_is_refused_by_name(name: str, tmp_path: Path) -> None:
    family, head, options, change, message = CHANGED[name]
    folder = saved(tmp_path / "model", built(family, head, **options))
    path = folder / "config.json"
    firth.load(folder, "cpu")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises((ConfigError, DataError), match=message):
        firth.load(folder, "cpu")


OWN = {"width": 16, "depth": 2, "norm.kind": "layer", "norm.placement": "post", "bias": True, "embedding.norm": True}
LEARNED = OWN | {"position.kind": "learned", "segments": 2, "feedforward.activation": "gelu"}
V1 = OWN | {"position.kind": "disentangled", "position.projections": "own", "position.norm": False, "attention.key_bias": False}
V1 |= {"feedforward.activation": "gelu"}
NARROW = LEARNED | {"embedding.width": 8, "layer_groups": 1}

UNFIT: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "albert": ("AlbertForMaskedLM", NARROW, None),
    "albert, layers of their own": ("AlbertForMaskedLM", NARROW | {"layer_groups": None}, None),
    "albert, no projection": ("AlbertModel", LEARNED, "model.embedding.width = model.width"),
    "albert, another hidden layer": (
        "AlbertForMaskedLM",
        NARROW | {"transform_activation": "relu"},
        "model.transform_activation = 'relu' with another model.feedforward.activation",
    ),
    "albert, classifier": (
        "AlbertForSequenceClassification",
        NARROW | {"transform_activation": "relu", "pool": "first", "pooler": "tanh"},
        None,
    ),
    "mpnet": ("MPNetForMaskedLM", LEARNED | {"segments": 0, "position.kind": "learned_t5"}, None),
    "mpnet, other buckets": (
        "MPNetForMaskedLM",
        LEARNED | {"segments": 0, "position.kind": "learned_t5", "position.buckets": 16},
        "model.position.buckets = 16",
    ),
    "deberta": ("DebertaModel", V1, None),
    "deberta, biased keys": ("DebertaModel", V1 | {"attention.key_bias": True}, "model.attention.key_bias = True"),
    "deberta v2, unbiased keys": ("DebertaV2Model", V1, "model.attention.key_bias = False"),
    "bert, buckets": ("BertForMaskedLM", LEARNED | {"position.kind": "learned_t5"}, "model.position.kind = 'learned_t5'"),
    "bert, shared": ("BertForMaskedLM", LEARNED | {"layer_groups": 1}, "model.layer_groups = 1"),
    "bert, another hidden layer": (
        "BertForMaskedLM",
        LEARNED | {"transform_activation": "relu"},
        "model.transform_activation = 'relu'",
    ),
    "bert, transform": ("BertForTokenClassification", LEARNED | {"transform": True}, "model.transform = True"),
}


def family_named(architecture: str) -> Family:
    return next(family for family in FAMILIES if family.architecture == architecture)


@pytest.mark.parametrize("name", UNFIT)
def test_a_model_of_ours_that_a_family_cannot_express_is_refused_with_the_reason(name: str) -> None:
    architecture, settings, reason = UNFIT[name]
    assert family_named(architecture).why_not(transformer(TransformerEncoderConfig, settings)) == reason
