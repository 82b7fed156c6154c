from __future__ import annotations

from typing import Any

import pytest

from firth.errors import ConfigError
from firth.vectors.config import VectorsConfig


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"model": "skipgramm"}, "model is 'skipgramm'; expected one of skipgram, cbow. Did you mean \"skipgram\"?"),
        ({"loss": "nce"}, "loss is 'nce'; expected one of ns, hs, softmax"),
        ({"device": "tpu"}, "device is 'tpu'; expected one of cpu, cuda"),
        ({"dim": 0}, "dim is 0; expected an integer ≥ 1"),
        ({"window": 2.5}, "window is 2.5; expected an integer"),
        ({"negatives": 0}, "negatives is 0"),
        ({"epochs": True}, "epochs is True"),
        ({"min_count": 0}, "min_count is 0"),
        ({"max_vocab": 1}, "max_vocab is 1; expected an integer ≥ 2"),
        ({"threads": 0}, "threads is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"deterministic": 1}, "deterministic is 1; expected true or false"),
        ({"faithful": "no"}, "faithful is 'no'; expected true or false"),
        ({"sample": -1e-3}, "sample is -0.001; expected a number ≥ 0"),
        ({"rate": float("nan")}, "rate is nan"),
        ({"rate": 0.0, "final_rate": 0.0}, "rate is 0.0 and final_rate is 0.0"),
        ({"rate": 0.01, "final_rate": 0.02}, "expected 0 ≤ final_rate ≤ rate and rate > 0"),
    ],
    ids=lambda value: "",
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as error:
        VectorsConfig(**wrong)
    assert complaint in str(error.value)


def test_deterministic_training_has_one_worker_whatever_the_threads() -> None:
    assert VectorsConfig(threads=4).workers == 4
    assert VectorsConfig(threads=4, deterministic=True).workers == 1
    assert VectorsConfig().workers >= 1
