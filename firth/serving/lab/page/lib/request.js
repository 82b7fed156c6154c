// Requests to the server. The response is lines of JSON: progress first, the result last.

import { element } from "./dom.js";
import { unlink } from "./tokens.js";
import { forget, markUnknown } from "./unknown.js";

const DELAY = 150; // milliseconds before the progress bar appears, so that quick views do not flicker

async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
  if (rest.trim()) yield JSON.parse(rest);
}

function bar(into, cancel) {
  const fill = element("div"), message = element("span", { text: "Working …" });
  const track = element("div", { role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": "progress" }, fill);
  const button = element("button", { type: "button", text: "Cancel", "data-testid": "cancel", onclick: cancel });
  const working = element("div", { class: "working", "data-working": true }, track, button, message); // the message last: its length varies, and the button must not move
  const shows = setTimeout(() => into.prepend(working), DELAY);
  return {
    update(fraction, text) {
      fill.style.width = `${100 * fraction}%`;
      track.setAttribute("aria-valuenow", Math.round(100 * fraction));
      message.textContent = text;
    },
    end() {
      clearTimeout(shows);
      working.remove();
    },
  };
}

export function clearAlerts(into) {
  into.querySelectorAll(":scope > [role=alert], :scope > [data-cancelled], :scope > [data-hint]").forEach(old => old.remove());
}

export function alert(into, message) {
  clearAlerts(into);
  into.prepend(element("p", { role: "alert", text: message }));
}

// Shows the warnings of a view above its result: an unknown word, for example.
function notes(into, texts) {
  const old = [];
  for (let one = into.previousElementSibling; one?.hasAttribute("data-note"); one = one.previousElementSibling) old.push(one);
  old.forEach(one => one.remove());
  into.before(...texts.map(text => element("p", { role: "status", "data-note": true, text })));
}

const pending = new WeakMap(); // the request of each element, which a newer request for that element replaces

// The place of a view's results. Before the first one, after an error, and while there is nothing to ask, it shows none: what it
// holds would be another text's.
export const results = (...children) => element("div", { "data-results": true, "data-empty": "yes" }, ...children);

function empty(into) {
  notes(into, []);
  forget(into.closest("[data-room]"));
  if (into.dataset.results === undefined) return;
  into.dataset.empty = "yes";
  unlink(into);
}

// There is nothing to ask: what is under way is given up, and a hint says what to enter.
export function nothing(into, hint) {
  for (const one of [into, ...into.querySelectorAll("*")]) pending.get(one)?.abort("replaced");
  clearAlerts(into);
  empty(into);
  into.prepend(element("p", { "data-hint": true, role: "status", text: hint }));
}

// The result; or null if the request failed (an alert in `into` says why), was cancelled, or was replaced by a newer one.
// A room that shows by itself how far a view is gives `heard`, which gets each line of progress, and the signal `stopped`;
// with `bar`, the progress bar and its Cancel button are shown all the same. `part` gets what the view knows before it is done.
export async function ask(address, params, into, signal, { heard = null, stopped = null, bar: shown = !heard, part = null } = {}) {
  pending.get(into)?.abort("replaced");
  const stop = new AbortController();
  pending.set(into, stop);
  into.querySelector(":scope > [data-hint]")?.remove();
  signal?.addEventListener("abort", () => stop.abort("left"), { once: true });
  stopped?.addEventListener("abort", () => stop.abort("stopped"), { once: true });
  const progress = !shown ? { update() {}, end() {} } : bar(into, () => stop.abort("cancelled"));
  try {
    const response = await fetch(address, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(params),
      signal: stop.signal,
    });
    if (!response.ok) {
      const refusal = await response.json().catch(() => ({}));
      throw new Error(refusal.error ?? `the lab responded with status ${response.status}`);
    }
    for await (const line of lines(response)) {
      if (line.error !== undefined) throw new Error(line.error);
      if (line.result !== undefined) {
        if (stop.signal.aborted) return null;
        clearAlerts(into);
        for (const mark of ["stale", "empty"]) delete into.dataset[mark];
        notes(into, line.notes ?? []);
        markUnknown(into.closest("[data-room]"), line.result.unknown);
        return line.result;
      }
      if (line.part !== undefined) {
        if (stop.signal.aborted) return null;
        clearAlerts(into);
        delete into.dataset.stale;
        await part?.(line.part);
        continue;
      }
      progress.update(line.progress, heard ? `${Math.round(100 * line.progress)} %` : line.message);
      heard?.(line);
    }
    throw new Error("the lab stopped in the middle of a response. Is it still running in its terminal?");
  } catch (error) {
    if (stop.signal.aborted) {
      if (stop.signal.reason === "cancelled") {
        clearAlerts(into);
        into.dataset.stale = "yes";
        into.prepend(element("p", { "data-cancelled": true, role: "status", text: "Cancelled." }));
      }
      return null;
    }
    into.dataset.stale = "yes"; // the figures on the page belong to an earlier request
    empty(into);
    const lost = error instanceof TypeError; // fetch throws it if the server does not respond
    alert(into, lost ? "The lab does not respond. Is it still running in its terminal?" : error.message);
    return null;
  } finally {
    progress.end();
    if (pending.get(into) === stop) pending.delete(into);
  }
}
