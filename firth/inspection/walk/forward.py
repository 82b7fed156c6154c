"""walk(): one forward pass of a model, recorded by hooks, as stages. Letters: T tokens, S source tokens, d width, e embedding
width, V vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from firth.errors import ConfigError
from firth.inspection.inputs import Reading
from firth.inspection.states import LayerPass, layer_passes
from firth.inspection.walk import attention, block, ends, recurrent
from firth.inspection.walk.block import BlockCall
from firth.inspection.walk.matrix import WalkMatrix, source_line
from firth.inspection.walk.mixer import linear_attend_of
from firth.inspection.walk.recurrent import CellCall, MemoryCall
from firth.inspection.walk.stage import Stage, Walk
from firth.layers.attentive_recurrence import AttentionalState, AttentiveRecurrent
from firth.layers.block import Block
from firth.layers.recurrent import Recurrent
from firth.layers.self_attention import SelfAttention
from firth.layers.tap import ModuleCall, module_calls
from firth.models import RecurrentDecoder, RecurrentLM, TransformerDecoder, TransformerLM
from firth.models.decoder import Decoder
from firth.models.stack import Stack

Name = Callable[[int], str]
_RECORDED = (nn.Embedding, Block, Recurrent, AttentiveRecurrent, AttentionalState)
EQUATIONS = {
    "pre": "x ← x + A(N(x)),  x ← x + F(N(x))",
    "post": "x ← N(x + A(x)),  x ← N(x + F(x))",
    "sandwich": "x ← x + N′(A(N(x))),  x ← x + N′(F(N(x)))",
    "after": "x ← x + N′(A(x)),  x ← x + N′(F(x))",
    "parallel": "x ← x + A(N(x)) + F(N(x))",
}


def walk(reading: Reading, token: Name) -> Walk:
    """Run the model once on its usual path and record the inputs and outputs of its parts; `token` names a token of the
    output."""
    network = reading.network
    if not (isinstance(network, RecurrentLM | TransformerLM | RecurrentDecoder | TransformerDecoder) and network.reads_text):
        raise ConfigError(
            f"the walk shows language models and encoder–decoder models, but this is a {type(network).__name__}. Use another run"
        )
    outputs: list[Any] = []
    modules = [one for one in network.modules() if isinstance(one, _RECORDED)]
    kept = Reading(network, lambda: outputs.append(reading.forward()), reading.tokens, reading.written)
    with module_calls(modules) as calls:
        kept.run()
    x_1Td = outputs[0][0] if isinstance(outputs[0], tuple) else outputs[0]
    with torch.no_grad():
        logits_TV = network.readout(x_1Td)[0]
    return Walk(tuple(_Builder(reading, calls, x_1Td, logits_TV, token).stages()), logits_TV)


class _Builder:
    def __init__(self, reading: Reading, calls: Sequence[ModuleCall], x_1Td: Tensor, logits_TV: Tensor, token: Name) -> None:
        self.reading, self.network, self.calls = reading, reading.network, calls
        self.x_1Td, self.logits_TV, self.token = x_1Td, logits_TV, token

    def stages(self) -> list[Stage]:
        network, tokens, given = self.network, self.reading.tokens, self.reading.given
        match network:
            case TransformerLM():
                stages = self._stack(network, network.embedding, tokens, "")
            case TransformerDecoder():
                stages = self._stack(network.encoder, network.source_embedding, tokens, "encoder")
                memory_1Sd = stages[-1].out_Td.unsqueeze(0)
                stages += self._stack(network.decoder, network.embedding, given, "decoder", memory_1Sd)
            case RecurrentLM():
                stages = [self._embedded(network.embedding, tokens, ""), *self._recurrent(network.recurrent, tokens, "")]
            case RecurrentDecoder():
                stages = self._recurrent_pair(network, given)
            case _:
                raise AssertionError(type(network))
        side = stages[-1].side
        assert isinstance(network, Decoder)
        return [*stages, ends.output_stage(network, stages, self.x_1Td[0], self.logits_TV, side, self.token)]

    # Transformers

    def _stack(
        self, stack: Stack, embedding: nn.Embedding, tokens: tuple[str, ...], side: str, memory_1Sd: Tensor | None = None
    ) -> list[Stage]:
        called = self._one(embedding, side)
        blocks = [one for one in self.calls if any(one.module is block for block in stack.blocks)]
        first_1Td = blocks[0].given[0]
        stages = [ends.embedding_stage(stack, called.given[0][0], called.output, first_1Td, tokens, side)]
        for n, call in enumerate(blocks):
            stages.append(self._block(call, n, tokens, side, memory_1Sd))
        last_1Td = blocks[-1].output[0]
        if not isinstance(stack.norm, nn.Identity):
            stages.append(ends.norm_stage(stack.norm, last_1Td[0], tokens, side))
        return stages

    def _block(self, call: ModuleCall, n: int, tokens: tuple[str, ...], side: str, memory_1Sd: Tensor | None) -> Stage:
        one = call.module
        assert isinstance(one, Block)
        rest: list[Any] = [*call.given[1:], *[None] * (5 - len(call.given))]
        allowed, position, past, source = rest
        given = BlockCall(one, call.given[0], allowed, position, past, source, tokens, self.reading.tokens, memory_1Sd)
        links: dict[str, Callable[[], Tensor]] = {}
        if isinstance(one.attention, SelfAttention):
            links["self"] = lambda: attention.mean_weights(block.self_call(given, block.normed(given)))
        elif (attend := linear_attend_of(one.attention)) is not None and attend.normalized:
            links["self"] = lambda: attention.mean_weights(given.mixer_call(block.normed(given)).weights_call())
        if one.cross is not None:
            links["cross"] = lambda: attention.mean_weights(block.cross_call(given, block.cross_input(given)))
        kind = "parallel" if one.parallel_residual else one.placement
        case = {"post": 'case "post"', "parallel": 'case "pre" if'}.get(kind, 'case "pre" | "sandwich"')
        line, name = source_line(Block.forward, case), _named(side, f"layer {n + 1}")
        inside, out_Td = partial(block.block_matrices, given), call.output[0][0]
        equation = EQUATIONS[kind] + (",  with cross-attention between them" if one.cross is not None else "")
        return Stage(name, "block", side, tokens, equation, "Td", line, out_Td, inside, given.heads, links=links)

    # Recurrent models

    def _recurrent_pair(self, network: RecurrentDecoder, given: tuple[str, ...]) -> list[Stage]:
        source = self.reading.tokens[::-1] if network.encoder.reverse else self.reading.tokens
        stages = [
            self._embedded(network.source_embedding, source, "encoder"),
            *self._recurrent(network.encoder, source, "encoder"),
        ]
        stages.append(self._embedded(network.embedding, given, "decoder"))
        if network.attentive is not None:
            stages.append(self._attentive(network.attentive, given, source))
        if network.recurrent is not None:
            stages += self._recurrent(network.recurrent, given, "decoder", 1 if network.attentive is not None else 0)
        if network.attentional is not None:
            stages.append(self._attentional(network.attentional, given, source))
        return stages

    def _embedded(self, embedding: nn.Embedding, tokens: tuple[str, ...], side: str) -> Stage:
        called = self._one(embedding, side)
        return ends.plain_embedding_stage(called.given[0][0], called.output[0], tokens, side)

    def _recurrent(self, module: Recurrent, tokens: tuple[str, ...], side: str, below: int = 0) -> list[Stage]:
        calls = [one for one in self.calls if one.module is module]
        x_1Ti = torch.cat([one.given[0] for one in calls], dim=1)  # with input feeding, there is a call for each step
        return [_cell(one, tokens, side) for one in layer_passes(module, x_1Ti, calls[0].given[1:], below=below)]

    def _attentive(self, module: AttentiveRecurrent, tokens: tuple[str, ...], source: tuple[str, ...]) -> Stage:
        called = next(one for one in self.calls if one.module is module)
        (x_1Ti, memory, state), (h_1Td, c_1Tm, _) = called.given, called.output
        before_1Td = torch.cat((state.h_LBd[:1].transpose(0, 1), h_1Td[:, :-1]), dim=1)
        attend = MemoryCall(module, before_1Td, memory, memory.v_BGSD[:, 0], tokens, source)
        first = tuple(part_LBd[0] for part_LBd in state.parts)
        cell = CellCall(module.cell, torch.cat((x_1Ti, c_1Tm), dim=-1), first, tokens, input_name="[x; c]")
        equation = f"α_t = softmax(a(h_t−1, m)),  c_t = Σ α m,  {recurrent.cell_equation(cell)}"
        line = source_line(AttentiveRecurrent.forward, "c_Bm = self.contexts")
        inside = partial(_without_heads, partial(recurrent.attentive_matrices, attend, cell, x_1Ti.shape[-1]))
        links = {"cross": lambda: attention.mean_weights(attend.call())}
        return Stage("decoder layer 1", "recurrent", "decoder", tokens, equation, "Td", line, h_1Td[0], inside, links=links)

    def _attentional(self, module: AttentionalState, tokens: tuple[str, ...], source: tuple[str, ...]) -> Stage:
        calls = [one for one in self.calls if one.module is module]
        h_1Td, memory = torch.cat([one.given[0] for one in calls], dim=1), calls[0].given[1]
        out_Td = torch.cat([one.output for one in calls], dim=1)[0]
        given = MemoryCall(module, h_1Td, memory, memory.v_BGSD[:, 0], tokens, source)
        equation = "α_t = softmax(a(h_t, m)),  c_t = Σ α m,  h̃_t = tanh(W_c [c_t; h_t])"
        line = source_line(AttentionalState.forward, "self.contexts(h_BTd, memory)")
        inside = partial(_without_heads, partial(recurrent.attentional_matrices, given, module))
        links = {"cross": lambda: attention.mean_weights(given.call())}
        return Stage("decoder attention", "attention", "decoder", tokens, equation, "Td", line, out_Td, inside, links=links)

    def _one(self, embedding: nn.Embedding, side: str) -> ModuleCall:
        """The call of an embedding; one that both sides share is called for the source first."""
        calls = [one for one in self.calls if one.module is embedding]
        return calls[-1 if side == "decoder" else 0]


def _cell(one: LayerPass, tokens: tuple[str, ...], side: str) -> Stage:
    given = CellCall(one.cell, one.x_1Ti, one.first, tokens, one.backward)
    equation, line = recurrent.cell_equation(given), source_line(type(one.cell).step, "def step")
    inside = partial(_without_heads, partial(recurrent.cell_matrices, given))
    name = _named(side, one.name)
    return Stage(name, "recurrent", side, tokens, equation, "Td", line, one.h_Td, inside, backwards=one.backward)


def _without_heads(matrices: Callable[[], Sequence[WalkMatrix]], head: int) -> Sequence[WalkMatrix]:
    return matrices()


def _named(side: str, name: str) -> str:
    return f"{side} {name}" if side else name
