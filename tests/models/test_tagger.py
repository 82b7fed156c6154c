"""Taggers against torch's own LSTM and a spelling computed by hand, in float64; and what must not change a word's tag."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_models import randomise

from firth.models import AverageConfig, EncoderConfig, RecurrentEncoderConfig, TransformerEncoderConfig, size_of
from firth.models.encoder import RecurrentEncoder
from firth.models.initialise import initialise
from firth.models.spelling import SpellingConvolution, SpellingEncoder
from firth.models.tagger import Tagger, tagger
from firth.tasks.tagging import tagging
from firth.text.batches.sentences import spelling
from firth.text.config import TokenizerConfig
from firth.text.data.tagged import encode_words
from firth.text.readers.pieces import pieces_of_text
from firth.text.tokenizers.tokenizer import Tokenizer

TAGS = 3
SENTENCES = [["the", "catalogue", "is", "unseen"], ["cats"], ["see", "the", "cat", "(", "unseen", ")"]]
TOKENIZER = Tokenizer.train(TokenizerConfig(kind="wordpiece", vocab=40), pieces_of_text("the cat is ( seen ) at sea log "), 1)

ENCODERS: dict[str, EncoderConfig] = {
    "average": AverageConfig(kind="average", width=5),
    "lstm": RecurrentEncoderConfig(kind="lstm", width=4, embedding=5, depth=2),
    "lstm, spelled": RecurrentEncoderConfig(kind="lstm", width=4, embedding=5, characters=3),
    "lstm, spelled by an lstm": RecurrentEncoderConfig(
        kind="lstm", width=4, embedding=5, spelling={"kind": "lstm", "width": 3, "join": "concatenate"}
    ),
    "lstm, spelled beside": RecurrentEncoderConfig(
        kind="lstm", width=4, embedding=5, spelling={"width": 2, "join": "concatenate"}
    ),
    "gru, forwards": RecurrentEncoderConfig(kind="gru", width=4, bidirectional=False),
    "transformer": TransformerEncoderConfig(kind="transformer", width=8, depth=2, heads=2, context=32),
    "transformer, spelled": TransformerEncoderConfig(
        kind="transformer", width=8, depth=1, heads=2, context=32, position="sinusoidal", spelling={"kind": "lstm", "width": 3}
    ),
}


def made(name: str) -> Tagger:
    model = tagger(ENCODERS[name], TOKENIZER.vocab, TAGS)
    return randomise(model).double().eval()


def logits(model: Tagger, sentences: list[list[str]], padding: int = 0) -> list[torch.Tensor]:
    """Logits of the real words; `padding` fills the places without a token."""
    batch = encode_words(sentences, TOKENIZER).batch(np.arange(len(sentences)), spelled=model.spelling is not None)
    token_BT = torch.from_numpy(batch.token_BT)
    token_BT[torch.arange(token_BT.shape[1]) >= torch.from_numpy(batch.length_B)[:, None]] = padding
    given = (torch.from_numpy(array) for array in (batch.length_B, batch.first_BW, batch.symbol_BWK))
    return [row[: len(words)] for row, words in zip(model(token_BT, *given), sentences, strict=True)]


@pytest.mark.parametrize("name", ENCODERS)
def test_a_sentence_is_tagged_as_it_would_be_alone_whatever_stands_behind_it(name: str) -> None:
    model = made(name)
    together = logits(model, SENTENCES)
    for sentence, row in zip(SENTENCES, together, strict=True):
        assert torch.allclose(logits(model, [sentence])[0], row, rtol=1e-10, atol=1e-12)
    for one, other in zip(logits(model, SENTENCES, padding=7), together, strict=True):
        assert torch.equal(one, other)
    for one, other in zip(logits(model, SENTENCES[::-1])[::-1], together, strict=True):
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-12)


def features(model: SpellingEncoder, word: str) -> torch.Tensor:
    """max_k (A [s_k; s_k+1; s_k+2] + a), window by window; or the last states of torch's LSTM."""
    s_Kc = model.symbols.weight[torch.from_numpy(spelling(word).astype(np.int64))]
    if isinstance(model, SpellingConvolution):
        windows = [model.windows.weight @ torch.cat(list(s_Kc[k : k + 3])) + model.windows.bias for k in range(len(s_Kc) - 2)]
        return torch.stack(windows).max(0).values
    c = s_Kc.shape[1]
    plain = torch.nn.LSTM(c, c, bidirectional=True).double()
    plain.load_state_dict(model.get_submodule("recurrent.layers.0").state_dict())
    h_Kd = plain(s_Kc)[0]
    return torch.cat([h_Kd[-1, :c], h_Kd[0, c:]])


def by_hand(model: SpellingEncoder, word: str) -> torch.Tensor:
    f = features(model, word)
    return f if model.features is None else model.features.weight @ f + model.features.bias


