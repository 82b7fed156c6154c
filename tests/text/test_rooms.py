"""The rooms of firth.text: which may import which, and no circles of imports."""

from __future__ import annotations

import grimp

# From left to right; a room imports only what stands to its left.
ROOMS = ("cache", "readers", "data_set", "config", "tokenizers", "batches", "holdout", "datasets", "data")


def test_a_room_imports_only_what_stands_to_its_left() -> None:
    graph = grimp.build_graph("firth")
    places = {f"firth.text.{room}": n for n, room in enumerate(ROOMS)}
    wrong = [
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
        if places.get(".".join(importer.split(".")[:3]), len(ROOMS)) < places.get(".".join(imported.split(".")[:3]), -1)
    ]
    assert wrong == []


def test_no_two_modules_of_text_import_each_other_even_indirectly() -> None:
    graph = grimp.build_graph("firth")
    modules = [module for module in graph.modules if module.startswith("firth.text.")]
    circles = [
        (module, other)
        for module in modules
        for other in graph.find_modules_directly_imported_by(module)
        if other != module and module in graph.find_upstream_modules(other)
    ]
    assert circles == []
