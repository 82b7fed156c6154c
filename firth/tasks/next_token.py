"""Language modelling: p(x) = Π p(x_t | x_<t). Letters: B batch, T time, V vocabulary."""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from firth.decoding.config import DecodingConfig, drawing
from firth.decoding.keywords import DecodingKeywords
from firth.decoding.search.speculative import Acceptance
from firth.errors import ConfigError, DataError, either, option
from firth.evaluation.by_text import JudgedTexts, bits_by_block, hash_of, losses_by_block
from firth.evaluation.perplexity import nats_by_token, perplexity, random_loss, stream_shape
from firth.figures.figure import Tabled
from firth.inspection.gradient_flow import Flow, flow
from firth.inspection.inputs import Reading
from firth.inspection.predictions import Predictions, of_text, predictions, read_log_probabilities
from firth.layers.cross_entropy import RowLoss, cross_entropy
from firth.layers.position.rotary_scaling import RotaryScaling
from firth.models import LanguageConfig, LanguageModel, RecurrentConfig, RecurrentLM, TransformerLM, language_model
from firth.models.stretch import stretched
from firth.progress import Progress, silent
from firth.progress.display import followed, shows_progress
from firth.tasks.abilities.chat import Messages, as_messages, conversation_ids, imported_format
from firth.tasks.abilities.completion import Completion, complete
from firth.tasks.abilities.contextual_vectors import refuse_longer
from firth.tasks.abilities.continuation import Continuation, end_tokens, search
from firth.tasks.abilities.drafting import LanguageRun, check_draft, sampled
from firth.tasks.abilities.inspection_inputs import one_reading
from firth.tasks.abilities.stop_strings import until_stop
from firth.tasks.ability import CHAT, CONTINUING, GENERATE
from firth.tasks.run import Run
from firth.tasks.running_text import RunningTextTask, text_of
from firth.tasks.splits import Split, check_split
from firth.tasks.task import CONTINUES, TokenLossConfig, rows
from firth.text.batches.token_files import TokenFile
from firth.text.batches.windows import Streams, Windows
from firth.text.conversation import ChatFormat
from firth.text.data.running_text import Prepared
from firth.text.tokenizers.tokenizer import Tokenizer
from firth.training.loop import Loss


@dataclass(frozen=True, kw_only=True)
class NextTokenConfig(TokenLossConfig):
    kind: Literal["next-token"] = "next-token"
    # weight α of a penalty on large inputs of the output layer: α times the mean of their squares, after dropout (Merity et al.
    # 2018, §4.6); only for recurrent models. The loss that training shows is without penalties
    activation_penalty: float = 0.0
    # weight β of a penalty on fast changes: β times the mean square of the difference between one hidden state of the top layer
    # and the next; only for recurrent models
    temporal_penalty: float = 0.0

    def __post_init__(self) -> None:
        for name in ("activation_penalty", "temporal_penalty"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"objective.{name} is {getattr(self, name)}; expected 0 or more")

    @property
    def penalties(self) -> dict[str, float]:
        """Those that are not 0."""
        given = {name: getattr(self, name) for name in ("activation_penalty", "temporal_penalty")}
        return {name: value for name, value in given.items() if value}


def next_token(
    model: LanguageModel, input_BT: Tensor, target_BT: Tensor, state: Any = None, row_loss: RowLoss | None = None
) -> tuple[Tensor, Any]:
    """−(1/BT) Σ log p(x_t | x_<t), in nats, and the state after the window. The softmax is in float32."""
    x_BTd, state = model.hidden(input_BT, state)
    return cross_entropy(x_BTd, *model.output_layer(), target_BT, cap=model.logit_cap, row_loss=row_loss), state


def penalised_next_token(
    model: RecurrentLM, input_BT: Tensor, target_BT: Tensor, state: Any = None, *, objective: NextTokenConfig
) -> tuple[Tensor, Any]:
    """The value of `next_token`, with the gradient of

    −(1/BT) Σ log p(x_t | x_<t) + α mean (m⊙h_t)² + β mean (h_{t+1} − h_t)²

    where m⊙h are the states after dropout (and the projection, if there is one) that enter the output layer."""
    h_BTd, state = model.states(input_BT, state)
    x_BTd = model.readout_input(h_BTd)
    loss = cross_entropy(x_BTd, *model.output_layer(), target_BT, cap=model.logit_cap, row_loss=objective.row_loss)
    change_BTd = h_BTd[:, 1:].float() - h_BTd[:, :-1].float()
    changed = change_BTd.square().sum() / max(1, change_BTd.numel())  # a window of one token has none
    penalty = objective.activation_penalty * x_BTd.float().square().mean() + objective.temporal_penalty * changed
    return loss + (penalty - penalty.detach()), state


