"""Tables of images with captions, and recipes that learn from them within seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firth.config import Table
from firth.figures.image_attention import png
from firth.text.datasets.scenes import scenes

MODELS: dict[str, Table] = {
    "lstm": {"kind": "lstm", "width": 48, "embedding": 24, "channels": [12, 24, 32]},
    "transformer": {"kind": "transformer", "width": 48, "depth": 1, "heads": 2, "patch": 6, "encoder_depth": 1},
}


def write_captions(folder: Path, count: int = 20, *, twice: bool = False) -> Path:
    """captions.tsv and its images: scenes; `twice`: a second caption for each image."""
    drawn = scenes(count, "train", 24)
    lines = ["image\tcaption"]
    (folder / "images").mkdir(parents=True)
    for n, (image, caption) in enumerate(zip(drawn.image_NHWC, drawn.captions, strict=True)):
        (folder / "images" / f"{n}.png").write_bytes(png(image))
        lines += [f"images/{n}.png\t{text}" for text in ([caption, f"we see {caption}"] if twice else [caption])]
    (folder / "captions.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "captions.tsv"


def caption_table(data: Table, model: str = "lstm", **training: Any) -> Table:
    return {
        "data": data,
        "tokenizer": {"kind": "word"},
        "model": {"family": "caption"} | MODELS[model],
        "objective": {"kind": "caption"},
        "training": {"steps": 10, "batch": 10, "context": 16, "rate": 0.005, "device": "cpu"} | training,
        "decoding": {"tokens": 16},
    }
