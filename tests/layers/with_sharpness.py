"""Run with a folder and a recipe: firth with one more setting of attention, `sharpness`, a factor of the scale. It is declared in
the file of AttentionConfig and computed in Attend, and nowhere else. Prints what can be seen of it as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "tests"))
FIELD = "    sharpness: float = dataclasses.field(default=1.0, metadata={'meaning': 'factor of the scale'})\n"
CHANGES = {
    "firth.layers.attention.config": (
        "    cap: float | None = renamed(",
        FIELD + "    cap: float | None = renamed(",
    ),
    "firth.layers.self_attention": (
        "self.score_layer.scale if config.scale is None else config.scale, config.cap",
        "(self.score_layer.scale if config.scale is None else config.scale) * config.sharpness, config.cap",
    ),
}


def add_sharpness() -> None:
    import firth.layers.attention  # the packages around the modules that are replaced

    for name in CHANGES:
        assert name not in sys.modules or name == "firth.layers.attention.config"
    for name, (old, new) in CHANGES.items():
        path = ROOT / Path(*name.split(".")).with_suffix(".py")
        source = path.read_text(encoding="utf-8")
        assert source.count(old) == 1
        module = sys.modules[name] = ModuleType(name)
        module.__file__ = str(path)
        exec(compile(source.replace(old, new), str(path), "exec"), module.__dict__)
        package, _, last = name.rpartition(".")
        setattr(sys.modules[package], last, module)
    assert firth.layers.attention


def main() -> None:
    add_sharpness()
    import torch
    from docs_scripts import docs_script
    from typer.testing import CliRunner

    import firth
    import firth.cli.verbs
    from firth.cli.app import app

    folder, recipe = Path(sys.argv[1]), sys.argv[2]

    def command(*words: str) -> Any:
        done = CliRunner().invoke(app, [*map(str, words)])
        return done.output if done.exit_code else json.loads(done.stdout)

    losses = [
        command("train", recipe, "--out", str(folder / sharpness), f"--model.attention.sharpness={sharpness}", "--json")["loss"]
        for sharpness in ("1.0", "3.0")
    ]
    run: Any = firth.load(folder / "3.0", "cpu")
    token_BT = torch.arange(12)[None] % run.network.vocab
    whole, state, steps = run.network(token_BT)[0], run.network.start(1), []
    with torch.inference_mode():  # where the fast paths would run
        for t in range(12):
            logits_B1V, state = run.network.step(token_BT[:, t : t + 1], state)
            steps.append(logits_B1V)
    block = run.network.blocks[0]
    maker = docs_script("make_settings")
    report = {
        "changes the loss": losses[0] != losses[1],
        "kept in the run": run.recipe.model.attention.sharpness,
        "steps as at once": (torch.cat(steps, 1) - whole).abs().max().item() < 1e-5,
        "refused by": [block.why_not_one_row, block.why_not_row_block, block.attention.why_not_cached],
        "docs": "| `sharpness` | number | `1.0` | factor of the scale |" in maker.settings_page(),
        **{name: command("export", str(folder / "3.0"), str(folder / name), "--format", name) for name in ("hf", "gguf")},
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
