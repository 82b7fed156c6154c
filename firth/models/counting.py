"""Count the weights, matrices, FLOPs and memory of a configuration without allocating it.

The W^Q, W^K and W^V of a head count as separate matrices, as do the gates of a recurrent cell, although they are stored and
multiplied as one. An embedding is looked up, not multiplied: that costs no FLOPs.

    FLOPs per token = 2 · (weights that a token is multiplied with) + 4 · width · (keys that it attends to), per attention layer
                    + 4 · (numbers in the state of linear attention): adding φ(k) vᵀ to it, and φ(q)ᵀ S

A window has no more keys than its span, however long the text.

Training takes three times the FLOPs of inference: the backward pass has two products for each of the forward pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from firth.layers.block import Block
from firth.layers.cross_attention import CrossAttention
from firth.layers.feedforward import FeedForward
from firth.layers.image_cells import Convolutions, ImageCells, Patches
from firth.layers.norm import NORMS
from firth.layers.position import PositionScheme
from firth.layers.recurrent import Cell
from firth.layers.self_attention import Attend, SelfAttention, WindowAttention
from firth.layers.token_mixer import TokenMixer
from firth.layers.weight_group import WeightGroup
from firth.models.decoder import Decoder
from firth.models.network import Network
from firth.models.readouts import MaskedLM
from firth.models.stack import Stack

FLOAT = 4  # bytes


@dataclass(frozen=True)
class Count:
    parameters: int  # all trained numbers
    weights: int  # those in matrices
    matrices: int
    parts: tuple[WeightGroup, ...]
    # per token, without attention to others; one token of each side in an encoder–decoder, one token and one cell of an image
    flops_per_token: int
    flops_per_key: int  # per token attended to: the score and the weighted sum, in all layers
    state_per_token: int  # bytes of cached keys and values per token in float32
    state: int  # bytes of the hidden state of a recurrent model, or of linear attention and windows
    activations_per_token: int  # bytes in float32 kept for the backward pass, approximately

    def flops(self, keys: int) -> int:
        """For one token that attends to `keys` others."""
        return self.flops_per_token + keys * self.flops_per_key

    def training_bytes(self, tokens: int = 0, adapters: int | None = None) -> int:
        """Weights, gradients and AdamW's two means in float32, and the activations of `tokens` of a batch. With `adapters`, only
        that many further numbers are trained."""
        numbers = 4 * self.parameters if adapters is None else self.parameters + 4 * adapters
        return FLOAT * numbers + tokens * self.activations_per_token

    def inference_bytes(self, tokens: int = 0) -> int:
        """Weights, and the state of one text of `tokens`."""
        return FLOAT * self.parameters + tokens * self.state_per_token + self.state


def count(model: Network) -> Count:
    """The count of a module on any device, "meta" included."""
    parts = _parts(model)
    multiplied = _multiplied(parts)
    multiplied += _tied(model) + _convolved(model) + _shared(model)
    attentions = [
        module
        for module in model.modules()
        if isinstance(module, SelfAttention | CrossAttention) and not isinstance(module, WindowAttention)
    ]
    writing = {id(module) for part in _writing(model) for module in part.modules()}
    return Count(
        parameters=sum(part.weights for part in parts),
        weights=sum(part.weights for part in parts if part.is_matrix),
        matrices=sum(part.count for part in parts if part.is_matrix),
        parts=parts,
        flops_per_token=2 * multiplied + sum(_mixing(module) for module in model.modules()),
        flops_per_key=sum(4 * layer.out.weight.shape[1] * layer.attend.layers for layer in attentions),
        state_per_token=sum(FLOAT * _keys_and_values(layer) for layer in attentions if id(layer) in writing),
        state=sum(FLOAT * numbers for numbers in _remembered(model)),
        activations_per_token=sum(FLOAT * numbers for numbers in _kept(model)),
    )


def _tied(model: Network) -> int:
    """Weights of an embedding that is also the output layer: as that, all of its rows are multiplied."""
    return sum(_tied_here(part) for part in model.modules() if isinstance(part, Decoder | MaskedLM))


def _tied_here(model: Decoder | MaskedLM) -> int:
    weight_Vd, _ = model.output_layer()
    same = weight_Vd is model.embedding.weight or weight_Vd._base is model.embedding.weight
    return weight_Vd.numel() if same else 0


def _convolved(model: Network) -> int:
    """Weights of an image encoder that one cell is multiplied with more than once: a convolution's, at each of its pixels."""
    fronts = (module for module in model.modules() if isinstance(module, Patches | Convolutions))
    return sum((times - 1) * layer.get_parameter("weight").numel() for front in fronts for layer, times in front.repeats)