@dataclass(frozen=True)
class TextScore(Tabled):
    """log p(text) in nats, over the `tokens` that were predicted."""

    tokens: int  # the number of tokens that were predicted
    log_probability: float  # in nats, of the whole text
    perplexity: float  # per token
    bits_per_character: float | None  # None: the tokenizer is lossy, so the text has no probability of its own


class LanguageModelRun(Run[LanguageModel]):
    after_prompt = ""  # what separates the prompt from its continuation where both are printed

    def generate(self, prompt: str, *, draft: LanguageRun | None = None, **settings: Unpack[DecodingKeywords]) -> str:
        """The continuation of `prompt`: sampled, or with a `beam` above 1 the best that beam search finds. `settings` are those
        of the recipe's [decoding] (tokens, temperature, seed …), which apply unless they are given here. `continuations` returns
        the whole beam with probabilities. `draft`: a smaller run with the same vocabulary, which makes sampling faster and does
        not change its distribution."""
        return "".join(self.stream(prompt, self.generation(settings), draft))

    def generation(self, given: Mapping[str, object]) -> DecodingConfig:
        """The recipe's [decoding] with the settings that were given, which have to fit together."""
        config = self.decoding(given)
        for name in drawing():
            if config.beam > 1 and given.get(name) is not None:
                raise ConfigError(f"{name} only applies to sampling, but beam is {config.beam}. Remove it, or set beam to 1.")
        return config

    def continuations(self, prompt: str, config: DecodingConfig | None = None) -> list[Continuation]:
        """The continuations of `prompt` that beam search finds, config.beam of them, best first, with log p and score."""
        return search(self, self.prompt_ids(prompt).tolist(), config or self.recipe.decoding)

    def stream(
        self, prompt: str, config: DecodingConfig, draft: LanguageRun | None = None, counts: Acceptance | None = None
    ) -> Iterator[str]:
        """The continuation of `prompt`, piece by piece as it is generated. A piece that ends inside a character is held back.

        An invalid prompt is refused here, before the first piece is asked for. Beam search yields the whole text at once.
        `draft` as for `generate`; its proposals, and how many were accepted, are added to `counts`."""
        check_draft(self, draft, config)
        if config.beam > 1:
            return iter([self.continuations(prompt, config)[0].text])
        ids = self.prompt_ids(prompt)
        before, ends = self.spelled_before(ids), end_tokens(self)
        tokens = sampled(self, ids.tolist(), config, draft, counts, before=before, ends=ends)
        return until_stop(self._pieces(tokens, before, ends), config.stop)

    def chat(self, messages: str | Messages, *, draft: LanguageRun | None = None, **settings: Unpack[DecodingKeywords]) -> str:
        """The answer to `messages`: a question, or messages such as {"role": "user", "content": "…"}, the last of them the
        user's. Settings that are not given come from the recipe's [decoding]; `reply` yields the answer in pieces.
        `draft` as for `generate`.

        For runs that were trained on conversations, and for public models with a chat template."""
        return "".join(self.reply(messages, self.generation(settings), draft))

    def reply(
        self,
        messages: str | Messages,
        config: DecodingConfig | None = None,
        draft: LanguageRun | None = None,
        counts: Acceptance | None = None,
    ) -> Iterator[str]:
        """The answer to `messages`, piece by piece as it is generated. If the conversation is longer than the model's context,
        its oldest rounds are left out, with a warning. `draft` and `counts` as for `stream`."""
        config = config or self.recipe.decoding
        check_draft(self, draft, config)
        ids = conversation_ids(self, self.format, as_messages(messages), config.tokens)
        if config.beam > 1:
            return iter([self._answers(ids, config)[0].text])
        ends = self.answer_ends()
        return until_stop(self._pieces(sampled(self, ids.tolist(), config, draft, counts, ends=ends), [], ends), config.stop)

    def _answers(self, ids: NDArray[np.int64], config: DecodingConfig) -> list[Continuation]:
        continuations = search(self, ids.tolist(), config, self.answer_ends())
        return [dataclasses.replace(one, text=one.text.lstrip(" ")) for one in continuations]

    def answer_ends(self) -> tuple[int, ...]:
        """The tokens that end an answer: that of the format, and those with which an imported model ends any text."""
        return self.format.end, *(self.tokenizer.ends if self.tokenizer.kind == "imported" else ())

    @cached_property
    def format(self) -> ChatFormat:
        """The format that turns messages into tokens, by the chat template of a public model."""
        format = imported_format(self.tokenizer)
        if format is None:
            raise ConfigError(self.refusal(CHAT).marked)  # an AttributeError in a property would be lost in __getattr__
        return format

    def _pieces(self, tokens: Iterator[int], before: Sequence[int], ends: Sequence[int]) -> Iterator[str]:
        """The text of the tokens, spelled as after the tokens `before`, up to one of the tokens `ends`."""
        waiting = deque(before)
        spelled = self.tokenizer.spell(iter(waiting.popleft, None))
        for _ in range(len(waiting)):
            next(spelled)
        for token in tokens:
            if token in ends:
                return
            waiting.append(token)
            if piece := next(spelled):
                yield piece

    def spelled_before(self, ids: NDArray[np.int64]) -> list[int]:
        """The tokens of the prompt that decide how the first token after them is spelled."""
        tokens: list[int] = ids.tolist()
        return tokens

    def score(self, texts: Sequence[str], progress: Progress = silent) -> list[TextScore]:
        """log p of each of `texts`, as the start of a document or line (see `start_ids`)."""
        return [self._score(text, progress) for text in texts]

    def _score(self, text: str, progress: Progress) -> TextScore:
        ids = np.concatenate((self.start_ids(), self.ids(text)))
        if len(ids) < 2:
            raise DataError(f"{text[:20]!r} leaves nothing to predict; expected at least two tokens")
        log_p = read_log_probabilities(self.network, ids, progress)
        total, tokens = math.fsum(log_p), len(log_p)
        characters = len(text) if len(self.start_ids()) else len(text) - 1
        bits = -total / math.log(2) / characters if self.tokenizer.lossless else None
        return TextScore(tokens, total, math.exp(min(-total / tokens, 700.0)), bits)

    def complete(self, text: str, candidates: Sequence[str] | None = None, *, proposals: int = 8) -> list[Completion]:
        """Fillers of the blank `__` in `text`, ranked by log p(left + filler + right).

        `candidates`: the fillers to rank; by default `proposals` of the model's own."""
        return complete(self, text, candidates, proposals)

    def predictions(self, text: str, *, target: str | None = None, top: int = 5) -> Predictions:
        """The most probable tokens at each position of `text`, and the probability of the actual one; `.figure()`, `.text()`.

        `top`: the number of tokens at each position. `target` does not apply to language models."""
        self._refuse("target", target)
        ids = self._ids_after_start(text)
        return predictions(of_text(self.network, ids), ids[1:], self.tokenizer.token, top)

    def flow(self, text: str) -> Flow:
        """The share of the gradient of the last token's loss that reaches each earlier token of `text`; `.figure()`."""
        if self.quantised is not None:
            raise ConfigError("flow needs gradients, and quantised weights have none. Load the run without quantise.")
        ids = self._ids_after_start(text)
        refuse_longer(self.network, len(ids) - 1)
        return flow(self.network, ids, [self.tokenizer.token(int(id)) for id in ids])

    def _ids_after_start(self, text: str) -> NDArray[np.int64]:
        """As for `score`: after the end of another text."""
        if not text:
            raise DataError("the text is empty; give at least one token")
        return np.concatenate((self.start_ids(), self.ids(text)))

    @shows_progress
    def evaluate(
        self,
        path: str | Path | None = None,
        progress: Progress | bool = True,
        *,
        split: Split | None = None,
        streams: int | None = None,
        random_batches: int | None = None,
        seed: int = 0,
        context: int | None = None,
        rotary_scaling: RotaryScaling | None = None,
    ) -> dict[str, object]:
        """Loss, perplexity and bits per character; see Run.evaluate.

        A recurrent model reads the text as one stream, as results are published; several `streams` side by side are faster and a
        little worse, because each starts without a past. A Transformer reads windows of `context` tokens, by default those of
        training.context; `rotary_scaling` stretches its rotary positions to a longer context. `random_batches` adds the loss over
        that many batches of windows at random offsets, drawn from `seed`."""
        progress = followed(progress)
        check_split(self.recipe.data, path, split)
        _check_protocol(streams, random_batches, seed, self.network.carries)
        network, config = self._reader(context, rotary_scaling), self.recipe.training
        window = context or config.context
        name, text = text_of(self, path, split, progress)
        batch = max(1, config.batch * config.context // window)  # as many tokens at once as in training
        shape = stream_shape(text, streams, config.context) if network.carries else (batch, window)
        lossless = self.tokenizer.lossless
        measured = perplexity(network, text, lossless=lossless, batch=shape[0], context=shape[1], progress=progress)
        read = {"streams": shape[0], "context": None} if network.carries else {"streams": None, "context": window}
        result = {**dataclasses.asdict(measured), "split": name, **read}
        if random_batches is None:
            return result
        estimate = random_loss(network, text, random_batches, batch=config.batch, context=window, seed=seed, progress=progress)
        return {**result, **dataclasses.asdict(estimate), "seed": seed}

    def _by_text(self, path: str | Path | None, split: Split | None, progress: Progress) -> JudgedTexts | None:
        if not isinstance(self.task, RunningTextTask):  # conversations, and texts for learning in context
            return None
        name, text = text_of(self, path, split, progress)
        config = self.recipe.training
        carries = self.network.carries
        batch, context = stream_shape(text, None, config.context) if carries else (config.batch, config.context)
        nats = nats_by_token(self.network, text, batch=batch, context=context, progress=progress)
        nats_N, ids = nats.astype(np.float64), np.asarray(text.ids, np.int64)
        metrics = losses_by_block(nats_N, ids)
        if not self.tokenizer.lossless:
            return JudgedTexts(name, hash_of(ids), metrics)
        tokens = self.tokenizer.spelling.tokens
        begun_V = np.array([sum(byte & 0xC0 != 0x80 for byte in token) for token in tokens])  # characters, by their first bytes
        metrics["bits_per_character"] = bits_by_block(nats_N, begun_V[ids[1:]])
        return JudgedTexts(name, hash_of((b"".join(tokens[id] for id in ids.tolist()),)), metrics)

    def _reader(self, context: int | None, rotary_scaling: RotaryScaling | None) -> LanguageModel:
        """The network that reads windows of `context` tokens; positions that end before that are refused."""
        network = self.network
        if context is None and rotary_scaling is None:
            return network
        if not isinstance(network, TransformerLM):
            name = "rotary_scaling" if context is None else "context"
            raise ConfigError(
                f"{name} only applies to Transformers; this run is recurrent and carries its state along the whole text. "
                f"Remove {option(name)}."
            )
        if context is None:
            raise ConfigError(f'rotary_scaling = "{rotary_scaling}" needs a context. Add {option("context")}.')
        if context < 1:
            raise ConfigError(f"context is {context}; expected 1 or more")
        end = network.scheme.end
        if end is not None and context > end:
            raise ConfigError(
                f"context is {context}, but {network.config.position.kind} positions end at model.context = {end}. "
                f"Choose {option(f'context={end}')} or less, or a run with other positions."
            )
        if rotary_scaling is None:
            return network
        if self.quantised is not None:
            raise ConfigError(
                f"rotary_scaling does not apply to quantised weights. Remove {option('rotary_scaling')} or {option('quantise')}."
            )
        if rotary_scaling not in get_args(RotaryScaling):
            raise ConfigError(f'rotary_scaling is "{rotary_scaling}"; choose {either(get_args(RotaryScaling))}.')
        return stretched(network, context, rotary_scaling, self.recipe.training.context)

    def reading(self, text: str, target: str | None = None, context: str | None = None) -> Reading:
        if text and not text.strip() and target is None and context is None:  # white space is something to continue
            return self._reading(text)
        return super().reading(text, target, context)

    def _reading(self, text: str) -> Reading:
        return one_reading(self.network, self.tokenizer, self.prefixed_ids(text), self._forward)

    def _forward(self, *tokens: Any) -> Any:
        return self.network.hidden(tokens[0])


class NextToken(RunningTextTask[NextTokenConfig]):
    name = "next-token"
    Objective = NextTokenConfig
    families = ("language",)
    metrics = ("loss", "perplexity", "bits_per_character")
    selecting = ("loss",)
    run_class = LanguageModelRun
    noun = "a language model"
    can = (GENERATE, CHAT, *CONTINUING)
    uses = CONTINUES | {"tokenizer.start"}
    shortest = 2
    starts = True

    def check(self) -> None:
        super().check()
        self.expect_context()
        for name, value in self._penalties.items():
            if not isinstance(self.recipe.model, RecurrentConfig):
                raise ConfigError(
                    f"objective.{name} is {value}, and only applies to the hidden states of recurrent models; given "
                    f'"{self.recipe.model.kind}". Remove it.'
                )

    @property
    def _penalties(self) -> dict[str, float]:
        """Those of the objective; a task derived from this one may have another objective."""
        objective = self.recipe.objective
        return objective.penalties if isinstance(objective, NextTokenConfig) else {}

    def network(self, source_vocab: int, vocab: int) -> LanguageModel:
        assert isinstance(self.recipe.model, LanguageConfig)  # a recipe's family fits its objective
        return language_model(self.recipe.model, vocab)

    def batches(self, data: Prepared) -> Streams | Windows:
        config, start = self.recipe.training, data.tokenizer.start
        if not config.carry:
            return Windows(data.train.ids, config.batch, config.context, config.seed, start)
        deviation = config.context_deviation
        return Streams(data.train.ids, config.batch, config.context, config.seed, start, deviation=deviation)

    def loss(self, data: Prepared) -> Loss:
        objective = self.recipe.objective
        if self._penalties:
            return partial(penalised_next_token, objective=objective)
        return next_token if objective.row_loss is None else partial(next_token, row_loss=objective.row_loss)

    def measured(
        self, network: LanguageModel, text: TokenFile, tokenizer: Tokenizer, dtype: str, progress: Progress
    ) -> dict[str, Any]:
        config = self.recipe.training
        measures = perplexity(
            network, text, lossless=tokenizer.lossless, batch=config.batch, context=config.context, dtype=dtype, progress=progress
        )
        return dataclasses.asdict(measures)

    def headline(self, metrics: Mapping[str, Any]) -> str:
        bits = metrics["bits_per_character"]
        return f"{bits:.3f} bits per character" if bits is not None else f"perplexity {metrics['perplexity']:.2f}"

    def report(self, metrics: Mapping[str, Any]) -> str:
        training = self.recipe.training
        windows = f"windows of {metrics.get('context') or training.context} tokens"
        bits = metrics["bits_per_character"]
        lines = [
            ("text", metrics["split"]),
            ("tokens", f"{metrics['tokens']:,}, read {_protocol(metrics['streams'], windows)}"),
            ("loss", f"{metrics['loss']:.4f} nats per token"),
            ("perplexity", f"{metrics['perplexity']:.4f}"),
            ("bits per character", f"{bits:.4f}" if bits is not None else "undefined: the tokenizer is lossy"),
        ]
        if "loss_random" in metrics:
            error = f" ± {metrics['loss_random_error']:.4f}" if metrics["loss_random_error"] is not None else ""
            how = f"{metrics['random_batches']:,} random batches of {training.batch} {windows}, seed {metrics['seed']}"
            lines.append(("loss, random", f"{metrics['loss_random']:.4f}{error} ({how})"))
        return rows(*lines)


def _protocol(streams: int | None, windows: str) -> str:
    if streams is None:
        return f"in {windows} without overlap"
    return "as one stream" if streams == 1 else f"in {streams} streams"


def _check_protocol(streams: int | None, random_batches: int | None, seed: int, carries: bool) -> None:
    if streams is not None and not carries:
        raise ConfigError(
            f"streams is {streams}, but a Transformer has no state to carry along a stream: it reads windows. "
            f"Remove {option('streams')}."
        )
    for name, value, least in (("streams", streams, 1), ("random_batches", random_batches, 1), ("seed", seed, 0)):
        if value is not None and value < least:
            raise ConfigError(f"{name} is {value}; expected {least} or more")
