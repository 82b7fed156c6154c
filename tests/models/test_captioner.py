"""Captioners: against a float64 loop of Xu et al. 2015, torch's own convolutions, and themselves without a cache."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from searches import beam
from shares import half
from small_models import randomise
from torch import Tensor, nn
from torch.testing import assert_close

from firth.errors import ConfigError
from firth.layers.image_cells import Convolutions, ImageCells, Patches, normalized
from firth.models import (
    CaptionModelConfig,
    ConditionalDecoder,
    RecurrentCaptionConfig,
    RecurrentDecoder,
    TransformerCaptionConfig,
    captioner,
)
from firth.models.counting import count
from firth.models.initialise import initialise
from firth.oracles import show_attend_tell

SIZE, VOCAB = 8, 7
CONFIGS: dict[str, CaptionModelConfig] = {
    "lstm": RecurrentCaptionConfig(kind="lstm", width=6, embedding=5, channels=(3, 4)),
    "gru, two layers": RecurrentCaptionConfig(kind="gru", width=6, depth=2, channels=(3, 4)),
    "luong, dot": RecurrentCaptionConfig(kind="lstm", width=6, channels=(3, 6), decoder="luong", attention="dot"),
    "luong, input feeding": RecurrentCaptionConfig(
        kind="gru", width=6, channels=(4,), decoder="luong", input_feeding=True, tied=True
    ),
    "transformer, patches": TransformerCaptionConfig(kind="transformer", width=8, depth=2, heads=2, patch=4, context=9),
    "transformer, convolutions": TransformerCaptionConfig(
        kind="transformer", width=8, depth=1, heads=2, encoder="conv", channels=(4, 6), encoder_depth=0, context=9
    ),
    "transformer, t5": TransformerCaptionConfig(
        kind="transformer", width=8, depth=1, heads=2, patch=4, context=9, position="t5", distance_buckets=4
    ),
}
RECURRENT = [name for name, config in CONFIGS.items() if isinstance(config, RecurrentCaptionConfig)]


def model_of(name: str) -> ConditionalDecoder:
    model = captioner(CONFIGS[name], SIZE, VOCAB)
    return randomise(model).double().eval()


def inputs(rows: int = 3, tokens: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    image_BHWC = torch.randint(256, (rows, SIZE, SIZE, 3), dtype=torch.uint8, generator=generator)
    return image_BHWC, torch.randint(VOCAB, (rows, tokens), generator=generator)


def array(x: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return x.detach().double().numpy()


def oracle_decoder(model: RecurrentDecoder) -> show_attend_tell.CaptionDecoder:
    assert model.attentive is not None
    assert model.output is not None
    cell, e, d = model.attentive.cell, model.embedding.embedding_dim, model.config.width
    W, U = array(cell.weight_ih_l0), array(cell.weight_hh_l0)
    b = array(cell.bias_ih_l0) + array(cell.bias_hh_l0)
    gates = [  # torch's order: input, forget, candidate, output
        show_attend_tell.Sum(U_g, W_g[:, :e], W_g[:, e:], b_g)
        for U_g, W_g, b_g in zip(np.split(U, 4), np.split(W, 4), np.split(b, 4), strict=True)
    ]
    out = array(model.output.weight)
    word = show_attend_tell.Sum(out[:, :d], out[:, d : d + e], out[:, d + e :], array(model.output.bias))
    query, key = array(model.attentive.query.weight), array(model.attentive.key.weight)  # type: ignore[arg-type]
    return show_attend_tell.CaptionDecoder(array(model.attentive.attend.w_HA[0]), query, key, *gates, word)  # type: ignore[index]


def test_the_lstm_captioner_is_show_attend_and_tell() -> None:
    model = model_of("lstm")
    assert isinstance(model, RecurrentDecoder)
    front = model.encoder.front
    assert isinstance(front, Convolutions)
    layers = [
        show_attend_tell.Convolution(array(one.weight), array(norm.weight), array(norm.bias))  # type: ignore[arg-type]
        for one, norm in zip(front.convolutions, front.norms, strict=True)
    ]
    image_BHWC, token_BT = inputs()
    logits_BTV, encoded = model(image_BHWC, token_BT), model.encode(image_BHWC)
    alignment_BTS = model.alignment_to(encoded, token_BT)
    W, b = array(model.first.weight), array(model.first.bias)
    for n in range(len(image_BHWC)):
        cell_Sm = show_attend_tell.cells(
            image_BHWC[n].numpy(), layers, array(model.encoder.row_Rm), array(model.encoder.column_Km)
        )
        h_d, c_d = np.split(np.tanh(W @ cell_Sm.mean(0) + b), 2)
        trace = show_attend_tell.decode(array(model.embedding(token_BT[n])), cell_Sm, h_d, c_d, oracle_decoder(model))
        np.testing.assert_allclose(array(encoded.memory_BSm[n]), cell_Sm, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(array(alignment_BTS[n]), trace.alignment_TS, rtol=1e-9)
        np.testing.assert_allclose(array(logits_BTV[n].softmax(-1)), trace.probability_TV, rtol=1e-9)


def test_patches_are_a_convolution_whose_stride_is_its_size() -> None:
    patches = Patches(4, 5, SIZE).double()
    convolution = nn.Conv2d(3, 5, 4, stride=4).double()
    with torch.no_grad():
        convolution.weight.copy_(patches.linear.weight.view(5, 4, 4, 3).permute(0, 3, 1, 2))
        convolution.bias.copy_(patches.linear.bias)  # type: ignore[union-attr]
    x_BHWC = normalized(inputs()[0], torch.float64)
    assert_close(patches(x_BHWC), convolution(x_BHWC.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))


@pytest.mark.parametrize("name", CONFIGS)
def test_cached_decoding_equals_the_whole_caption_at_once(name: str) -> None:
    model, (image_BHWC, token_BT) = model_of(name), inputs()
    with torch.no_grad():
        whole_BTV = model(image_BHWC, token_BT)
        state, steps = model.start(model.encode(image_BHWC)), []
        for piece in (token_BT[:, :2], token_BT[:, 2:3], token_BT[:, 3:]):
            logits, state = model.step(piece, state)
            steps.append(logits)
    assert_close(torch.cat(steps, dim=1), whole_BTV)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_row_does_not_depend_on_the_others_and_states_can_be_selected(name: str) -> None:
    model, (image_BHWC, token_BT) = model_of(name), inputs()
    rows = torch.tensor([2, 0, 0])
    with torch.no_grad():
        whole_BTV = model(image_BHWC, token_BT)
        assert_close(model(image_BHWC[1:2], token_BT[1:2]), whole_BTV[1:2])
        _, state = model.step(token_BT[:, :2], model.start(model.encode(image_BHWC)))
        logits, _ = model.step(token_BT[rows, 2:], state.select(rows))
    assert_close(logits, whole_BTV[rows, 2:])


@pytest.mark.parametrize("name", half(CONFIGS))
def test_a_wide_beam_finds_the_most_probable_caption(name: str) -> None:
    model, (image_BHWC, _) = model_of(name), inputs(1)
    end, longest = 0, 3
    scored = {}
    with torch.no_grad():
        for words in itertools.chain.from_iterable(itertools.product(range(1, VOCAB), repeat=n) for n in range(longest)):
            target = torch.tensor([[*words, end]])
            log_p = model(image_BHWC, torch.tensor([[end, *words]])).log_softmax(-1)
            scored[*words, end] = float(log_p.gather(2, target[..., None]).sum())
        memory = model.encode(image_BHWC)
        caption = beam(model, model.start(memory), torch.tensor([[end]]), size=50, limits=[longest], end=end)[0][0]
    best = max(scored, key=lambda words: scored[words])
    assert caption.tokens == best
    assert caption.log_probability == pytest.approx(scored[best])


@pytest.mark.parametrize("name", RECURRENT)
def test_the_place_of_a_cell_matters(name: str) -> None:
    """Without rows and columns, nothing but the border would tell where a cell is."""
    model, (image_BHWC, token_BT) = model_of(name), inputs()
    before = model(image_BHWC, token_BT)
    with torch.no_grad():
        model.get_parameter("encoder.column_Km").copy_(model.get_parameter("encoder.column_Km").flip(0))
    assert (model(image_BHWC, token_BT) - before).abs().max() > 1e-3


@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameter_is_drawn_and_learns(name: str) -> None:
    model = captioner(CONFIGS[name], SIZE, VOCAB)
    initialise(model, torch.Generator().manual_seed(0))
    image_BHWC, token_BT = inputs()
    model(image_BHWC, token_BT).square().sum().backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, path
        if parameter.ndim > 1 and "relative" not in path:  # T5 starts from no bias
            assert parameter.std() > 0, path


def test_convolutions_keep_the_size_of_their_numbers() -> None:
    """He et al. 2015: cells of order 1 from the first step on, however many convolutions."""
    cells = ImageCells(Convolutions((16, 16, 16, 16), 32))
    torch.manual_seed(0)
    model = captioner(RecurrentCaptionConfig(kind="lstm", channels=(16, 16, 16, 16)), 32, VOCAB)
    initialise(model, torch.Generator().manual_seed(0))
    assert cells.grid == (4, 4)
    image_BHWC = torch.randint(256, (4, 32, 32, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert 0.3 < float(model.encoder(image_BHWC).detach().std()) < 3  # type: ignore[operator]


def test_convolutions_are_counted_at_every_pixel() -> None:
    plain, deep = (
        count(captioner(RecurrentCaptionConfig(kind="lstm", width=6, channels=channels), SIZE, VOCAB))
        for channels in ((4,), (4, 4))
    )
    first, second = 3 * 9 * 4, 4 * 9 * 4  # weights; the first is applied to four pixels for each cell of the second
    assert deep.flops_per_token - plain.flops_per_token == 2 * (4 * first + second - first)
    assert {part.name for part in deep.parts} >= {"convolution", "positions", "embedding"}
    assert deep.parameters == sum(
        p.numel() for p in captioner(CONFIGS["lstm"].__class__(kind="lstm", width=6, channels=(4, 4)), SIZE, VOCAB).parameters()
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (RecurrentCaptionConfig(kind="lstm", channels=(4, 4, 4, 4, 4)), r"8 is no multiple of 16. Set model.channels"),
        (TransformerCaptionConfig(kind="transformer", patch=3, context=4), r"patches of 3 pixels do not divide an image of 8"),
    ],
)
def test_an_image_that_does_not_fit_the_encoder_is_refused(config: CaptionModelConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        captioner(config, SIZE, VOCAB)


def test_settings_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"compares a state of width 6 with 4 channels"):
        RecurrentCaptionConfig(kind="lstm", width=6, channels=(4,), attention="dot")
    with pytest.raises(ConfigError, match=r'model.input_feeding only applies to model.decoder = "luong"'):
        RecurrentCaptionConfig(kind="lstm", input_feeding=True)
    with pytest.raises(ConfigError, match=r"model.channels is \[\]"):
        RecurrentCaptionConfig(kind="lstm", channels=())
    with pytest.raises(ConfigError, match=r"model.encoder_depth is -1"):
        TransformerCaptionConfig(kind="transformer", encoder_depth=-1)