def _shared(model: Network) -> int:
    """Weights of blocks that stand for several layers, for each layer but one."""
    blocks = [block for module in model.modules() if isinstance(module, Stack) for block in module.blocks]
    return sum((_layers(block) - 1) * _multiplied(_parts(block)) for block in blocks if _layers(block) > 1)


def _layers(block: nn.Module) -> int:
    assert isinstance(block, Block)
    return block.config.layers


def _multiplied(parts: Iterable[WeightGroup]) -> int:
    """Weights of matrices that a token is multiplied with."""
    return sum(part.weights for part in parts if part.is_matrix and part.name not in _LOOKED_UP)


_LOOKED_UP = ("embedding", "embedding of the source", "other embeddings", "positions")


def _parts(model: nn.Module) -> tuple[WeightGroup, ...]:
    """Every parameter once, grouped by role and shape."""
    named: dict[int, list[WeightGroup]] = {}  # by parameter; a layer comes before its products and names them first
    total: dict[tuple[str, tuple[int, ...]], int] = {}
    for module in model.modules():
        for parameter, parts in _named(model, module):
            named.setdefault(id(parameter), parts)
    for parameter in model.parameters():
        for part in named.get(id(parameter)) or [_plain(parameter)]:
            total[part.name, part.shape] = total.get((part.name, part.shape), 0) + part.count
    return tuple(WeightGroup(name, shape, number) for (name, shape), number in total.items())


