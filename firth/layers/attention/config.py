"""The table [model.attention] of a recipe: one class for what every Transformer has, and more for encoders and for decoders."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from firth.config import SubTable, renamed
from firth.errors import ConfigError
from firth.layers.attention.mask import MaskKind
from firth.layers.attention.score import ScoreKind
from firth.layers.token_mixer import MIXERS, SelfAttentionKind

MixerKind = str  # of a layer: one of MIXERS, or "taylor" or "window"
QKNorm = bool | Literal["whole"]
_CHECKED_APART = ("kind", "span", "feature_width")
BASED_SPAN = 64  # tokens in the window of Based, the current one included (Arora et al. 2024, §4.2)


@dataclass(frozen=True, kw_only=True)
class AttentionConfig(SubTable):
    """The attention of every Transformer."""

    short: ClassVar[str | None] = None

    heads: int = renamed(".heads", default=4)  # number of attention heads; must divide `width`, unless `head_width` is set
    # dimension of the queries, keys and values of a head; if not set, `width` / `heads`
    head_width: int | None = renamed(".head_width", default=None)
    # number of key/value heads: fewer than `heads` is grouped-query attention, 1 is multi-query; if not set, `heads`
    kv_heads: int | None = renamed(".kv_heads", default=None)
    score: ScoreKind = renamed(".score", default="scaled_dot")  # attention score: how well a key matches a query
    # factor of the scores; if not set, 1/√(width of a head) for "scaled_dot", else 1
    scale: float | None = renamed(".score_scale", default=None)
    cap: float | None = renamed(".score_cap", default=None)  # bound c of the scores, c tanh(s / c); if not set, none
    key_bias: bool = True  # biases of the keys, where queries and values have them
    # normalise queries and keys before positions turn them: those of each head, or those of all heads together ("whole")
    qk_norm: QKNorm = renamed(".qk_norm", default=False)

    def __post_init__(self) -> None:
        for name in ("scale", "cap"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"model.attention.{name} is {value}; expected a number above 0")

    @property
    def groups(self) -> int:
        return self.kv_heads or self.heads

    def per_head(self, width: int) -> int:
        return self.head_width or width // self.heads

    def in_layer(self, layer: int) -> MixerKind:
        """The kind of this layer."""
        return "softmax"


@dataclass(frozen=True, kw_only=True)
class WindowedConfig(AttentionConfig):
    """Attention of an encoder, in some layers to a window."""

    # number of tokens in the window that a token attends to, itself in the middle; must be odd; if not set, the whole text
    span: int | None = renamed(".span", default=None)
    # layers that attend to the window: "L" (local) or "G" (global) for each, repeated over all layers, as "GLL"; if not set, all
    window_pattern: str | None = renamed(".window_pattern", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.span is not None and self.span % 2 == 0:
            raise ConfigError(
                f"model.attention.span is {self.span}; expected an odd number, with the current token in the middle"
            )
        self.check_pattern(self.span is not None, "model.attention.span")

    @property
    def has_windows(self) -> bool:
        return self.span is not None

    def check_pattern(self, has: bool, needed: str) -> None:
        """Refuse a pattern without windows."""
        pattern = self.window_pattern
        if pattern is not None and not has:
            raise ConfigError(
                f"model.attention.window_pattern = {json.dumps(pattern)} needs {needed}. Remove one, or set the other."
            )
        if pattern is not None and (not pattern or set(pattern) - set("LG")):
            raise ConfigError(
                f'model.attention.window_pattern is "{pattern}"; expected "L" (local) and "G" (global), such as "LLG"'
            )

    def in_layer(self, layer: int) -> MixerKind:
        pattern = self.window_pattern
        local = self.has_windows and (pattern is None or pattern[layer % len(pattern)] == "L")
        return "window" if local else "softmax"


@dataclass(frozen=True, kw_only=True)
class CausalConfig(WindowedConfig):
    """Attention of a language model."""

    short: ClassVar[str | None] = "kind"

    # self-attention: with a softmax over all earlier tokens, or linear attention, whose time is linear in the length of the text
    # and whose state is of constant size: "linear", "gated_linear" (GLA), "based" (Taylor features and windows by turns)
    kind: SelfAttentionKind | Literal["based"] = "softmax"
    # attention mask; a language model accepts "causal", "strictly_causal" and "window"
    mask: MaskKind = renamed(".mask", default="causal")
    # number of tokens in the window, the current one included; required by `mask = "window"`; for `kind = "based"`, if not set,
    # 64; only for these
    span: int | None = renamed(".span", default=None)
    # layers that attend to the window: "L" (local) or "G" (global) for each, repeated over all layers, as "LLLLLG"; only for
    # `mask = "window"`; if not set, all
    window_pattern: str | None = renamed(".window_pattern", default=None)
    # dimension of queries and keys in the Taylor layers of `kind = "based"` (if not set, 16), and only for it
    feature_width: int | None = renamed(".feature_width", default=None)

    def __post_init__(self) -> None:
        AttentionConfig.__post_init__(self)
        self._check_mask()
        self.check_pattern(self.has_windows, 'model.attention.mask = "window"')
        self._check_kind()

    @property
    def has_windows(self) -> bool:
        return self.mask == "window"

    def in_layer(self, layer: int) -> MixerKind:
        """Based alternates Taylor layers, which see everything in outline, with windows, which see the last tokens sharply."""
        match self.kind:
            case "softmax":
                return super().in_layer(layer)
            case "based":
                return "taylor" if layer % 2 == 0 else "window"
            case _:
                return self.kind

    def _check_mask(self) -> None:
        match self.mask:
            case "full" | "all_but_self":
                raise ConfigError(
                    f'model.attention.mask = "{self.mask}" lets a position see the token that it has to predict; '
                    'for a language model choose "causal", "strictly_causal" or "window"'
                )
            case "prefix":
                raise ConfigError(
                    'model.attention.mask = "prefix" needs the length of each text\'s prefix, and running text has none; '
                    'choose "causal", "strictly_causal" or "window"'
                )
            case "window" if self.span is None:
                raise ConfigError(
                    'model.attention.mask = "window" needs model.attention.span, the number of tokens in the window, the current '
                    "one included"
                )
            case _ if self.span is not None and self.mask != "window" and not self._uses("span"):
                raise ConfigError(
                    f'model.attention.span = {self.span} only applies to model.attention.mask = "window"; given "{self.mask}". '
                    "Remove model.attention.span, or change the mask"
                )
            case _:
                pass

    def _uses(self, setting: str) -> bool:
        return any(setting in MIXERS[self.in_layer(layer)].uses for layer in range(2))

    def _check_kind(self) -> None:
        """Refuse settings that this kind of attention has no place for."""
        kind = self.kind
        if self.feature_width is not None and not self._uses("feature_width"):
            raise ConfigError(
                f'model.attention.feature_width only applies to model.attention.kind = "based"; given "{kind}". Remove it.'
            )
        if kind == "softmax":
            return
        own = (*MIXERS[self.in_layer(0)].uses, *_CHECKED_APART)
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            plain = field.name == "kv_heads" and value == self.heads
            if field.name not in own and value != field.default and not plain:
                raise ConfigError(
                    f'model.attention.{field.name} = {json.dumps(value)} only applies to model.attention.kind = "softmax"; given '
                    f'"{kind}". Remove model.attention.{field.name}.'
                )