@pytest.mark.parametrize("name", ["lstm, spelled", "lstm, spelled by an lstm", "lstm, spelled beside"])
def test_the_logits_are_torchs_lstm_at_the_first_piece_of_each_word(name: str) -> None:
    model = made(name)
    encoder = model.encoder
    assert isinstance(encoder, RecurrentEncoder)
    assert model.spelling is not None
    beside = 0 if model.spelling.features is not None else len(by_hand(model.spelling, "a"))
    plain = torch.nn.LSTM(5 + beside, 4, bidirectional=True, batch_first=True).double()
    plain.load_state_dict(encoder.recurrent.layers[0].state_dict())
    for sentence, logits_WC in zip(SENTENCES, logits(model, SENTENCES), strict=True):
        x_Te, firsts = [], []
        for word in sentence:
            firsts.append(len(x_Te))
            pieces, spelled = [encoder.embedding.weight[int(id)] for id in TOKENIZER.encode(word)], by_hand(model.spelling, word)
            if beside:
                x_Te += [torch.cat([pieces[0], spelled]), *(torch.cat([one, torch.zeros(beside)]) for one in pieces[1:])]
            else:
                x_Te += [pieces[0] + spelled, *pieces[1:]]
        x_Td = plain(torch.stack(x_Te)[None])[0][0]
        assert torch.allclose(logits_WC, x_Td[firsts] @ model.output.weight.T + model.output.bias, rtol=1e-10)
    assert max(len(TOKENIZER.encode(word)) for sentence in SENTENCES for word in sentence) > 1


@pytest.mark.parametrize("name", ["lstm, spelled", "lstm, spelled by an lstm"])
def test_a_spelling_is_the_same_however_long_the_others_are(name: str) -> None:
    model = made(name).spelling
    assert model is not None
    words = ["a", "cats", "unseen", "é"]
    symbols = [torch.from_numpy(spelling(word).astype(np.int64)) for word in words]
    rows = model(torch.nn.utils.rnn.pad_sequence(symbols, batch_first=True))
    for word, row in zip(words, rows, strict=True):
        assert torch.allclose(row, by_hand(model, word), rtol=1e-12)


def test_the_same_piece_with_another_spelling_is_another_word_and_without_characters_it_is_not() -> None:
    """Both are <unk>, but only one model sees how they are written."""
    unknown = [["日本"], ["北京"]]
    assert {int(id) for (word,) in unknown for id in TOKENIZER.encode(word)} == {TOKENIZER.unknown}
    for name, same in (("lstm, spelled", False), ("lstm, spelled beside", False), ("lstm", True)):
        one, other = logits(made(name), unknown)
        assert torch.equal(one, other) == same


def test_without_spelling_it_reads_what_the_encoder_reads() -> None:
    """An encoder of two segments, as one that was pretrained on pairs, takes all tokens for those of the first."""
    config = TransformerEncoderConfig(kind="transformer", width=8, depth=1, heads=2, context=32, segments=2)
    model = tagger(config, TOKENIZER.vocab, TAGS)
    initialise(model, torch.Generator().manual_seed(0))
    model.double().eval()
    batch = encode_words(SENTENCES[:1], TOKENIZER).batch(np.arange(1), spelled=False)
    x_BTd = model.encoder(torch.from_numpy(batch.token_BT), torch.from_numpy(batch.length_B))
    expected = model.output(x_BTd[0, torch.from_numpy(batch.first_BW[0])])
    assert torch.allclose(logits(model, SENTENCES[:1])[0], expected, rtol=1e-12)


def test_words_behind_and_before_matter_to_readers_of_order_only() -> None:
    for name, same in (("average", True), ("lstm", False), ("transformer", False)):
        model = made(name)
        (one,), (other,) = logits(model, [["cats", "is", "see"]]), logits(model, [["see", "is", "cats"]])
        assert torch.allclose(one[1], other[1]) == same


def test_the_loss_is_the_mean_over_the_words_that_are_there() -> None:
    model = made("lstm, spelled").float()
    sentences = encode_words(SENTENCES, TOKENIZER)
    batch = sentences.batch(np.arange(3), spelled=True)
    label_BW = torch.where(torch.arange(6) < torch.tensor([[4], [1], [6]]), torch.tensor([[0, 1, 2, 0, 1, 2]]), -1)
    arrays = {name: torch.from_numpy(getattr(batch, name)) for name in ("token_BT", "length_B", "first_BW", "symbol_BWK")}
    loss, _ = tagging(model, **arrays, label_BW=label_BW)
    log_p = [torch.log_softmax(row, -1) for row in logits(model, SENTENCES)]
    own = torch.cat([-row[range(len(row)), [0, 1, 2, 0, 1, 2][: len(row)]] for row in log_p])
    assert len(own) == 11
    assert torch.allclose(loss, own.mean(), rtol=1e-5)


def test_it_is_built_from_a_recipe_counted_and_drawn() -> None:
    config = ENCODERS["lstm, spelled"]
    V, e, d, c = 10, 5, 4, 3
    lstm = 2 * (4 * d * (e + d) + 8 * d)
    spelled = 259 * c + (3 * c * 4 * c + 4 * c) + (4 * c * e + e)
    assert size_of(lambda: tagger(config, V, TAGS)) == V * e + lstm + spelled + 2 * d * TAGS + TAGS
    model = tagger(config, V, TAGS)
    assert isinstance(model, Tagger)
    initialise(model, torch.Generator().manual_seed(0))
    for name, weight in model.named_parameters():
        assert bool(weight.any()) == ("bias" not in name or "bias_ih" in name), name