def _named(model: nn.Module, module: nn.Module) -> Iterator[tuple[Tensor, list[WeightGroup]]]:
    """The parameters whose role a layer knows."""
    match module:
        case SelfAttention():
            one = (module.head_width, module.qkv.weight.shape[1])
            groups = module.kv_heads
            yield (
                module.qkv.weight,
                [WeightGroup("query", one, module.heads), WeightGroup("key", one, groups), WeightGroup("value", one, groups)],
            )
            yield from _of_attention(module)
        case CrossAttention():
            one = (module.head_width, module.query.weight.shape[1])
            groups = _keys_and_values(module) // (2 * module.head_width)
            heads = module.out.weight.shape[1] // module.head_width
            yield module.query.weight, [WeightGroup("query, to the source", one, heads)]
            yield (
                module.kv.weight,
                [WeightGroup("key, of the source", one, groups), WeightGroup("value, of the source", one, groups)],
            )
            yield from _of_attention(module)
        case TokenMixer():
            yield from module.parts()
        case Attend():
            score = module.score_layer.attend_parameters()
            for name, parameter in module.named_parameters(recurse=False):
                yield parameter, [_of_score(parameter) if name in score else WeightGroup("positions", tuple(parameter.shape), 1)]
        case FeedForward():
            width, inner = module.down.weight.shape
            yield module.up.weight, [WeightGroup("feed-forward, up", (inner, width), len(module.up.weight) // inner)]
            yield module.down.weight, [WeightGroup("feed-forward, down", (width, inner), 1)]
        case Cell():
            yield from _of_cell(module)
        case ImageCells():
            yield from _of_image(module)
        case PositionScheme() | nn.LayerNorm() | nn.RMSNorm():
            role = "positions" if isinstance(module, PositionScheme) else "norms"
            yield from ((parameter, [WeightGroup(role, tuple(parameter.shape), 1)]) for parameter in module.parameters())
        case nn.Embedding() | nn.Linear() if known := _role(model, module):
            yield module.weight, [WeightGroup(known, tuple(module.weight.shape), 1)]
        case Stack() if module.embedding_projection is not None:
            weight = module.embedding_projection.weight
            yield weight, [WeightGroup("projection of the embedding", tuple(weight.shape), 1)]
        case _:
            pass


def _of_cell(cell: Cell) -> Iterator[tuple[Tensor, list[WeightGroup]]]:
    gates = len(cell.gates)
    for name, parameter in cell.named_parameters(recurse=False):
        role = "biases" if "bias" in name else "from the input" if "_ih_" in name else "from the state"
        yield parameter, [WeightGroup(role, (len(parameter) // gates, *parameter.shape[1:]), gates)]


def _of_image(cells: ImageCells) -> Iterator[tuple[Tensor, list[WeightGroup]]]:
    for table in (cells.row_Rm, cells.column_Km):
        yield table, [WeightGroup("positions", tuple(table.shape), 1)]
    for layer, _ in cells.front.repeats:
        weight = layer.get_parameter("weight")
        yield weight, [WeightGroup("convolution" if weight.ndim == 4 else "patches", tuple(weight.shape), 1)]


def _role(model: nn.Module, module: nn.Embedding | nn.Linear) -> str | None:
    """The role of a matrix that belongs to no layer."""
    if isinstance(module, nn.Linear):
        return "output" if module is getattr(model, "output", None) else None
    for name, role in (("embedding", "embedding"), ("own_embedding", "embedding of the source")):
        if module is getattr(model, name, None):
            return role
    return "other embeddings"


def _of_attention(layer: SelfAttention | CrossAttention) -> Iterator[tuple[Tensor, list[WeightGroup]]]:
    yield layer.out.weight, [WeightGroup("output of attention", tuple(layer.out.weight.shape), 1)]
    if isinstance(layer, SelfAttention) and layer.position_query is not None and layer.position_key is not None:
        for projection in (layer.position_query, layer.position_key):  # multiplied once per distance, not once per token
            yield projection.weight, [WeightGroup("positions", tuple(projection.weight.shape), 1)]
    for name in layer.score_layer.layer_parameters():
        parameter = layer.get_parameter(name)
        yield parameter, [_of_score(parameter)]


def _of_score(parameter: Tensor) -> WeightGroup:
    """One for each head."""
    heads, *one = parameter.shape
    return WeightGroup("score", tuple(one) or (1,), heads)


def _plain(parameter: Tensor) -> WeightGroup:
    return WeightGroup("other" if parameter.ndim > 1 else "biases", tuple(parameter.shape), 1)


def _keys_and_values(layer: SelfAttention | CrossAttention) -> int:
    """The size of the keys and values of a token."""
    if isinstance(layer, CrossAttention):
        return layer.kv.weight.shape[0]
    return 2 * layer.kv_heads * layer.head_width


def _writing(model: Network) -> Iterator[nn.Module]:
    """The parts that generate token by token and have a cache; an encoder runs once."""
    if isinstance(model, Decoder):
        yield from (part for name, part in model.named_children() if name != "encoder")


def _remembered(model: Network) -> Iterator[int]:
    """The size of the state of each recurrent layer of the decoder: h, and c of an LSTM; S and z of linear attention; and the
    last keys and values of a window."""
    for module in (module for part in _writing(model) for module in part.modules()):
        match module:
            case Cell():
                yield module.width * len(module.state) * module.directions
            case WindowAttention():
                yield (module.span - 1) * _keys_and_values(module)
            case TokenMixer():
                yield module.state_numbers()
            case _:
                pass


def _mixing(module: nn.Module) -> int:
    """FLOPs per token that linear attention and windows need besides their products with weights."""
    match module:
        case WindowAttention():
            return 4 * module.out.weight.shape[1] * module.span * module.attend.layers
        case TokenMixer():
            return 4 * module.state_numbers()
        case _:
            return 0


def _kept(model: Network) -> Iterator[int]:
    """Numbers per token that each layer keeps for the backward pass: the factors of its products, and the inputs of its norms,
    its rotation of q and k, and its activation. Attention weights are recomputed."""
    for module in model.modules():
        match module:
            case Stack():
                yield from (_layers(block) * _kept_by(block, module) for block in module.blocks)
            case Cell():
                yield module.directions * module.width * (len(module.gates) + 2)  # the gates, h, and c or its like
            case _:
                pass


def _kept_by(block: nn.Module, stack: Stack) -> int:
    width, numbers = stack.settings.width, 0
    normed = NORMS[stack.settings.norm.kind].kept * width
    normed *= 2 if stack.settings.norm.placement == "sandwich" else 1
    for layer in block.modules():
        match layer:
            case SelfAttention():
                turned = (layer.heads + layer.kv_heads) * layer.head_width if stack.scheme.turns else 0
                scaled = 2 * (layer.heads + layer.kv_heads) * layer.head_width if layer.query_norm is not None else 0
                numbers += normed + len(layer.qkv.weight) + scaled + turned + layer.out.weight.shape[1]
            case TokenMixer():
                numbers += normed + layer.kept()
            case CrossAttention():
                scaled = 2 * len(layer.query.weight) + len(layer.kv.weight) if layer.query_norm is not None else 0
                numbers += normed + len(layer.query.weight) + len(layer.kv.weight) + scaled + layer.out.weight.shape[1]
            case FeedForward():
                inner = layer.down.weight.shape[1]
                gated = inner if layer.phi.gated else 0
                numbers += 0 if stack.settings.feedforward.parallel is True else normed  # a parallel block may have one norm
                numbers += len(layer.up.weight) + inner + gated
            case _:
                pass
    return numbers
