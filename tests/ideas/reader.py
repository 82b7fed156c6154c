"""Subtitles (.srt): their text without numbers and times, a document per film."""

import re

from firth.text.readers.file_decoding import lines
from firth.text.readers.reader import TextReader


class Subtitles(TextReader):
    kind, suffixes = "srt", (".srt",)
    about = "The text of subtitles, without numbers and times."

    @classmethod
    def documents(cls, path, tick):
        kept = (line for line in lines(path, tick) if not re.fullmatch(r"\d+\s*|\d+:\d+:.*-->.*|\s*", line, re.DOTALL))
        yield "".join(kept)
