// The lab's one training, which goes on while other rooms are open: how far it is, a button that stops it, and what a room lacks.

import { copyButton } from "./copy.js";
import { element } from "./dom.js";
import { ask } from "./request.js";

export const PAUSE = 1000; // milliseconds between two looks at a training

const OPENED = {
  walk: "Walk through it", translate: "Translate", classify: "Classify", tag: "Tag", answer: "Ask about a text", caption: "Caption images",
  chat: "Chat", generate: "Generate text", attention: "Look at its attention", inspect: "Inspect it", words: "Look up words", search: "Search",
};

const minutes = seconds => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")} min`;

// How far a training is, in words.
export function told({ name, running, ready, counts, step, steps, loss, seconds, error }) {
  if (!name) return "";
  if (error) return `${name}: ${error}`;
  const far = steps ? `${counts === "step" ? "step" : "word"} ${step.toLocaleString("en")} of ${steps.toLocaleString("en")}, loss ${loss === null ? "?" : loss.toFixed(3)}` : "getting ready";
  if (running) return `${name}: ${far}, ${minutes(seconds)}`;
  return ready ? `${name} is trained: ${far}.` : `${name} was stopped before its first weights were saved.`;
}

const address = (room, settings) => `#/${room}?${new URLSearchParams(settings)}`;

// Links that open what was trained in the rooms that show it.
export const openers = ({ ready, opens }) => (ready
  ? opens.map(({ room, settings }) => element("a", { href: address(room, settings), text: OPENED[room] }))
  : []);

// The address of a room with what was trained, if the room shows it.
export const opening = ({ opens }, name) => address(name, opens.find(({ room }) => room === name)?.settings ?? {});

// What a room lacks, the command that makes it, and, where the lab can make it by itself, a button.
export function maker({ if_none: lacks, command, starter }, press, id) {
  const source = command && element("pre", { text: command, "data-command": true, tabindex: 0 });
  const button = starter && element("button", {
    type: "button", class: "main", "data-make": starter.name, text: `Train ${starter.about}`, onclick: () => press(starter.name),
  });
  return element("div", { class: "maker" },
    element("p", { role: "status", "data-if-none": true, id: id ?? null, text: lacks }), source,
    command && element("div", { class: "tools" }, button, copyButton("Copy command", command, source, "copy-command")));
}

// A line about the training that runs, with Stop. `ended` is called when a training that was seen running has a run to show.
export class Workshop {
  constructor(signal, ended) {
    Object.assign(this, { signal, ended, seen: false, timer: 0 });
    this.text = element("p", { role: "status", "data-told": true });
    this.fill = element("div");
    this.track = element("div", { role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": "training" }, this.fill);
    this.stop = element("button", { type: "button", text: "Stop", "data-control": "stop", onclick: () => this.ask("stop") });
    this.links = element("p", { class: "examples", "data-links": true });
    this.node = element("section", { class: "training", "data-training": true, "aria-label": "training", hidden: true },
      this.text, element("div", { class: "working" }, this.track, this.stop), this.links);
    signal.addEventListener("abort", () => clearTimeout(this.timer));
  }

  // While one training runs, no other can begin, and the buttons say which one it is.
  buttons(disabled, name = "") {
    document.querySelectorAll("[data-make]").forEach(button => {
      button.disabled = disabled;
      button.parentElement.querySelector("[data-busy-with]")?.remove();
      if (disabled) button.after(element("span", { "data-busy-with": true, text: `${name ? `“${name}”` : "Another model"} is being trained: wait until it ends, or stop it.` }));
    });
  }

  async make(starter) {
    this.buttons(true);
    this.node.hidden = false;
    const result = await ask("/api/build/make", { starter }, this.node, this.signal, { bar: false });
    if (!result) { this.buttons(false); return; }
    await this.look();
    this.stop.focus();
  }

  async ask(view) {
    this.stop.disabled = true;
    if (await ask(`/api/build/${view}`, {}, this.node, this.signal, { bar: false })) await this.look();
  }

  async look() {
    clearTimeout(this.timer);
    const result = await ask("/api/build/progress", {}, this.node, this.signal, { bar: false });
    if (!result || this.signal.aborted) return;
    const { facts } = result, was = this.seen;
    this.seen = facts.running;
    if (facts.running || was) this.show(facts);
    if (facts.running) this.timer = setTimeout(() => this.look(), PAUSE);
    else if (was && facts.ready) await this.ended(facts);
  }

  show(facts) {
    const { running, step, steps, error } = facts, share = steps ? Math.round(100 * step / steps) : 0;
    this.node.hidden = false;
    this.text.textContent = told(facts);
    this.text.toggleAttribute("data-failed", Boolean(error));
    this.fill.style.width = `${share}%`;
    this.track.setAttribute("aria-valuenow", share);
    this.track.parentElement.hidden = !running;
    this.stop.disabled = !running;
    this.links.replaceChildren(...openers(facts));
    this.buttons(running, facts.name);
  }
}
