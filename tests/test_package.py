"""The package as others get it: the order of its folders, and a wheel that works where the checkout is not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import grimp
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

CHECKOUT = Path(__file__).resolve().parent.parent


def run(*command: object, cwd: Path, **environment: str) -> str:
    """The standard output of a command that succeeds, with nothing in the environment that leads back to the checkout."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "COV_"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=plain | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command} gave {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_folder_imports_only_what_stands_to_its_left() -> None:
    lint = "from importlinter.cli import lint_imports_command as lint; lint()"
    answer = run(sys.executable, "-c", lint, "--config", CHECKOUT / "pyproject.toml", "--no-cache", cwd=CHECKOUT)
    assert "3 kept, 0 broken" in answer


def test_no_more_than_two_files_import_each_other_in_a_circle() -> None:
    """Imports inside functions and for type checkers count, too."""
    graph = grimp.build_graph("firth", cache_dir=None)
    modules = sorted(graph.modules)
    place = {module: n for n, module in enumerate(modules)}
    imports = [(place[one], place[other]) for one in modules for other in graph.find_modules_directly_imported_by(one)]
    rows, columns = zip(*imports, strict=True)
    matrix = csr_matrix((np.ones(len(imports)), (rows, columns)), shape=(len(modules), len(modules)))
    _, circle_N = connected_components(matrix, connection="strong")
    circles = [[module for module, n in zip(modules, circle_N, strict=True) if n == circle] for circle in set(circle_N)]
    assert len(modules) > 300
    assert [circle for circle in circles if len(circle) > 2] == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: setuptools leaves a build folder beside the source, and would pick stale files out of it."""
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(CHECKOUT / "firth", source / "firth", ignore=shutil.ignore_patterns("__pycache__", ".writing-*"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, source)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", source / "dist", cwd=source)
    (built,) = (source / "dist").iterdir()
    return built


def test_the_wheel_holds_all_of_firth_and_nothing_else(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    source = {path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "firth").rglob("*") if path.is_file()}
    expected = {name for name in source if "__pycache__" not in name and "/.writing-" not in name}
    assert {name for name in held if ".dist-info/" not in name} == expected
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in held)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a fresh environment with the wheel in it. Dependencies are found in the outer environment through
    a .pth file, which does not run the .pth file of an editable firth there."""
    venv = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=venv)
    bin_folder = venv / ("Scripts" if os.name == "nt" else "bin")
    pip = (sys.executable, "-m", "pip", "--python", bin_folder / "python", "--disable-pip-version-check", "install")
    run(*pip, "--quiet", "--no-deps", "--no-index", wheel, cwd=venv)
    site = Path(run(bin_folder / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=venv).strip())
    (site / "outer.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return bin_folder


def works(bin_folder: Path, place: Path) -> None:
    """Everything that the wheel promises, in a folder outside the checkout."""
    environment = {"FIRTH_CACHE": str(place / "cache"), "OMP_NUM_THREADS": "1"}
    where = "import firth, pathlib; print(pathlib.Path(firth.__file__).resolve().parent)"
    package = Path(run(bin_folder / "python", "-c", where, cwd=place).strip())
    assert package.is_relative_to(bin_folder.parent.resolve())
    assert (package / "py.typed").is_file()
    shipped = {path.name for path in (CHECKOUT / "firth/experiments/recipes").glob("*.toml")}
    assert {path.name for path in (package / "experiments/recipes").iterdir()} == shipped
    assert "generate" in run(bin_folder / "firth", "--help", cwd=place)
    assert "docs-char-transformer" in run(bin_folder / "firth", "recipes", cwd=place)
    run(bin_folder / "firth", "train", "hello", "--out", "run", cwd=place, **environment)
    assert run(bin_folder / "python", "-m", "firth", "generate", "run", "h", cwd=place, **environment) == "hello\n"


@pytest.mark.long
def test_the_wheel_works_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    works(installed, tmp_path)


@pytest.mark.long
def test_the_wheel_and_its_dependencies_install_into_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    constraints = CHECKOUT / "constraints.txt"
    assert "torch==2.13.0" in constraints.read_text().splitlines()
    venv, place = tmp_path / "venv", tmp_path / "place"
    place.mkdir()
    run(sys.executable, "-m", "venv", venv, cwd=tmp_path)
    bin_folder = venv / ("Scripts" if os.name == "nt" else "bin")
    run(bin_folder / "python", "-m", "pip", "install", "--quiet", "--constraint", constraints, wheel, cwd=place)
    works(bin_folder, place)
    version = run(bin_folder / "python", "-c", "import torch; print(torch.__version__)", cwd=place)
    assert version.startswith("2.13.0")


def test_no_two_classes_have_the_same_name() -> None:
    """Classes within classes aside: the `Config` of an idea, for example."""
    places: dict[str, list[str]] = {}
    for path in sorted((CHECKOUT / "firth").rglob("*.py")):
        for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            places.setdefault(name, []).append(path.relative_to(CHECKOUT).as_posix())
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
