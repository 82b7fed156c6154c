"""Files are whole or absent, and know when they have been damaged: faults at every call, flips of every byte."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from firth import files
from firth.errors import CorruptFile, RunError
from firth.files import TEMPORARY, load_tensors, replacing, save_tensors, sha256_of, sweep, write_text


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file with content, alone in its folder."""
    path = tmp_path / "file.txt"
    path.write_text("old")
    return path


def alone(path: Path) -> bool:
    return list(path.parent.iterdir()) == [path]


def test_a_file_is_replaced_and_its_folder_made(tmp_path: Path, old: Path) -> None:
    write_text(old, "new é\n")
    assert old.read_bytes() == "new é\n".encode()
    assert alone(old)
    write_text(tmp_path / "a" / "b" / "c.txt", "x")
    assert (tmp_path / "a" / "b" / "c.txt").read_text() == "x"


def test_until_it_is_finished_readers_see_the_old_file(old: Path) -> None:
    with replacing(old) as temporary:
        temporary.write_text("new")
        assert temporary.parent == old.parent, "a rename is atomic only within one file system"
        assert temporary.name.startswith(TEMPORARY)
        assert old.read_text() == "old"
    assert old.read_text() == "new"


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(old: Path, error: BaseException) -> None:
    def write() -> None:
        with replacing(old) as temporary:
            temporary.write_text("half of the n")
            raise error

    with pytest.raises(RunError if isinstance(error, OSError) else type(error)):
        write()
    assert old.read_text() == "old"
    assert alone(old)


