"""The runs and vectors of the library, and who is using them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from firth.errors import ConfigError, RunError
from firth.serving.lab.library import RunLibrary, tour_library
from firth.serving.lab.room import Cancelled
from firth.serving.lab.rooms import ROOMS
from firth.serving.lab.run_facts import RunFacts


def silent(what: str, done: int, total: int) -> None: ...


def test_runs_have_the_names_of_their_folders_or_paths_where_two_are_alike(char_run: Path, tmp_path: Path) -> None:
    other = tmp_path / char_run.name
    shutil.copytree(char_run, other)
    assert RunLibrary([char_run]).runs == {"char": char_run}
    assert RunLibrary([char_run, other, char_run]).runs == {str(char_run): char_run, str(other): other}


def test_a_folder_of_runs_is_looked_through_each_time(char_run: Path, tmp_path: Path) -> None:
    library = RunLibrary([tmp_path])
    assert library.runs == {}
    (tmp_path / "no run").mkdir()
    shutil.copytree(char_run, tmp_path / "later")
    assert library.runs == {"later": tmp_path / "later"}


def test_a_run_that_is_gone_is_told_from_one_that_never_was(char_run: Path, tmp_path: Path) -> None:
    shutil.copytree(char_run, tmp_path / "gone")
    library = RunLibrary([tmp_path, char_run])
    with library.using("gone", silent):
        pass
    shutil.rmtree(tmp_path / "gone")
    with pytest.raises(RunError, match=r'the run "gone" is no longer in .*gone; restore'), library.using("gone", silent):
        pass
    with pytest.raises(ConfigError, match=r'there is no run "chat" in the lab\. Did you mean "char"\?'):
        library.path("chat")
    with pytest.raises(RunError, match="the lab has no runs"):
        RunLibrary().path("char")


def test_a_model_is_loaded_once_and_again_when_its_weights_change(char_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(char_run, run)
    library = RunLibrary([run])
    with library.using("run", silent) as first:
        pass
    with library.using("run", silent) as second:
        assert second is first
    weights = run / "model.safetensors"
    content = weights.read_bytes()
    weights.unlink()
    weights.write_bytes(content)
    with library.using("run", silent) as third:
        assert third is not first


def test_a_second_user_waits_and_can_give_up(char_run: Path) -> None:
    library = RunLibrary([char_run])
    told: list[str] = []

    def give_up(what: str, done: int, total: int) -> None:
        told.append(what)
        raise Cancelled

    def second() -> None:
        with pytest.raises(Cancelled), library.using("char", give_up):
            pass

    with library.using("char", silent):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(10)
    assert told == ["waiting for char: another request is using it"]
    with library.using("char", silent):  # it was given back
        pass


def test_a_model_is_given_back_after_an_error(char_run: Path) -> None:
    library = RunLibrary([char_run])
    with pytest.raises(ZeroDivisionError), library.using("char", silent):
        raise ZeroDivisionError
    with library.using("char", silent):
        pass


def test_vectors_are_loaded_once_and_a_file_that_is_gone_is_told(vectors_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.firth"
    shutil.copy(vectors_file, copy)
    library = RunLibrary([], [copy])
    assert library.word_vectors("copy.firth") is library.word_vectors("copy.firth")
    with pytest.raises(ConfigError, match=r'no vectors "copy.frith" in the lab\. Did you mean "copy\.firth"\?'):
        library.word_vectors("copy.frith")
    copy.unlink()
    with pytest.raises(RunError, match="no longer exists"):
        library.word_vectors("copy.firth")


def test_vectors_beside_the_runs_are_found_and_new_ones_are_added_once(
    char_run: Path, vectors_file: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(char_run, runs / "gru")
    library = RunLibrary([runs])
    assert list(library.vectors) == []
    shutil.copy(vectors_file, runs / "words.firth")
    shutil.copy(vectors_file, runs / "gru" / "inside.firth")
    assert not RunLibrary([runs / "gru"]).vectors  # a run is not searched
    assert dict(library.vectors) == {"words.firth": runs / "words.firth"}
    library.add(runs / "words.firth")
    assert library._files == ()  # it is known, however often the page asks
    library.add(vectors_file)
    library.add(vectors_file)
    assert library._files == (vectors_file,)
    assert dict(library.vectors) == {vectors_file.name: vectors_file, "words.firth": runs / "words.firth"}
    assert list(library.runs) == ["gru"]
    assert len(library.word_vectors("words.firth")) == len(library.word_vectors(vectors_file.name))


def test_the_tour_is_found_where_it_leaves_its_runs(char_run: Path, vectors_file: Path, tmp_path: Path) -> None:
    assert not tour_library(tmp_path / "tour").runs
    shutil.copytree(char_run, tmp_path / "tour" / "runs" / "gru")
    shutil.copy(vectors_file, tmp_path / "tour" / "words.firth")
    library = tour_library(tmp_path / "tour")
    assert list(library.runs) == ["gru"]
    assert list(library.vectors) == ["words.firth"]


def test_a_run_is_offered_once_it_has_weights(char_run: Path, tmp_path: Path) -> None:
    shutil.copytree(char_run, tmp_path / "begun")
    weights = tmp_path / "begun" / "model.safetensors"
    weights.rename(tmp_path / "aside")
    library = RunLibrary([tmp_path / "begun"])
    assert not library.trained
    assert ROOMS["generate"].json(library)["works"] is False
    assert ROOMS["training"].json(library)["usable"] == ["begun"]  # its curve can be watched
    (tmp_path / "aside").rename(weights)
    assert list(library.trained) == ["begun"]
    assert ROOMS["generate"].json(library)["usable"] == ["begun"]


def test_rooms_open_with_the_run_that_shows_most(library: RunLibrary, pair_library: RunLibrary) -> None:
    assert ROOMS["walk"].usable(library)[0] != "char"  # a Transformer
    assert set(ROOMS["walk"].usable(library)) == {"char", "transformer", "bpe"}
    assert ROOMS["translate"].usable(pair_library) == ("rnnsearch", "transformer", "rnnenc")


class Shelf(RunLibrary):
    """A library of runs of which only the facts exist."""

    def __init__(self, **facts: RunFacts) -> None:
        super().__init__()
        self._own = facts

    @property
    def trained(self) -> Mapping[str, RunFacts]:
        return self._own


def test_a_tagger_that_reads_the_context_comes_before_one_that_does_not() -> None:
    shelf = Shelf(
        average=RunFacts("", abilities=("tag",)),
        lstm=RunFacts("", abilities=("tag", "show_states")),
        gpt=RunFacts("", abilities=("generate",)),
    )
    assert ROOMS["tag"].usable(shelf) == ("lstm", "average")
