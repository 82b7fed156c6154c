"""A data set arrives whole and checked or not at all, whatever the server does."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import socket
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from firth.errors import ConfigError, DataError
from firth.text.data_set import DATA_SETS, DataSet, File
from firth.text.datasets import download, transfer

TEXT = b"".join(hashlib.sha256(bytes([n % 256, n // 256])).hexdigest().encode() for n in range(8000))  # 512 kB, all different
HALF = len(TEXT) // 2


class Server(ThreadingHTTPServer):
    """Serves `content`, as well or as badly as it is told."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content: dict[str, bytes] = {}
        self.ranges = True
        self.breaks: list[int] = []  # bytes after which each of the next answers breaks off
        self.always_breaks: int | None = None
        self.length: int | None = None  # the Content-Length it claims
        self.tells_length = True
        self.shift = 0  # how far the part it sends is off from what was asked for
        self.etag: str | None = '"one"'
        self.asked: list[tuple[str, str | None]] = []  # path, Range
        self.sent = 0

    def url(self, path: str = "text") -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the game."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        server = self.server
        path, span = self.path.lstrip("/"), self.headers.get("Range")
        server.asked.append((path, span))
        if path not in server.content:
            self.send_error(404)
            return
        whole, start, partial = server.content[path], 0, False
        same = self.headers.get("If-Range") in (None, server.etag)
        if span and server.ranges and same:
            start, partial = int(span.removeprefix("bytes=").rstrip("-")) - server.shift, True
            if start >= len(whole):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(whole)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        body = whole[start:]
        self.send_response(206 if partial else 200)
        if partial:
            self.send_header("Content-Range", f"bytes {start}-{len(whole) - 1}/{len(whole)}")
        if server.etag:
            self.send_header("ETag", server.etag)
        if server.tells_length:
            self.send_header("Content-Length", str(len(body) if server.length is None else server.length))
        self.end_headers()
        limit = server.breaks.pop(0) if server.breaks else server.always_breaks
        body = body if limit is None else body[:limit]
        self.wfile.write(body)
        server.sent += len(body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("FIRTH_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(transfer, "PAUSE", 0.0)
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.content["text"] = TEXT
        yield running
        running.shutdown()
        thread.join()


Offer = Callable[..., None]


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Put a data set "toy" with these files into the catalog."""

    def put(*files: File) -> None:
        monkeypatch.setitem(DATA_SETS._of, "toy", DataSet("toy", "a toy", "https://example.org", "none", files))

    return put


def checked(url: str | None, text: bytes = TEXT, name: str = "a.txt", packing: Any = "plain") -> File:
    return File(name, len(text), hashlib.sha256(text).hexdigest(), url, packing)


def unverified(url: str, name: str = "a.txt", packing: Any = "plain") -> File:
    return File(name, None, None, url, packing)


def refused(match: str) -> str:
    with pytest.raises(DataError, match=match) as caught:
        download.get("toy")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def left(cache: Path) -> list[str]:
    files = (path.relative_to(cache) for path in cache.rglob("*") if path.is_file())
    return sorted(str(path) for path in files if path.parts[0] != "seals")


def kept(cache: Path) -> bytes:
    return (cache / "data/toy/.part-text").read_bytes()


def zipped(**files: bytes) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(f"{name}.txt", content)
    return raw.getvalue()


def test_get_brings_the_file_and_leaves_nothing_else(server: Server, offer: Offer, cache: Path) -> None:
    offer(checked(server.url()))
    assert download.get("toy") == cache / "data" / "toy"
    assert (cache / "data/toy/a.txt").read_bytes() == TEXT
    assert left(cache) == ["data/toy/a.txt"]


def test_what_is_in_the_cache_is_not_downloaded_again(server: Server, offer: Offer) -> None:
    offer(checked(server.url()))
    assert download.get("toy") == download.get("toy") == download.local("toy")
    assert len(server.asked) == 1


def test_local_never_downloads(server: Server, offer: Offer, cache: Path) -> None:
    offer(checked(server.url()))
    with pytest.raises(DataError, match=r"toy is not on this machine\. Download it: firth data get toy"):
        download.local("toy")
    assert download.state(DATA_SETS["toy"]) == "absent"
    assert (server.asked, left(cache)) == ([], [])


def test_a_transfer_that_breaks_off_goes_on_where_it_stopped(server: Server, offer: Offer, cache: Path) -> None:
    offer(checked(server.url()))
    server.breaks = [1000, 2000]
    download.get("toy")
    assert server.asked == [("text", None), ("text", "bytes=1000-"), ("text", "bytes=3000-")]
    assert server.sent == len(TEXT)
    assert left(cache) == ["data/toy/a.txt"]


def test_a_server_that_cannot_resume_is_read_from_the_start(server: Server, offer: Offer, cache: Path) -> None:
    offer(checked(server.url()))
    server.ranges, server.breaks = False, [HALF]
    download.get("toy")
    assert (cache / "data/toy/a.txt").read_bytes() == TEXT
    assert server.sent == HALF + len(TEXT)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_server_that_always_breaks_off_is_an_error_and_the_next_call_goes_on(
    ranges: bool, server: Server, offer: Offer, cache: Path
) -> None:
    offer(checked(server.url()))
    server.ranges, server.always_breaks = ranges, 1000
    refused(r"was interrupted 5 times, last after [15],000 bytes .*Run the same command to continue from there")
    assert not (cache / "data/toy/a.txt").exists()
    have = 5000 if ranges else 1000
    assert kept(cache) == TEXT[:have]
    assert download.state(DATA_SETS["toy"]) == "absent"
    server.asked, server.always_breaks = [], None
    download.get("toy")
    assert server.asked == [("text", f"bytes={have}-")]
    assert left(cache) == ["data/toy/a.txt"]


def test_ctrl_c_keeps_what_came(server: Server, offer: Offer, cache: Path) -> None:
    offer(checked(server.url()))

    def interrupt(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download.get("toy", interrupt)
    have = kept(cache)
    assert 0 < len(have) < len(TEXT)
    assert TEXT.startswith(have)
    download.get("toy")
    assert server.asked[-1] == ("text", f"bytes={len(have)}-")


def test_a_file_that_changed_in_between_is_not_mixed(server: Server, offer: Offer, cache: Path) -> None:
    offer(unverified(server.url()))
    server.always_breaks = 1000
    refused("was interrupted")
    server.always_breaks, server.etag = None, '"two"'
    server.content["text"] = TEXT[::-1]
    download.get("toy")
    assert (cache / "data/toy/a.txt").read_bytes() == TEXT[::-1]


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_checksum_and_version_nothing_is_resumed(etag: str | None, server: Server, offer: Offer, cache: Path) -> None:
    offer(unverified(server.url()))
    server.always_breaks, server.etag = 1000, etag
    refused("was interrupted")
    server.always_breaks, server.asked = None, []
    server.content["text"] = TEXT[::-1]
    download.get("toy")
    assert server.asked == [("text", None)]
    assert (cache / "data/toy/a.txt").read_bytes() == TEXT[::-1]


def test_what_was_kept_of_another_address_is_not_resumed(server: Server, offer: Offer, cache: Path) -> None:
    offer(checked(server.url()))
    server.always_breaks = 1000
    refused("was interrupted")
    server.always_breaks, server.asked = None, []
    server.content["elsewhere/text"] = TEXT
    offer(checked(server.url("elsewhere/text")))
    download.get("toy")
    assert server.asked == [("elsewhere/text", None)]


def test_a_kept_part_that_is_already_everything_is_used(server: Server, offer: Offer, cache: Path) -> None:
    server.ranges = False
    server.content["text"] = packed = gzip.compress(TEXT)
    offer(checked(server.url(), packing="gz"))
    server.length = len(packed) + 10  # a lie, so that all of it comes and is still not believed
    refused(f"the server promised {len(packed) + 10:,}")
    assert kept(cache) == packed
    server.ranges, server.length, server.sent = True, None, 0
    download.get("toy")
    assert server.sent == 0
    assert (cache / "data/toy/a.txt").read_bytes() == TEXT


def test_a_kept_part_longer_than_the_file_is_dropped(server: Server, offer: Offer, cache: Path) -> None:
    offer(unverified(server.url()))
    server.always_breaks = HALF // 8
    refused("was interrupted")
    server.always_breaks = None
    server.content["text"] = b"short"
    download.get("toy")
    assert (cache / "data/toy/a.txt").read_bytes() == b"short"


def test_another_part_than_asked_for_is_not_appended(server: Server, offer: Offer, cache: Path) -> None:
    offer(unverified(server.url()))
    server.breaks, server.shift = [1000, len(TEXT) - 1000], 10  # the wrong part is as long as the right one
    download.get("toy")
    assert (cache / "data/toy/a.txt").read_bytes() == TEXT


@pytest.mark.parametrize("wrong", [-100, 100])
def test_a_plain_file_of_the_wrong_length_is_refused_before_it_is_read(
    wrong: int, server: Server, offer: Offer, cache: Path
) -> None:
    offer(checked(server.url()))
    server.length = len(TEXT) + wrong
    message = refused("wrong size")
    assert f"expected {len(TEXT):,} bytes, the server says {len(TEXT) + wrong:,}" in message
    assert left(cache) == []


def test_a_length_that_is_too_short_cuts_the_archive_and_is_noticed(server: Server, offer: Offer, cache: Path) -> None:
    server.content["text"] = gzip.compress(TEXT)
    offer(unverified(server.url(), packing="gz"))
    server.length = len(server.content["text"]) - 100
    refused("damaged or not a gz file .*not kept")
    assert left(cache) == []


def test_an_endless_answer_stops_at_the_size_that_was_expected(server: Server, offer: Offer, cache: Path) -> None:
    offer(checked(server.url(), TEXT[:1000]))
    server.tells_length = False
    refused("wrong size: expected 1,000 bytes, more came")
    assert left(cache) == []


def test_an_answer_without_length_is_checked_by_its_content(server: Server, offer: Offer, cache: Path) -> None:
    offer(checked(server.url()))
    server.tells_length = False
    server.breaks = [HALF]
    refused(f"wrong size: expected {len(TEXT):,} bytes of a.txt, found {HALF:,}")
    assert left(cache) == []
    download.get("toy")
    assert left(cache) == ["data/toy/a.txt"]


def test_wrong_bytes_are_thrown_away_and_the_right_ones_taken_later(server: Server, offer: Offer, cache: Path) -> None:
    offer(checked(server.url()))
    server.content["text"] = b"X" + TEXT[1:]
    message = refused("wrong content: the sha256 of a.txt is")
    assert hashlib.sha256(TEXT).hexdigest()[:16] in message
    assert left(cache) == []
    server.content["text"] = TEXT
    download.get("toy")
    assert (cache / "data/toy/a.txt").read_bytes() == TEXT


def test_a_damaged_file_in_the_cache_is_noticed_and_replaced(server: Server, offer: Offer, cache: Path) -> None:
    offer(checked(server.url()))
    target = download.get("toy") / "a.txt"
    target.write_bytes(b"X" + TEXT[1:])
    with pytest.raises(DataError, match=r"toy is damaged in the cache\. Download it: firth data get toy"):
        download.local("toy")
    with pytest.warns(UserWarning, match=r"a\.txt in the cache is damaged"):
        download.get("toy")
    assert target.read_bytes() == TEXT


def test_a_file_without_a_hash_in_the_catalog_is_held_to_the_one_it_came_with(server: Server, offer: Offer) -> None:
    offer(File("a.txt", None, None, server.url()))
    target = download.get("toy") / "a.txt"
    assert download.local("toy") == target.parent
    target.write_bytes(b"X" + TEXT[1:])
    with pytest.raises(DataError, match="toy is damaged in the cache"):
        download.local("toy")


def test_one_archive_with_several_files_is_fetched_once(server: Server, offer: Offer, cache: Path) -> None:
    server.content["all.zip"] = zipped(a=TEXT, b=b"bee", c=b"not asked for")
    url = server.url("all.zip")
    offer(checked(url, packing="zip"), checked(url, b"bee", "b.txt", "zip"))
    download.get("toy")
    assert len(server.asked) == 1
    assert left(cache) == ["data/toy/a.txt", "data/toy/b.txt"]
    assert (cache / "data/toy/b.txt").read_bytes() == b"bee"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped(b=TEXT), "has no a.txt inside"),
        (b"<html>please log in</html>", "damaged or not a zip file"),
        (zipped(a=TEXT)[:-200], "damaged or not a zip file"),
        (zipped(a=TEXT * 4), f"wrong size: expected {len(TEXT):,} bytes of a.txt, found more"),
    ],
    ids=["member missing", "not a zip", "truncated", "too large inside"],
)
def test_a_wrong_archive_leaves_nothing(content: bytes, message: str, server: Server, offer: Offer, cache: Path) -> None:
    server.content["text"] = content
    offer(checked(server.url(), packing="zip"))
    refused(message)
    assert left(cache) == []


def test_a_small_archive_with_a_huge_file_does_not_fill_the_disk(
    server: Server, offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpacked = []

    def huge(*source: object) -> Iterator[bytes]:
        for _ in range(100):
            unpacked.append(len(TEXT))
            yield TEXT

    monkeypatch.setattr(download, "_content", huge)
    offer(checked(server.url(), packing="zip"))
    refused("wrong size")
    assert len(unpacked) == 2


def test_an_address_that_is_gone_is_named(server: Server, offer: Offer, cache: Path) -> None:
    offer(checked(server.url("gone")))
    refused(f"{server.url('gone')} answers 404 Not Found")
    assert left(cache) == []


def test_no_network_is_one_line_with_a_way_out(server: Server, offer: Offer, cache: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        offer(checked(f"http://127.0.0.1:{unused.getsockname()[1]}/text"))
        refused(r"cannot reach 127.0.0.1 \(.*refused\)\. Check the network, or set FIRTH_DATA")
    assert left(cache) == []


def test_two_calls_at_once_do_not_mix_their_bytes(server: Server, offer: Offer, cache: Path) -> None:
    offer(checked(server.url()))
    server.breaks = [1000, 3000, 2000, 7000]
    failed: list[BaseException] = []

    def call() -> None:
        try:
            download.get("toy")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert left(cache) == ["data/toy/a.txt"]


def test_progress_ends_at_the_whole_length(server: Server, offer: Offer) -> None:
    offer(checked(server.url()))
    told: list[tuple[str, int, int]] = []
    download.get("toy", lambda *what: told.append(what))
    assert told[-1] == ("downloading text", len(TEXT), len(TEXT))
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_a_cache_that_cannot_be_written_is_one_line(
    server: Server, offer: Offer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(checked(server.url()))
    (tmp_path / "data").write_text("a file where a folder should be")
    for place in (tmp_path, tmp_path / "data" / "cache"):
        monkeypatch.setenv("FIRTH_CACHE", str(place))
        refused("cannot write to the cache folder .*Set FIRTH_CACHE")
    assert server.asked == []


@pytest.fixture
def mirror(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """FIRTH_DATA, with a network that would answer as well."""
    monkeypatch.setenv("FIRTH_DATA", str(tmp_path / "mirror"))
    (tmp_path / "mirror" / "toy").mkdir(parents=True)
    return tmp_path / "mirror"


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".xz", lzma.compress), (".gz", gzip.compress)])
@pytest.mark.parametrize("call", [download.get, download.local])
def test_a_mirror_serves_plain_and_compressed_files_without_network(
    call: Callable[[str], Path], suffix: str, pack: Callable[[bytes], bytes], server: Server, offer: Offer, mirror: Path
) -> None:
    offer(checked(server.url()))
    (mirror / "toy" / f"a.txt{suffix}").write_bytes(pack(TEXT))
    assert download.state(DATA_SETS["toy"]) == "mirror"
    assert (call("toy") / "a.txt").read_bytes() == TEXT
    assert download.state(DATA_SETS["toy"]) == "cached"
    assert server.asked == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda: lzma.compress(b"X" + TEXT[1:]), "wrong content"),
        (lambda: lzma.compress(TEXT[:-1]), "wrong size"),
        (lambda: lzma.compress(TEXT)[:-50], "damaged or not a xz file"),
        (lambda: b"not compressed at all", "damaged or not a xz file"),
    ],
    ids=["wrong byte", "too short", "truncated", "not xz"],
)
def test_a_wrong_file_in_the_mirror_is_named_and_not_copied(
    content: Callable[[], bytes], message: str, server: Server, offer: Offer, mirror: Path, cache: Path
) -> None:
    offer(checked(server.url()))
    (mirror / "toy" / "a.txt.xz").write_bytes(content())
    assert str(mirror / "toy" / "a.txt.xz") in refused(message)
    assert (left(cache), server.asked) == ([], [])


def test_a_mirror_without_the_file_names_the_path_it_looked_for(server: Server, offer: Offer, mirror: Path, cache: Path) -> None:
    offer(checked(server.url()))
    assert str(mirror / "toy" / "a.txt") in refused("the mirror has no .*also .xz or .gz")
    assert (left(cache), server.asked) == ([], [])


def test_a_mirror_that_is_not_a_folder_is_refused(offer: Offer, mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(checked(None))
    monkeypatch.setenv("FIRTH_DATA", str(mirror / "nowhere"))
    refused("FIRTH_DATA is .*nowhere, which is not a folder")


def test_a_set_without_address_says_where_to_put_it(server: Server, offer: Offer) -> None:
    offer(checked(None))
    refused("toy cannot be downloaded.*Set FIRTH_DATA to a folder with toy/a.txt")


def test_an_unknown_name_suggests_a_near_one() -> None:
    with pytest.raises(ConfigError, match=r'there is no data set "wikitext2"; .* Did you mean "wikitext-2"\?'):
        download.get("wikitext2")
