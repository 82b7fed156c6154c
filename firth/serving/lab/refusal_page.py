"""The page that a browser shows in place of the lab: what is wrong, what to do, and the lab itself as soon as it can be shown.

It is one file, because the browser may load nothing else yet."""

from __future__ import annotations

import base64
import hashlib
import html

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fdfdfb; --panel: #f3f3ee; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e4; --paper: #1c1c1e; --panel: #27272a; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
body { max-width: 40rem; margin: 3rem auto; padding: 0 1rem; }
pre { background: var(--panel); padding: .6rem .8rem; border-radius: 4px; overflow-x: auto; }
"""
# Asks quietly instead of reloading, which would fail for good while no server listens. A reload keeps what follows the #.
_RETRY = """
const again = () => fetch("/", { cache: "no-store" })
  .then(answer => { if (answer.ok) location.reload(); else setTimeout(again, 2000); }, () => setTimeout(again, 2000));
setTimeout(again, 2000);
"""
_RESTARTED = """<h1>Open the address in the terminal</h1>
<p>This page does not have the token of the lab that is running now. Every start of <code>firth lab</code> has a new token.</p>
<p>Look for this line in the terminal, and open its address:</p>
<pre>The lab is open at http://127.0.0.1:…/?token=… (Ctrl-C closes it)</pre>
<p role="status">This page tries again every two seconds. Once you have opened that address, it shows your room again.</p>"""


def page(message: str, *, waits: bool) -> tuple[bytes, str]:
    """The page and its content security policy. With `waits`, it asks for the token, and tries again by itself."""
    body = _RESTARTED if waits else f"<h1>The lab cannot be opened here</h1><p>{html.escape(message)}</p>"
    script = f"<script>{_RETRY}</script>" if waits else ""
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>firth lab</title>'
        f'<link rel="icon" href="data:,"><style>{_STYLE}</style></head>\n<body><main>{body}</main>{script}</body></html>\n'
    )
    policy = (
        f"default-src 'none'; connect-src 'self'; img-src data:; style-src {_source(_STYLE)}; script-src {_source(_RETRY)}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text.encode(), policy


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
