"""Classroom: the question of a lesson on the phones of a class. Answers are counted in memory; there are no accounts.

It is an application of its own, on a port of its own that the local network can reach. It knows one question at a time, and gives
access to nothing else: the lab itself stays on this machine.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from pydantic import BaseModel, Field

from firth.errors import ConfigError
from firth.serving.connection_limits import ConnectionLimits

PAGE = Path(__file__).parent / "page" / "classroom"
STYLE = PAGE.parent / "style.css"
MOST_STUDENTS = 500
LIMITS = ConnectionLimits(body=4 << 10, total=MOST_STUDENTS, per_address=MOST_STUDENTS)  # a school often has one address
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without those that look alike
_HEADERS = {
    "content-security-policy": "default-src 'self'; img-src data:; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class Classroom:
    """The question that is asked at the moment, and how many students gave each answer."""

    def __init__(self) -> None:
        self.code = "".join(secrets.choice(_LETTERS) for _ in range(6))
        self.address = ""  # where students join; "" before it is served
        self._lock = threading.Lock()
        self._number = 0  # of the question, so that a late answer is not counted for the next one
        self._step: tuple[str, tuple[str, ...]] = ("", ())
        self._answers: dict[str, int] = {}  # student → option

    def ask(self, question: str, options: list[str]) -> None:
        """Put a question to the class; the same one again keeps its answers."""
        with self._lock:
            if (question, tuple(options)) != self._step:
                self._number, self._step, self._answers = self._number + 1, (question, tuple(options)), {}

    def asked(self, student: str = "") -> dict[str, Any]:
        """The question for the phones; `chosen`: the option of that student."""
        with self._lock:
            question, options = self._step
            return {
                "number": self._number,
                "question": question,
                "options": list(options),
                "chosen": self._answers.get(student),
            }

    def answer(self, student: str, number: int, option: int) -> None:
        """The last answer of each student counts. Raises ConfigError for one that cannot be counted."""
        with self._lock:
            if number != self._number:
                raise ConfigError("this question is over; the page will show the next one")
            if not 0 <= option < len(self._step[1]):
                raise ConfigError(f"there is no option {option}; expected 0 to {len(self._step[1]) - 1}")
            if student not in self._answers and len(self._answers) >= MOST_STUDENTS:
                raise ConfigError(f"{MOST_STUDENTS} students have answered; no more can join")
            self._answers[student] = option

    def counts(self) -> list[int]:
        """How many students chose each option."""
        with self._lock:
            chosen = Counter(self._answers.values())
            return [chosen[n] for n in range(len(self._step[1]))]


class StudentAnswer(BaseModel):
    """What a phone sends."""

    code: str = Field(max_length=20)
    student: str = Field(min_length=8, max_length=64)  # a random name that the phone has given itself
    number: int  # of the question
    option: int


def build_classroom(classroom: Classroom) -> FastAPI:
    """The application for the phones: one page, the question, and an answer to it."""
    app = FastAPI(title="firth classroom", docs_url=None, redoc_url=None, openapi_url=None)

    def refuse(status: int, message: str) -> Response:
        return JSONResponse({"error": message}, status)

    def admits(code: str) -> bool:
        return secrets.compare_digest(code.strip().upper().encode(), classroom.code.encode())

    @app.middleware("http")
    async def protected(request: Request, call: Any) -> Any:
        response = await call(request)
        response.headers.update(_HEADERS)
        return response

    @app.get("/")
    def page() -> FileResponse:
        return FileResponse(PAGE / "join.html")

    @app.get("/join.js")
    def script() -> FileResponse:
        return FileResponse(PAGE / "join.js", media_type="text/javascript")

    @app.get("/style.css")
    def style() -> FileResponse:
        return FileResponse(STYLE)

    @app.get("/api/question")
    def question(code: str = "", student: str = "") -> Response:
        if not admits(code[:20]):
            return refuse(403, "this is not the code of the class; read it from the projector")
        return JSONResponse(classroom.asked(student[:64]))

    @app.post("/api/answer")
    def answer(given: StudentAnswer) -> Response:
        if not admits(given.code):
            return refuse(403, "this is not the code of the class; read it from the projector")
        try:
            classroom.answer(given.student, given.number, given.option)
        except ConfigError as error:
            return refuse(409, str(error))
        return JSONResponse(classroom.asked(given.student))

    return app
