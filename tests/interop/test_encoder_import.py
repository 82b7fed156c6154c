"""Public encoders in and out: with any head, the states, logits and predictions are those of `transformers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign_encoders import BERT, DEPTH, HEADS, LABELS, built, rows, saved
from foreign_folders import ROWS, transformers
from runs import recipe_table
from shares import half

import firth
from firth.api import compose, export_model, import_model, train_recipe
from firth.errors import ConfigError
from firth.inspection.contextual_vectors import layers
from firth.tasks.answer import QuestionAnsweringRun
from firth.tasks.classification import ClassifierRun
from firth.tasks.electra import ElectraRun
from firth.tasks.embedding import EmbeddingRun
from firth.tasks.masked import MaskedRun
from firth.tasks.tagging import TaggerRun

DEBERTA = BERT | {
    "relative_attention": True,
    "position_buckets": 6,
    "max_relative_positions": 16,
    "pos_att_type": ["p2c", "c2p"],
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "type_vocab_size": 0,
}
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # of DeBERTa

FAMILIES: dict[str, dict[str, Any]] = {
    "Bert": BERT,
    "Roberta": BERT | {"type_vocab_size": 1, "pad_token_id": 1, "max_position_embeddings": 66},
    "DistilBert": {
        "vocab_size": ROWS,
        "dim": 32,
        "n_layers": DEPTH,
        "n_heads": 4,
        "hidden_dim": 40,
        "max_position_embeddings": 64,
    },
    "Electra": BERT | {"embedding_size": 20},
    "Albert": BERT | {"embedding_size": 20, "hidden_act": "gelu_new"},
    "Deberta": BERT
    | {
        "relative_attention": True,
        "max_relative_positions": 16,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "type_vocab_size": 0,
    },
    "MPNet": BERT | {"pad_token_id": 1, "max_position_embeddings": 66},
    "ModernBert": BERT
    | {
        "layer_norm_eps": 1e-5,
        "norm_eps": 1e-3,
        "local_attention": 4,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 500.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
        },
        "pad_token_id": 0,
        "classifier_pooling": "mean",
        "attn_implementation": "eager",
    },
    "DebertaV2": DEBERTA,
    "DebertaV2, own projections": DEBERTA
    | {"share_att_key": False, "norm_rel_ebd": "none", "position_buckets": -1, "max_relative_positions": 16},
}
# Quick: every head of BERT, the masked language model of every family, and heads with a shape of their own.
QUICK = {
    ("Albert", "Model"),
    ("Deberta", "Model"),
    ("MPNet", "Model"),
    ("MPNet", "ForSequenceClassification"),
    ("Albert", "ForSequenceClassification"),
    ("ModernBert", "ForSequenceClassification"),
    ("ModernBert", "ForQuestionAnswering"),
}
QUICK |= {("Bert", head) for head in HEADS} | {(name, "ForMaskedLM") for name in FAMILIES}
MODELS = [
    pytest.param((name, head), marks=() if (name, head) in QUICK else pytest.mark.long, id=f"{name}{head}")
    for name in FAMILIES
    for head in (HEADS[:2] if name == "DebertaV2, own projections" else HEADS)
]
MODELS.append(pytest.param(("Electra", "ForPreTraining"), id="ElectraForPreTraining"))


def model(name: str, head: str) -> Any:
    return built(name.partition(",")[0], head, **FAMILIES[name])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, tuple[Any, Path]]:
    """Models of theirs with their folders, each made once."""
    return {}


@pytest.fixture(params=MODELS)
def pair(
    request: pytest.FixtureRequest, folders: dict[Any, tuple[Any, Path]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Path]:
    if request.param not in folders:
        theirs = model(*request.param)
        folders[request.param] = theirs, saved(tmp_path_factory.mktemp("encoder") / "model", theirs)
    return folders[request.param]


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= 1e-4 * theirs.abs().max()


@torch.inference_mode()
def check_network(run: Any, theirs: Any) -> None:
    """Every layer, and what the head makes of the last, on rows of different length."""
    token_BT, length_B, seen_BT = rows()
    expected = theirs(token_BT, attention_mask=seen_BT.long(), output_hidden_states=True)
    states = layers(run.network, token_BT, length_B)
    assert len(states) == len(expected.hidden_states) == DEPTH + 1
    for ours, other in zip(states[1:], expected.hidden_states[1:], strict=True):
        close(ours[seen_BT], other[seen_BT])
    match run:
        case ElectraRun():
            close(run.network(token_BT, length_B)[seen_BT], expected.logits[seen_BT])
        case MaskedRun():
            close(run.network(token_BT, length_B)[seen_BT], expected.logits[seen_BT])
        case ClassifierRun():
            close(run.network(token_BT, length_B), expected.logits)
        case TaggerRun():
            every_BT = torch.arange(20).expand(3, 20)
            logits_BTC = run.network(token_BT, length_B, every_BT, torch.zeros(3, 20, 1, dtype=torch.int64))
            close(logits_BTC[seen_BT], expected.logits[seen_BT])
        case QuestionAnsweringRun():
            segment_BT = (torch.arange(20) >= 3).long().expand(3, 20)
            more = {"token_type_ids": segment_BT} if run.network.segments > 1 else {}
            expected = theirs(token_BT, attention_mask=seen_BT.long(), **more)
            start_BT, end_BT = run.network(token_BT[:2], length_B[:2], torch.tensor([3, 3]))
            for ours, other in ((start_BT, expected.start_logits), (end_BT, expected.end_logits)):
                inside = ours.isfinite()
                assert inside.sum() == 16 + 3
                close(ours[inside], other[:2][inside])
        case EmbeddingRun():
            if run.network.pooler is not None:
                close(run.network.pooler(states[-1][:, 0]), expected.pooler_output)
        case _:
            raise AssertionError(run)


def test_states_and_logits_are_theirs(pair: tuple[Any, Path]) -> None:
    theirs, folder = pair
    check_network(firth.load(folder, "cpu"), theirs)


@pytest.mark.parametrize("pair", half(MODELS), indirect=True)
def test_import_export_import_is_equal_to_the_bit_and_opens_with_the_same_logits(pair: tuple[Any, Path], tmp_path: Path) -> None:
    theirs, folder = pair
    import_model(folder, tmp_path / "run")
    export_model(tmp_path / "run", tmp_path / "exported")
    import_model(tmp_path / "exported", tmp_path / "again")
    once, twice = (firth.load(tmp_path / name, "cpu") for name in ("run", "again"))
    assert once.recipe.model == twice.recipe.model
    assert once.recipe.objective == twice.recipe.objective
    assert once.tokenizer.to_json() == twice.tokenizer.to_json()
    weights = twice.network.state_dict()
    assert weights.keys() == once.network.state_dict().keys()
    for name, tensor in once.network.state_dict().items():
        assert torch.equal(tensor, weights[name]), name
    card = (tmp_path / "exported" / "README.md").read_text()
    auto = next(line.split()[-1] for line in card.splitlines() if line.startswith("from transformers import"))
    opened = getattr(transformers, auto).from_pretrained(tmp_path / "exported").eval()
    assert type(opened) is type(theirs)
    check_network(once, opened)


def test_a_blank_is_filled_as_by_their_pipeline(folders: dict[Any, tuple[Any, Path]], tmp_path: Path) -> None:
    theirs = model("Bert", "ForMaskedLM")
    run = firth.load(saved(tmp_path / "model", theirs), "cpu", kind=MaskedRun)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    with torch.inference_mode():
        given = tokenizer("The [MASK] is empty.", return_tensors="pt")
        place = int((given.input_ids[0] == tokenizer.mask_token_id).nonzero())
        p_V = theirs(**given).logits[0, place].softmax(-1)
    best = int(p_V.argmax())
    (fillers,) = run.fill("The __ is empty.")
    assert fillers[0].probability == pytest.approx(float(p_V[best]), rel=1e-4)
    (named,) = run.fill("The __ is empty.", ["list", "users"])
    assert {one.filler: one.probability for one in named} == pytest.approx(
        {word: float(p_V[tokenizer.convert_tokens_to_ids(word)]) for word in ("list", "users")}, rel=1e-4
    )


def test_a_text_is_classified_and_its_words_are_tagged_between_special_tokens(tmp_path: Path) -> None:
    theirs = model("Bert", "ForSequenceClassification")
    run = firth.load(saved(tmp_path / "classifier", theirs), "cpu", kind=ClassifierRun)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "classifier")
    text = "The list is empty."
    with torch.inference_mode():
        p_C = theirs(**tokenizer(text, return_tensors="pt")).logits[0].softmax(-1)
    classified = run.classify([text, "users"])[0]
    assert classified.probabilities == pytest.approx({LABELS[n]: float(p) for n, p in enumerate(p_C)}, rel=1e-4)
    theirs = model("Bert", "ForTokenClassification")
    tagger = firth.load(saved(tmp_path / "tagger", theirs), "cpu", kind=TaggerRun)
    words = ["The", "listempty", "café", "is"]
    given = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    with torch.inference_mode():
        p_TC = theirs(**given).logits[0].softmax(-1)
    first = [given.word_ids().index(n) for n in range(len(words))]
    assert len(given.word_ids()) > len(words) + 2
    (tags,) = tagger.tag([words])
    np.testing.assert_allclose(tags.probabilities, p_TC[first].max(-1).values, rtol=1e-4)
    assert list(tags.tags) == [LABELS[int(n)] for n in p_TC[first].argmax(-1)]


def test_an_answer_is_found_between_the_special_tokens_of_question_and_passage(tmp_path: Path) -> None:
    theirs = model("Bert", "ForQuestionAnswering")
    run = firth.load(saved(tmp_path / "model", theirs), "cpu", kind=QuestionAnsweringRun)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    question, context = "is the list empty", "the café serves users, they are speakers."
    given = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True, return_token_type_ids=True)
    spans = given.pop("offset_mapping")[0].tolist()
    own = torch.tensor([n == 1 for n in given.sequence_ids()])
    with torch.inference_mode():
        out = theirs(**given)
    start_T, end_T = (z[0].masked_fill(~own, -torch.inf).softmax(-1) for z in (out.start_logits, out.end_logits))
    p_TT = (start_T[:, None] * end_T[None]).triu()
    start, end = divmod(int(p_TT.argmax()), len(own))
    answer = run.answer(question, context)
    assert answer.text == context[spans[start][0] : spans[end][1]]
    assert answer.probability == pytest.approx(float(p_TT.max()), rel=1e-4)


def test_a_published_discriminator_finds_replaced_tokens(tmp_path: Path) -> None:
    theirs = model("Electra", "ForPreTraining")
    run = firth.load(saved(tmp_path / "model", theirs), "cpu", kind=ElectraRun)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    with torch.inference_mode():
        p_T = theirs(**tokenizer("The list is empty.", return_tensors="pt")).logits[0].sigmoid()
    (told,) = run.replaced(["The list is empty."])
    assert [token.strip() for token in told.tokens] == ["the", "list", "is", "empty", "."]
    np.testing.assert_allclose(told.probabilities, p_T[1:-1], rtol=1e-4)


OWN: dict[str, Any] = {"position": "learned", "norm": "layer", "norm_placement": "post", "activation": "gelu", "bias": True}
OWN |= {"embedding_norm": True, "segments": 2, "context": 24}


@pytest.mark.parametrize("objective", ["masked", "electra"])
def test_an_encoder_that_was_trained_here_opens_there(objective: str, tmp_path: Path) -> None:
    table = recipe_table("bpe", model="transformer", steps=3)
    table["model"] |= {"family": "encoder", **OWN}
    path = train_recipe(compose(table | {"objective": {"kind": objective}}), tmp_path / "run").path
    folder, ours = export_model(path, tmp_path / "exported"), firth.load(path, "cpu")
    vocab = ours.tokenizer.vocab
    token_BT = torch.randint(vocab, (2, 12), generator=torch.Generator().manual_seed(0))
    token_BT[0, 4] = vocab
    auto = {"masked": "AutoModelForMaskedLM", "electra": "AutoModelForPreTraining"}[objective]
    theirs = getattr(transformers, auto).from_pretrained(folder).eval()
    with torch.inference_mode():
        logits = theirs(token_BT).logits
        close(ours.network(token_BT), logits[..., :vocab] if objective == "masked" else logits)
    assert transformers.AutoTokenizer.from_pretrained(folder).mask_token_id == vocab
    if objective == "masked":
        assert float(logits.softmax(-1)[..., vocab].max()) == 0  # <mask> is never predicted
        again = firth.load(folder, "cpu", kind=MaskedRun)
        (once,), (twice,) = ours.fill("the list is __ ."), again.fill("the list is __ .")
        assert len(again.network.embedding.weight) == len(ours.network.embedding.weight) + 1
        assert len(once) == len(twice)


def test_an_encoder_of_another_shape_is_refused_with_the_reasons(tmp_path: Path) -> None:
    table = recipe_table("bpe", model="transformer", steps=1)
    table["model"] |= {"family": "encoder"}
    path = train_recipe(compose(table | {"objective": {"kind": "masked"}}), tmp_path / "run").path
    message = r"BERT cannot express model\.position\.kind = 'rotary'; .*; nor do \d+ other families fit"
    with pytest.raises(ConfigError, match=message):
        export_model(path, tmp_path / "exported")


def test_old_names_of_norms_are_read(tmp_path: Path) -> None:
    """BERT as it was published in 2018."""
    from safetensors.torch import load_file, save_file

    folder = saved(tmp_path / "model", model("Bert", "ForMaskedLM"))
    expected = firth.load(folder, "cpu").network.state_dict()
    weights = load_file(folder / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in weights.items()
    }
    assert sum(name.endswith("gamma") for name in old) == 2 * DEPTH + 2
    save_file(old, folder / "model.safetensors")
    weights_read = firth.load(folder, "cpu").network.state_dict()
    assert all(torch.equal(expected[name], weights_read[name]) for name in expected)
