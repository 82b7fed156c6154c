// Asking the server: lines of JSON come back, some about progress, the last with the answer.

import { element } from "./dom.js";

const PATIENCE = 150; // milliseconds before a bar appears: what is quicker than that does not flicker

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
  const fill = element("div"), message = element("span", { text: "working" });
  const track = element("div", { role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": "progress" }, fill);
  const button = element("button", { type: "button", text: "Cancel", "data-testid": "cancel", onclick: cancel });
  const working = element("div", { class: "working", "data-working": true }, track, button, message); // the message last: it grows, and the button stays where it is
  const shows = setTimeout(() => into.prepend(working), PATIENCE);
  return {
    tell(share, text) {
      fill.style.width = `${100 * share}%`;
      track.setAttribute("aria-valuenow", Math.round(100 * share));
      message.textContent = text;
    },
    end() {
      clearTimeout(shows);
      working.remove();
    },
  };
}

export function clearAlerts(into) {
  into.querySelectorAll(":scope > [role=alert], :scope > [data-cancelled]").forEach(old => old.remove());
}

export function alert(into, message) {
  clearAlerts(into);
  into.prepend(element("p", { role: "alert", text: message }));
}

// What a view warned of, a word it does not know for instance, above its answer.
function notes(into, texts) {
  const before = [];
  for (let one = into.previousElementSibling; one?.hasAttribute("data-note"); one = one.previousElementSibling) before.push(one);
  before.forEach(one => one.remove());
  into.before(...texts.map(text => element("p", { role: "status", "data-note": true, text })));
}

const underway = new WeakMap(); // what is being asked for an element, so that a newer question takes its place

// The answer, or null: where it was refused (which is then said in `into`), cancelled, or overtaken by a newer question.
export async function ask(address, params, into, signal) {
  underway.get(into)?.abort("overtaken");
  const stop = new AbortController();
  underway.set(into, stop);
  signal?.addEventListener("abort", () => stop.abort("left"), { once: true });
  const shown = bar(into, () => stop.abort("cancelled"));
  try {
    const response = await fetch(address, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(params),
      signal: stop.signal,
    });
    if (!response.ok) {
      const refusal = await response.json().catch(() => ({}));
      throw new Error(refusal.error ?? `the lab answered ${response.status}`);
    }
    for await (const line of lines(response)) {
      if (line.error !== undefined) throw new Error(line.error);
      if (line.shown !== undefined) {
        if (stop.signal.aborted) return null;
        clearAlerts(into);
        delete into.dataset.stale;
        notes(into, line.notes ?? []);
        return line.shown;
      }
      shown.tell(line.progress, line.message);
    }
    throw new Error("the lab stopped in the middle of an answer; is it still running in its terminal?");
  } catch (error) {
    if (stop.signal.aborted) {
      if (stop.signal.reason === "cancelled") {
        clearAlerts(into);
        into.dataset.stale = "yes";
        into.prepend(element("p", { "data-cancelled": true, role: "status", text: "Cancelled." }));
      }
      return null;
    }
    into.dataset.stale = "yes"; // what is still there belongs to an earlier question
    const lost = error instanceof TypeError; // what fetch throws when nobody answers
    alert(into, lost ? "The lab does not answer; is it still running in its terminal?" : error.message);
    return null;
  } finally {
    shown.end();
    if (underway.get(into) === stop) underway.delete(into);
  }
}
