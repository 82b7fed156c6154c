"""The walk: its numbers are those of the model's own forward pass, and every cell is the sum that it is said to be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from shares import half
from small_models import CONFIGS, random_model, randomise
from torch import nn

from firth.errors import ConfigError
from firth.inspection.inputs import Reading
from firth.inspection.walk import Walk, WalkMatrix, walk
from firth.inspection.walk.operands import operands
from firth.layers.attention.weights import weights
from firth.layers.hook_free import Linear
from firth.layers.tap import attention_calls, outputs
from firth.layers.token_mixer import TokenMixer
from firth.models import RecurrentConfig, TransformerConfig, language_model, seq2seq
from firth.models.seq2seq_config import PrefixConfig, RecurrentSeq2SeqConfig, TransformerSeq2SeqConfig

VOCAB = 11
IDS = [3, 1, 4, 1, 5, 9, 2]
TARGET = [2, 7, 1, 8]
EXACT = 1e-9


def transformer(**settings: Any) -> TransformerConfig:
    return TransformerConfig(**({"kind": "transformer", "width": 16, "depth": 2, "heads": 2, "context": 12} | settings))


MORE = {
    "post, relu": transformer(norm_placement="post", activation="relu", norm="layer", bias=True),
    "after, whole qk norm": transformer(norm_placement="after", qk_norm="whole"),
    "sandwich, geglu, qk norm": transformer(norm_placement="sandwich", activation="geglu", qk_norm=True),
    "parallel": transformer(parallel_block=True, norm="layer", bias=True, activation="gelu"),
    "parallel, two norms": transformer(parallel_block="two_norms", norm="layer", activation="gelu_tanh"),
    "gaussian": transformer(score="gaussian", position="sinusoidal", activation="silu"),
    "bilinear": transformer(score="bilinear", position="none", kv_heads=1),
    "cosine": transformer(score="cosine", position="none"),
    "caps": transformer(score_cap=5.0, logit_cap=3.0, position="none", tied=True),
    "embedding norm": transformer(embedding_norm=True, position="learned", norm="layer"),
    "embedding, tied": RecurrentConfig(kind="lstm", width=9, depth=2, embedding=5, tied=True),
}
PAIRS = {
    "rnnsearch": RecurrentSeq2SeqConfig(kind="gru", width=8),
    "rnnsearch, lstm, two layers": RecurrentSeq2SeqConfig(kind="lstm", width=8, depth=2),
    "luong": RecurrentSeq2SeqConfig(kind="lstm", width=8, attention="bilinear", decoder="luong"),
    "luong, input feeding": RecurrentSeq2SeqConfig(
        kind="gru", width=8, attention="bilinear", decoder="luong", input_feeding=True
    ),
    "rnnenc": RecurrentSeq2SeqConfig(kind="lstm", width=8, attention="none", reverse=True),
    "rnnenc, context fed": RecurrentSeq2SeqConfig(kind="gru", width=8, attention="none", feed_context=True),
    "transformer": TransformerSeq2SeqConfig(kind="transformer", width=16, depth=2, heads=4, context=12),
    "transformer, post": TransformerSeq2SeqConfig(
        kind="transformer", width=16, depth=2, heads=2, kv_heads=1, context=12, norm_placement="post", norm="layer", bias=True
    ),
}


def randomised(network: nn.Module) -> Any:
    return randomise(network).double().eval()


def model(name: str) -> Any:
    return random_model(name, VOCAB) if name in CONFIGS else randomised(language_model(MORE[name], VOCAB))


def walked(network: Any) -> tuple[Walk, torch.Tensor]:
    """The walk, and the logits of the model itself."""
    token_1T = torch.tensor([IDS])
    with torch.no_grad():
        logits_TV = network(token_1T)[0][0]
    return walk(Reading(network, lambda: network.hidden(token_1T), tuple(map(str, IDS))), str), logits_TV


def walked_pair(network: Any) -> tuple[Walk, torch.Tensor]:
    source_1S, length_1, input_1T = torch.tensor([IDS]), torch.tensor([len(IDS)]), torch.tensor([[0, *TARGET[:-1]]])
    with torch.no_grad():
        logits_TV = network(source_1S, length_1, input_1T)[0]

    def forward() -> torch.Tensor:
        return network.teacher_forced(input_1T, network.encode(source_1S, length_1))  # type: ignore[no-any-return]

    return walk(Reading(network, forward, tuple(map(str, IDS)), tuple(map(str, TARGET))), str), logits_TV


def assert_spelled(one: WalkMatrix) -> None:
    """Cells of the first, a middle and the last row and column; masked scores are cells, too."""
    assert one.value.shape[0] == len(one.rows)
    assert len(one.axes) == one.value.ndim == 2
    for t in {0, len(one.rows) // 2, len(one.rows) - 1}:
        for j in {0, one.value.shape[1] // 2, one.value.shape[1] - 1}:
            lines = one.lines(t, j)
            assert not one.spell or abs(lines[-1].value - float(one.value[t, j])) < EXACT, (one.name, t, j, lines)
            for line in lines:
                if line.left is not None and line.right is not None:
                    assert abs(float((line.left * line.right).sum()) - line.value) < EXACT, (one.name, line.label)


def assert_right(trace: Walk, logits_TV: torch.Tensor) -> None:
    torch.testing.assert_close(trace.logits_TV, logits_TV, rtol=0, atol=EXACT)
    for stage in trace.stages:
        for head in range(max(1, stage.heads)):
            inside = stage.matrices(head)
            if stage.kind != "output":  # recomputed from the recorded input, it is the recorded output
                torch.testing.assert_close(inside[-1].value, stage.out_Td, rtol=0, atol=EXACT)
            for one in inside:
                assert_spelled(one)
                assert one.source.code
                assert one.source.path.startswith(("firth/", "tests/inspection/test_walk.py"))
    last = trace.stages[-1].matrices()[-1]
    id_v = [int(name) for name in last.columns]
    torch.testing.assert_close(last.value, logits_TV.softmax(-1)[:, id_v], rtol=0, atol=EXACT)


@pytest.mark.parametrize("name", half([*CONFIGS, *MORE]))
def test_a_language_model_walks_through_its_own_numbers(name: str) -> None:
    assert_right(*walked(model(name)))


def test_the_gates_of_a_minlstm_are_taken_apart() -> None:
    trace, _ = walked(model("minlstm"))
    inside = {one.name: one for one in trace.stages[1].matrices()}
    assert inside["f′"].equation == "f′ = σ(ln σ(W x + b) − ln σ(W x + b))"
    assert inside["h"].equation == "h = f′ ⊙ h_t−1 + i′ ⊙ h̃"
    gate = [line.label for line in inside["i′"].lines(2, 1)]
    assert gate == [*["Σ W x", "b", "sum", "ln σ(sum)"] * 2, "sum", "i′ = σ(sum)"]


@pytest.mark.parametrize("name", ["linear", "gated linear", "based"])
def test_the_state_of_a_linear_attention_is_the_sum_of_what_was_written_to_it(name: str) -> None:
    found, _ = walked(model(name))
    inside = {one.name: one for one in reversed(found.stages[1].matrices(1))}  # the feed-forward layer has a z and a g, too
    k_TF, v_TE = inside["φ(k)" if "φ(k)" in inside else "k"].value, inside["v"].value
    gates_TF = inside["ln g"].value.exp() if "ln g" in inside else torch.ones_like(k_TF)
    S_FE = torch.zeros(k_TF.shape[1], v_TE.shape[1], dtype=torch.float64)
    for t, (k_F, v_E, gate_F) in enumerate(zip(k_TF, v_TE, gates_TF, strict=True)):
        torch.testing.assert_close(inside["S_t−1"].value[t], S_FE.flatten(), rtol=0, atol=EXACT)
        S_FE = torch.einsum("f,fe->fe", gate_F, S_FE) + torch.einsum("f,e->fe", k_F, v_E)
        torch.testing.assert_close(inside["S"].value[t], S_FE.flatten(), rtol=0, atol=EXACT)
    steps = [line.label for line in inside["S"].lines(3, 1)][:-1]
    assert steps == [*(["g"] if "ln g" in inside else []), "S_t−1", "φ(k)" if "φ(k)" in inside else "k", "v"]
    assert list(found.stages[1].links) == ([] if name == "gated linear" else ["self"])


class Averaging(TokenMixer):
    """A mixer with operations of its own: the mean of all tokens so far, through a gate."""

    kind = "averaging"

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.heads, self.head_width = config.attention.heads, config.head_width
        self.value, self.out = nn.Linear(config.width, config.width), Linear(config.width, config.width)

    def start(self) -> None:
        return None

    def forward(self, x_BTd: torch.Tensor, allowed: Any, position: Any, past: Any) -> tuple[torch.Tensor, Any]:
        count_T1 = torch.arange(1, x_BTd.shape[1] + 1, dtype=x_BTd.dtype).unsqueeze(-1)
        return self.out(torch.sigmoid(self.value(x_BTd)) * (x_BTd.cumsum(1) / count_T1)), past


def test_a_mixer_that_is_no_linear_attention_is_walked_in_its_own_operations() -> None:
    network: Any = randomised(language_model(MORE["parallel"], VOCAB))
    for block in network.blocks:
        config = SimpleNamespace(width=16, attention=SimpleNamespace(heads=2), head_width=8)
        block.attention = randomised(Averaging(config))
    found, logits_TV = walked(network)
    assert_right(found, logits_TV)
    inside = {one.name: one for one in found.stages[1].matrices()}
    assert inside["y"].equation == "y = σ(W_value n + b_value) ⊙ cumsum(n, 1) / arange(1, 8)"
    assert inside["a"].equation == "a = W_out y + b_out"


@pytest.mark.parametrize("name", half(PAIRS))
def test_an_encoder_decoder_walks_through_its_own_numbers(name: str) -> None:
    assert_right(*walked_pair(randomised(seq2seq(PAIRS[name], VOCAB, VOCAB))))


@pytest.mark.parametrize("name", ["transformer, rotary", "transformer, shaw, window", "transformer, alibi, strictly causal"])
def test_attention_weights_are_those_of_the_taps(name: str) -> None:
    network = model(name)
    trace, _ = walked(network)
    with torch.no_grad(), attention_calls(network) as calls:
        network(torch.tensor([IDS]))
    for layer, stage in enumerate(one for one in trace.stages if one.kind == "block"):
        truth_HQK = weights(calls[layer])[0]
        torch.testing.assert_close(stage.links["self"](), truth_HQK.mean(0), rtol=0, atol=EXACT)
        for head in range(stage.heads):
            p = next(one for one in stage.matrices(head) if one.name == "p")
            torch.testing.assert_close(p.value, truth_HQK[head], rtol=0, atol=EXACT)


@pytest.mark.parametrize("name", ["transformer, learned", "parallel"])
def test_what_a_user_reads_says_layer_as_the_other_rooms_do(name: str) -> None:
    trace, _ = walked(model(name))
    told = [text for stage in trace.stages for text in (stage.name, *(one.title for one in stage.matrices()))]
    assert {"layer 1", "what enters the layer", "what leaves the last layer"} <= set(told)
    assert not [text for text in told if "block" in text]


def test_layers_leave_what_the_model_left_and_names_are_as_in_the_other_rooms() -> None:
    network: Any = model("transformer, learned")
    trace, _ = walked(network)
    with torch.no_grad(), outputs(network.blocks) as x:
        network(torch.tensor([IDS]))
    assert [one.name for one in trace.stages] == ["embedding", "layer 1", "layer 2", "norm", "probabilities"]
    for stage, x_1Td in zip(trace.stages[1:3], x, strict=True):
        torch.testing.assert_close(stage.out_Td, x_1Td[0], rtol=0, atol=EXACT)
    names = [one.name for one in trace.stages[1].matrices()]
    assert names[:6] == ["x", "n", "q", "k", "v", "s"]
    assert not any(module._forward_hooks for module in network.modules())


def test_cross_attention_is_the_alignment_of_the_model() -> None:
    network: Any = randomised(seq2seq(PAIRS["rnnsearch"], VOCAB, VOCAB))
    trace, _ = walked_pair(network)
    with torch.no_grad():
        truth = network.alignment(torch.tensor([IDS]), torch.tensor([len(IDS)]), torch.tensor([[0, *TARGET[:-1]]]))[0]
    stage = next(one for one in trace.stages if one.name == "decoder layer 1")
    torch.testing.assert_close(stage.links["cross"](), truth, rtol=0, atol=EXACT)
    alpha = next(one for one in stage.matrices() if one.name == "α")
    torch.testing.assert_close(alpha.value, truth, rtol=0, atol=EXACT)
    assert alpha.columns == tuple(map(str, IDS))


@pytest.mark.parametrize(
    ("name", "stage", "truth"),
    [
        ("transformer, learned", 1, "n<x q<n k<n v<n s<q,k p<s o<p,v a<o x′<x,a n″<x′ g<n″ u<n″ z<g,u f<z x′′<x′,f"),
        (
            "transformer, alibi, strictly causal",
            1,
            "n<x q<n k<n v<n s<q,k,b p<s o<p,v a<o x′<x,a n″<x′ g<n″ u<n″ z<g,u f<z x′′<x′,f",
        ),
        (
            "sandwich, geglu, qk norm",
            1,
            "n<x q<n k<n v<n q′<q k′<k s<q′,k′ p<s o<p,v a<o a′<a x′<x,a′ n″<x′ g<n″ u<n″ z<g,u f<z f′<f x′′<x′,f′",
        ),
        ("lstm", 1, "i<x,h_t−1 f<x,h_t−1 g<x,h_t−1 o<x,h_t−1 c<f,c_t−1,i,g h<o,c"),
        ("minlstm", 1, "f′<x i′<x h̃<x h<f′,h_t−1,i′,h̃"),
        (
            "linear",
            1,
            "n<x q<n k<n v<n φ(q)<q φ(k)<k S<S_t−1,φ(k),v z<φ(k) o<φ(q),S,z a<o x′<x,a n″<x′ g<n″ u<n″ z<g,u f<z x′′<x′,f",
        ),
        (
            "gated linear",
            1,
            "n<x q<n k<n v<n ln g<n g<ln g S<g,S_t−1,k,v o<q,S N(o)<o y<n,N(o) a<y x′<x,a n″<x′ g<n″ u<n″ z<g,u f<z x′′<x′,f",
        ),
        ("transformer, learned", 0, "x<e,p"),
        ("transformer, learned", 4, "logits<x p<logits"),
        (
            "rnnsearch",
            4,
            "W h_t−1<h_t−1 e<W h_t−1,U m α<e c<α [x; c]<c r<[x; c],h_t−1 z<[x; c],h_t−1 n<[x; c],r,h_t−1 h<z,n,h_t−1",
        ),
        ("luong", 5, "W h<h e<W h α<e c<α h̃<c,h"),
    ],
)
def test_a_matrix_is_joined_to_those_that_it_is_computed_from(name: str, stage: int, truth: str) -> None:
    found, _ = walked_pair(randomised(seq2seq(PAIRS[name], VOCAB, VOCAB))) if name in PAIRS else walked(model(name))
    inside = found.stages[stage].matrices()
    told = [
        f"{one.name}<{','.join(inside[n].name for n in read)}" for one, read in zip(inside, operands(inside), strict=True) if read
    ]
    assert " ".join(told) == truth


def test_other_models_stages_and_heads_are_refused() -> None:
    prefix = PrefixConfig(kind="prefix", width=16, depth=1, heads=2, context=12)
    network: Any = randomised(seq2seq(prefix, VOCAB, VOCAB))
    with pytest.raises(ConfigError, match=r"this is a PrefixDecoder\. Use another run"):
        walk(Reading(network, lambda: None, ("a",)), str)
    trace, _ = walked(model("transformer, rotary"))
    with pytest.raises(ConfigError, match="head is 4; layer 1 has 0 to 3"):
        trace.stage(1).matrices(4)
    with pytest.raises(ConfigError, match="stage is 9; expected 0 to 4"):
        trace.stage(9)