def full_disk(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def failing_at(call: int, real: Callable[..., Any]) -> Callable[..., Any]:
    """`real`, except that the call-th call finds the disk full."""
    calls = iter(range(1, 1000))
    return lambda *args, **kwargs: full_disk() if next(calls) == call else real(*args, **kwargs)


@pytest.mark.parametrize("function", ["fsync", "replace", "chmod", "open"])
def test_a_fault_before_the_rename_is_one_line_and_leaves_the_old_file(
    old: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    with monkeypatch.context() as patch:
        # os.open first makes the temporary file (in tempfile), then opens it for the flush: fail at the flush.
        patch.setattr(files.os, function, failing_at(2 if function == "open" else 1, getattr(os, function)))
        with pytest.raises(RunError, match=r"cannot write .*file.txt: No space left on device\. Free some space") as caught:
            write_text(old, "new")
    assert "\n" not in str(caught.value)
    assert old.read_text() == "old"
    assert alone(old)


def test_a_fault_while_flushing_the_folder_is_told_and_the_new_file_is_whole(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rename has happened; only its survival of a power cut is in doubt."""
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", failing_at(2, os.fsync))
        with pytest.raises(RunError, match=r"cannot write"):
            write_text(old, "new")
    assert old.read_text() == "new"
    assert alone(old)


def test_the_content_is_flushed_before_the_rename_and_the_folder_after(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = []

    def fsync(descriptor: int) -> None:
        events.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")

    def replace(source: Any, target: Any) -> None:
        events.append("rename")
        os.rename(source, target)

    monkeypatch.setattr(files.os, "fsync", fsync)
    monkeypatch.setattr(files.os, "replace", replace)
    write_text(old, "new")
    assert events == ["file", "rename", "folder"]


def test_a_disk_that_is_full_from_the_start_is_one_line_too(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(files.tempfile, "mkstemp", full_disk)
        with pytest.raises(RunError, match=r"cannot write .*file.txt: No space left on device"):
            write_text(old, "new")
    assert old.read_text() == "old"


def test_a_folder_that_cannot_be_made_is_one_line_too(old: Path) -> None:
    with pytest.raises(RunError, match=r"cannot write .*below.txt: (File exists|Not a directory)"):
        write_text(old / "below.txt", "new")
    with pytest.raises(RunError, match=r"cannot write .*below.txt: (File exists|Not a directory)"):
        write_text(old / "further" / "below.txt", "new")
    assert old.read_text() == "old"


@pytest.fixture
def umask() -> Iterator[Callable[[int], None]]:
    before = os.umask(0o022)
    yield lambda mask: os.umask(mask) and None
    os.umask(before)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no permission bits")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_are_those_of_any_new_file(tmp_path: Path, umask: Callable[[int], None], mask: int, mode: int) -> None:
    umask(mask)
    write_text(tmp_path / "text", "x")
    save_tensors(tmp_path / "tensors", {"a": torch.zeros(1)}, {})
    for name in ("text", "tensors"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode
    assert os.umask(mask) == mask, "and the umask is left as it was"


def test_what_a_killed_process_left_is_swept_away(old: Path) -> None:
    (old.parent / f"{TEMPORARY}abc.txt").write_text("half")
    (old.parent / f"{TEMPORARY}def").write_text("half")
    sweep(old.parent)
    assert alone(old)
    assert old.read_text() == "old"


def test_a_checksum_is_sha256(tmp_path: Path) -> None:
    """The known answer of FIPS 180-4."""
    (tmp_path / "abc").write_text("abc")
    assert sha256_of(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def tensors() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "float32": torch.randn(3, 2, generator=generator),
        "float64": torch.randn(2, generator=generator, dtype=torch.float64),
        "bfloat16": torch.randn(3, generator=generator).bfloat16(),
        "float16": torch.randn(3, generator=generator).half(),
        "bool": torch.tensor([True, False, True]),
        "uint8": torch.arange(5, dtype=torch.uint8),
        "int64": torch.tensor([-1, 2**62]),
        "scalar": torch.tensor(2.5),
        "scalar bool": torch.tensor(True),
        "empty": torch.zeros(0, 3),
        "nan": torch.tensor([float("nan"), float("inf"), -0.0]),
        "transposed": torch.arange(6.0).view(2, 3).T,
    }


def same_bits(loaded: Tensor, truth: Tensor) -> bool:
    if loaded.dtype != truth.dtype or loaded.shape != truth.shape:
        return False
    return torch.equal(loaded.contiguous().reshape(-1).view(torch.uint8), truth.contiguous().reshape(-1).view(torch.uint8))


def test_tensors_of_every_kind_come_back_to_the_bit(tmp_path: Path) -> None:
    save_tensors(tmp_path / "x.safetensors", tensors(), {"step": "12", "text": 'é "\n'})
    loaded, metadata = load_tensors(tmp_path / "x.safetensors")
    assert loaded.keys() == tensors().keys()
    for name, truth in tensors().items():
        assert same_bits(loaded[name], truth), name
    assert metadata == {"step": "12", "text": 'é "\n'}


def test_no_tensors_and_no_metadata_come_back_as_that(tmp_path: Path) -> None:
    save_tensors(tmp_path / "x.safetensors", {}, {})
    assert load_tensors(tmp_path / "x.safetensors") == ({}, {})


def test_trained_parameters_are_saved_without_their_history(tmp_path: Path) -> None:
    save_tensors(tmp_path / "x.safetensors", {"w": torch.nn.Parameter(torch.ones(2)) * 3}, {})
    loaded, _ = load_tensors(tmp_path / "x.safetensors")
    assert loaded["w"].tolist() == [3, 3]
    assert not loaded["w"].requires_grad


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.safetensors"
    save_tensors(path, {"a": torch.arange(6.0).view(2, 3), "flag": torch.tensor([True, False])}, {"step": "3", "note": "x"})
    return path


def test_a_flipped_bit_is_noticed_at_every_byte_of_the_file(small: Path) -> None:
    """Every byte (length, header, padding, data); the bit differs from byte to byte, so that every bit has its turn."""
    whole = small.read_bytes()
    for at in range(len(whole)):
        for bit in {at % 8, (at * 5 + 3) % 8, 0}:
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            small.write_bytes(damaged)
            with pytest.raises(CorruptFile) as caught:
                load_tensors(small)
            assert str(small) in str(caught.value)
    small.write_bytes(whole)
    assert load_tensors(small)[1] == {"step": "3", "note": "x"}


def test_a_truncated_file_is_noticed_at_every_length(small: Path) -> None:
    whole = small.read_bytes()
    for length in range(len(whole)):
        small.write_bytes(whole[:length])
        with pytest.raises(CorruptFile, match=r"small.safetensors is (truncated or )?damaged"):
            load_tensors(small)


def test_bytes_added_at_the_end_are_noticed(small: Path) -> None:
    small.write_bytes(small.read_bytes() + b"\0")
    with pytest.raises(CorruptFile):
        load_tensors(small)


@pytest.mark.parametrize(("was", "becomes"), [(b'"step":"3"', b'"step":"4"'), (b'"note"', b'"nite"'), (b'"a"', b'"b"')])
def test_a_changed_header_that_is_still_well_formed_is_noticed(small: Path, was: bytes, becomes: bytes) -> None:
    whole = small.read_bytes()
    assert whole.count(was) == 1
    small.write_bytes(whole.replace(was, becomes))
    with pytest.raises(CorruptFile, match=r"checksum does not match"):
        load_tensors(small)


def test_a_file_without_a_checksum_is_not_one_of_ours(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, tmp_path / "foreign.safetensors")
    with pytest.raises(CorruptFile):
        load_tensors(tmp_path / "foreign.safetensors")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"none.safetensors does not exist"):
        load_tensors(tmp_path / "none.safetensors")


def test_a_file_that_cannot_be_read_is_one_line(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import safetensors

    def safe_open(*_: Any, **__: Any) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(safetensors, "safe_open", safe_open)
    with pytest.raises(RunError, match=r"cannot read .*small.safetensors: Permission denied"):
        load_tensors(small)


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_fault_while_saving_tensors_leaves_the_old_ones(small: Path, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(files.os, function, full_disk)
        with pytest.raises(RunError, match=r"cannot write .*small.safetensors: No space left on device"):
            save_tensors(small, {"a": torch.ones(4)}, {})
    assert load_tensors(small)[1] == {"step": "3", "note": "x"}
    assert alone(small)


@pytest.mark.parametrize("kind", ["OSError", "SafetensorError"])
def test_a_fault_in_the_writer_leaves_the_old_tensors(small: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    import safetensors.torch
    from safetensors import SafetensorError

    def save_file(tensors: Any, path: Path, metadata: Any) -> None:
        Path(path).write_bytes(b"half")
        raise SafetensorError("IoError: No space left") if kind == "SafetensorError" else OSError(errno.ENOSPC, "No space left")

    with monkeypatch.context() as patch:
        patch.setattr(safetensors.torch, "save_file", save_file)
        with pytest.raises(RunError, match=r"cannot write .*small.safetensors: .*No space left"):
            save_tensors(small, {"a": torch.ones(4)}, {})
    assert load_tensors(small)[1] == {"step": "3", "note": "x"}
    assert alone(small)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_disk_that_is_really_full_is_one_line(tmp_path: Path) -> None:
    def write() -> None:
        with replacing(tmp_path / "x"):
            Path("/dev/full").write_bytes(b"x" * 100)

    with pytest.raises(RunError, match=r"No space left on device") as caught:
        write()
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_the_fingerprint_of_files_is_the_hash_of_their_contents_one_after_the_other(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path, content in zip(paths, (b"one", b"", b"three"), strict=True):
        path.write_bytes(content)
    expected = hashlib.sha256(b"onethree").hexdigest()
    assert files.fingerprint(paths) == {"files": 3, "bytes": 8, "sha256": expected}


def test_the_fingerprint_of_large_files_reads_blocks_from_the_first_to_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_BLOCK", 10)
    monkeypatch.setattr(files, "_BLOCKS", 4)
    content = bytes(range(101))
    paths = [tmp_path / "a", tmp_path / "b"]
    paths[0].write_bytes(content[:33])
    paths[1].write_bytes(content[33:])
    blocks = b"".join(content[start : start + 10] for start in (0, 30, 60, 91))
    expected = hashlib.sha256(b"101" + blocks).hexdigest()
    assert files.fingerprint(paths) == {"files": 2, "bytes": 101, "sha256_of_samples": expected}
