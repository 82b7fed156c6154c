"""The run folder: format (version), recipe.toml (resolved), tokenizer.json, model.safetensors, log.jsonl, history.jsonl,
checkpoints/."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from firth import files
from firth.errors import RunError, option

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FORMAT = 1
_CREATING = f"{files.TEMPORARY}run"  # marks a folder while `create` writes it; removed at the end


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.format = path / "format"
        self.recipe = path / "recipe.toml"
        self.tokenizer = path / "tokenizer.json"
        self.tokenizer_config = path / "tokenizer_config.json"  # of an imported tokenizer: special tokens, chat template
        self.source_tokenizer = path / "source_tokenizer.json"  # sentence pairs with a vocabulary per side
        self.model = path / "model.safetensors"
        self.base = path / "base.safetensors"  # with adapters: the weights that they adapt, which no checkpoint repeats
        self.adapter = path / "adapter"  # the adapters alone, in the format of the package peft
        self.threshold = path / "threshold.json"  # of a classifier, chosen for these weights
        self.log = path / "log.jsonl"
        self.history = path / "history.jsonl"  # versions, hardware, command and end of the first training and of each resumption
        self.tensorboard = path / "tensorboard"
        self.wandb = path / "wandb"
        self.loggers = path / "loggers.json"  # the names that loggers know this run by
        self.checkpoints = path / "checkpoints"

    def tokenizer_hashes(self) -> dict[str, str]:
        """SHA-256 of the tokenizers, which weights keep: with others, their ids would mean other tokens."""
        return {
            f"{file.stem}_sha256": files.sha256_of(file) for file in (self.tokenizer, self.source_tokenizer) if file.is_file()
        }

    def exists(self) -> bool:
        return files.is_file(self.format)

    @staticmethod
    def open(path: Path) -> RunFolder:
        """Open an existing run; raise RunError if this version cannot read it."""
        folder = RunFolder(path)
        made_by = option("firth.train(recipe, folder)", "`firth train RECIPE --out RUN`")
        if not files.is_folder(path):
            raise RunError(f"{path} is not a folder; expected a run made by {made_by}")
        if not folder.exists():
            raise RunError(f"{path} is not a run: it has no `format` file; expected a folder made by {made_by}")
        text = folder.format.read_text(encoding="utf-8", errors="replace").strip()
        if not text.isdecimal() or len(text) > 9:
            raise RunError(f"{folder.format} holds {text[:20]!r} instead of a version number, so {path} is not a run")
        if int(text) > FORMAT:
            raise RunError(f"{path} has run format {text}; this firth reads up to {FORMAT}; upgrade firth")
        for needed in (folder.recipe, folder.tokenizer):
            if not needed.is_file():
                raise RunError(f"{path} is incomplete: {needed.name} is missing. Restore that file or train the run again")
        return folder

    @staticmethod
    def create(
        path: Path, recipe: str, tokenizer: str, source_tokenizer: str | None = None, tokenizer_config: str | None = None
    ) -> RunFolder:
        """Create a run in an absent or empty folder. `format` is written last, so a folder that has it is complete."""
        RunFolder.expect_room(path)
        folder = RunFolder(path)
        files.write_text(path / _CREATING, "")
        folder._remove_files()
        files.write_text(folder.recipe, recipe)
        files.write_text(folder.tokenizer, tokenizer)
        if source_tokenizer is not None:
            files.write_text(folder.source_tokenizer, source_tokenizer)
        if tokenizer_config is not None:
            files.write_text(folder.tokenizer_config, tokenizer_config)
        files.write_text(folder.format, f"{FORMAT}\n")
        files.sweep(path)
        return folder

    @staticmethod
    def expect_room(path: Path) -> None:
        """Refuse a path that is in use. Only the remains of an interrupted `create` or `clear` may exist there."""
        if files.exists(path) and (not path.is_dir() or _holds_something(path)):
            raise RunError(f"{path} already exists and is not a run; choose another {option('folder', '--out')} or remove it")

    def clear(self) -> None:
        """Remove the run, so that another can be created in its place. Files that do not belong to a run stay. If the process is
        killed meanwhile, the marker of `create` remains, and no run."""
        files.write_text(self.path / _CREATING, "")
        self._remove_files()

    def _remove_files(self) -> None:
        for place in self._files():
            with files.writing(place):
                if place.is_dir() and not place.is_symlink():
                    shutil.rmtree(place)
                else:
                    place.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        """All files of a run; `format` comes first, because without it the folder is not a run."""
        return [place for place in vars(self).values() if place != self.path]


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Refuse `path` while another process trains into it. The lock is one on the folder itself, which the system releases when
    its process ends, however it ends. Of the processes that `torchrun` starts, the first holds it for all."""
    if fcntl is None or os.environ.get("RANK", "0") != "0" or (files.exists(path) and not path.is_dir()):
        yield
        return
    created = [place for place in (path, *path.parents) if not files.exists(place)]
    with files.writing(path):
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"another process is training into {path}. Wait until it ends, or choose another {option('folder', '--out')}"
            ) from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)
        with contextlib.suppress(OSError):  # there is a run in them by now, unless there was an error
            for place in created:
                place.rmdir()


@contextlib.contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """A folder to write to, which becomes `path` at the end; on an error nothing is left of it."""
    RunFolder.expect_room(path)
    with files.writing(path):
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=files.TEMPORARY, dir=path.absolute().parent))
    try:
        yield temporary
        with files.writing(path):
            temporary.chmod(0o755)
            if path.exists():
                path.rmdir()
            temporary.rename(path)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}. Choose another folder.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _holds_something(path: Path) -> bool:
    """Beside the marker, whatever belongs to a run is ours, and the rest stays. Without it, even a recipe.toml is the user's."""
    marked = (path / _CREATING).exists()
    return not marked and any(not entry.name.startswith(files.TEMPORARY) for entry in path.iterdir())
