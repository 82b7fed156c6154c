"""DeBERTa's disentangled attention against Hugging Face's, in one layer and in a whole encoder; its buckets against both."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from firth.layers.attention import attend, mask, position
from firth.layers.attention.config import AttentionConfig
from firth.layers.attention.weights import weights
from firth.layers.block_config import BlockConfig
from firth.layers.position.disentangled import bucket_steps
from firth.layers.self_attention import SelfAttention
from firth.layers.tap import attention_calls
from firth.models.encoder import TransformerEncoder
from firth.models.encoder_config import TransformerEncoderConfig
from firth.oracles import position as oracle

deberta = pytest.importorskip(
    "transformers.models.deberta_v2.modeling_deberta_v2", reason="the oracle is Hugging Face's; make setup installs it"
)
transformers = pytest.importorskip("transformers", reason="the oracle is Hugging Face's; make setup installs it")
SIZES = [(4, 5), (4, 16), (5, 9), (8, 20), (9, 50), (16, 40), (32, 128), (256, 512)]  # buckets of a direction, max_distance
B, T, WIDTH, HEADS = 3, 11, 16, 4
# The settings of ours and of theirs: DeBERTa-v1's clipping with projections of its own, v3's buckets with shared ones.
FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "v1": (
        {"max_distance": 4, "position_projections": "own", "position_norm": False},
        {"max_relative_positions": 4, "position_buckets": -1, "share_att_key": False, "norm_rel_ebd": "none"},
    ),
    "v3": (
        {"max_distance": 9, "distance_buckets": 6},
        {"max_relative_positions": 9, "position_buckets": 6, "share_att_key": True, "norm_rel_ebd": "layer_norm"},
    ),
}


@pytest.mark.parametrize(("count", "farthest"), SIZES)
def test_buckets_are_the_oracles_and_hugging_faces(count: int, farthest: int) -> None:
    assert list(bucket_steps(count, farthest)) == [oracle.log_bucket(n, count, farthest) for n in range(farthest + 1)]
    distance = torch.arange(-2 * farthest, 2 * farthest + 1)
    table = torch.zeros(1, 2 * count, 1)
    theirs = deberta.make_log_bucket_position(distance, count, farthest).long()
    rows = position.disentangled(table, None, max_distance=farthest).row(distance)
    assert torch.equal(rows, (theirs + count).clamp(0, 2 * count - 1))


def test_half_of_the_buckets_of_deberta_v3_hold_one_distance() -> None:
    steps = bucket_steps(256, 512)
    assert steps[:129] == tuple(range(129))
    assert (steps[511], steps[512]) == (255, 256)


def theirs(form: str) -> Any:
    config = transformers.DebertaV2Config(
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        intermediate_size=24,
        vocab_size=30,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        type_vocab_size=0,
        max_position_embeddings=64,
        layer_norm_eps=1e-5,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=0,
        **FORMS[form][1],
    )
    torch.manual_seed(0)
    model = transformers.DebertaV2Model(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3)
    return model


def ours(form: str, model: Any) -> TransformerEncoder:
    """Their weights under our names: a plain table, but for q, k and v, which are one matrix here."""
    config = TransformerEncoderConfig(
        kind="transformer",
        width=WIDTH,
        depth=2,
        heads=HEADS,
        hidden=24,
        context=64,
        position="disentangled",
        norm="layer",
        norm_placement="post",
        activation="gelu",
        bias=True,
        **FORMS[form][0],
    )
    encoder = TransformerEncoder(config, 30).eval()
    given = model.state_dict()
    renamed = {"embedding.weight": given["embeddings.word_embeddings.weight"]}
    renamed["stack.relative.table_Rd"] = given["encoder.rel_embeddings.weight"]
    names = {
        "attention.out": "attention.output.dense",
        "attention_norm": "attention.output.LayerNorm",
        "feedforward.up": "intermediate.dense",
        "feedforward.down": "output.dense",
        "feedforward_norm": "output.LayerNorm",
    }
    if form == "v1":
        names |= {"attention.position_key": "attention.self.pos_key_proj"}
        names |= {"attention.position_query": "attention.self.pos_query_proj"}
    for kind in ("weight", "bias"):
        if form == "v3":
            renamed[f"stack.relative.norm.{kind}"] = given[f"encoder.LayerNorm.{kind}"]
        for n in range(2):
            layer = f"encoder.layer.{n}"
            for mine, their in names.items():
                renamed[f"stack.blocks.{n}.{mine}.{kind}"] = given[f"{layer}.{their}.{kind}"]
            parts = [given[f"{layer}.attention.self.{part}_proj.{kind}"] for part in ("query", "key", "value")]
            renamed[f"stack.blocks.{n}.attention.qkv.{kind}"] = torch.cat(parts)
    encoder.load_state_dict(renamed)
    return encoder


@pytest.mark.parametrize("form", FORMS)
def test_an_encoder_equals_hugging_faces_with_padding(form: str) -> None:
    model = theirs(form)
    encoder = ours(form, model)
    generator = torch.Generator().manual_seed(1)
    token_BT, length_B = torch.randint(1, 30, (B, T), generator=generator), torch.tensor([T, 4, 7])
    seen_BT = torch.arange(T) < length_B[:, None]
    with torch.no_grad():
        x_BTd = model.embeddings.word_embeddings(token_BT)  # ours has no norm on the embedding
        truth = model.encoder(x_BTd, seen_BT.long(), output_attentions=True)
        with attention_calls(encoder) as calls:
            y_BTd = encoder.read(encoder.embedded(token_BT), length_B)
    for b, length in enumerate(length_B.tolist()):
        torch.testing.assert_close(y_BTd[b, :length], truth.last_hidden_state[b, :length], rtol=1e-5, atol=1e-5)
        for layer, call in calls.items():  # the weights, too, recomputed from q and k
            p_HQK = weights(call)[b, :, :length, :length]
            torch.testing.assert_close(p_HQK, truth.attentions[layer][b, :, :length, :length], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_padding_does_not_change_the_other_rows(form: str) -> None:
    encoder = ours(form, theirs(form))
    token_BT = torch.randint(1, 30, (1, T), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        torch.testing.assert_close(encoder(token_BT, torch.tensor([6]))[:, :6], encoder(token_BT[:, :6]), rtol=1e-5, atol=1e-5)


def some(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_grouped_heads_read_the_distances_of_their_group() -> None:
    """Two heads that share keys equal two heads whose keys are copies."""
    layer = SelfAttention(
        BlockConfig(width=WIDTH, attention=AttentionConfig(heads=HEADS, kv_heads=2), bias=True, position_projections=True)
    ).double()
    whole = SelfAttention(
        BlockConfig(width=WIDTH, attention=AttentionConfig(heads=HEADS), bias=True, position_projections=True)
    ).double()
    D = WIDTH // HEADS

    def copied(x_nd: Tensor) -> Tensor:
        return x_nd.view(2, D, *x_nd.shape[1:]).repeat_interleave(2, 0).flatten(0, 1)

    given = {name: some(*parameter.shape, seed=n) for n, (name, parameter) in enumerate(layer.named_parameters())}
    layer.load_state_dict(given)
    for kind in ("weight", "bias"):
        q, k, v = given[f"qkv.{kind}"].split((WIDTH, 2 * D, 2 * D))
        given[f"qkv.{kind}"] = torch.cat((q, copied(k), copied(v)))
        given[f"position_key.{kind}"] = copied(given[f"position_key.{kind}"])
    whole.load_state_dict(given)
    scheme = position.DisentangledScheme(8, WIDTH, None, own_projections=True, norm=True).double()
    nn.init.normal_(scheme.table_Rd)
    x_BTd = some(B, T, WIDTH, seed=99)
    grouped, truth = (one(x_BTd, mask.FULL, scheme.relative(), None)[0] for one in (layer, whole))
    torch.testing.assert_close(grouped, truth)


def test_the_scale_has_a_root_of_the_number_of_terms() -> None:
    q = some(1, 1, 1, 4)
    for tables, terms in (((some(1, 4, 4), None), 2), ((None, some(1, 4, 4)), 2), ((some(1, 4, 4), some(1, 4, 4)), 3)):
        assert position.disentangled(*tables).shrink == pytest.approx(terms**-0.5)
    zero = torch.zeros(1, 4, 4, dtype=torch.float64)
    o = attend(q, some(1, 1, 5, 4, seed=1), some(1, 1, 5, 4, seed=2), position=position.disentangled(zero, zero))
    truth = attend(q, some(1, 1, 5, 4, seed=1), some(1, 1, 5, 4, seed=2), scale=(3 * 4) ** -0.5)
    torch.testing.assert_close(o, truth)
