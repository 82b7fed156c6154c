// A model of one's own: its settings, its size, its drawing, its recipe, and its training, which goes on while other rooms are open.

import { drawing } from "../lib/drawing.js";
import { openers, PAUSE, told as words } from "../lib/workshop.js";

const SETTINGS = lab => [
  { name: "kind", label: "Architecture", kind: "choice" },
  { name: "width", label: "Width", kind: "number", min: 1, max: 512, step: 1, value: 64 },
  { name: "depth", label: "Layers", kind: "number", min: 1, max: 12, step: 1, value: 2 },
  { name: "mixer", label: "Self-attention", kind: "choice" },
  { name: "heads", label: "Heads", kind: "number", min: 1, max: 16, step: 1, value: 4 },
  { name: "score", label: "Attention score", kind: "choice" },
  { name: "position", label: "Position encoding", kind: "choice" },
  { name: "mask", label: "Mask", kind: "choice" },
  { name: "span", label: "Window size (tokens)", kind: "number", min: 1, max: 256, step: 1, value: 8 },
  { name: "norm", label: "Norm", kind: "choice" },
  { name: "activation", label: "Activation", kind: "choice" },
  { name: "tokens", label: "Tokenizer", kind: "choice" },
  { name: "source", label: "Training text", kind: "choice" },
  { name: "text", label: "Your text", kind: "area", value: "", longest: lab.room.facts.longest },
  { name: "steps", label: "Training steps", kind: "number", min: 1, max: lab.room.facts.most_steps, step: 1, value: 300 },
  { name: "batch", label: "Batch size (texts)", kind: "number", min: 1, max: 64, step: 1, value: 16 },
  { name: "context", label: "Context length (tokens)", kind: "number", min: 2, max: 256, step: 1, value: 64 },
  { name: "rate", label: "Learning rate", kind: "number", min: 0, max: 1, value: 0.003 },
  { name: "seed", label: "Seed", kind: "number", min: 0, step: 1, value: 0 },
];
const OF_SOME = ["mixer", "heads", "score", "position", "mask", "norm", "activation"]; // settings that not every kind of model has
const OF_MIXER = new Set(["score", "position", "mask"]); // of these, those that not every kind of self-attention has

export function mount(root, lab) {
  const { element } = lab;
  const made = lab.controls(root, SETTINGS(lab));
  const size = element("p", { class: "size", "data-size": true, "aria-live": "polite" });
  const out = element("div"), place = element("div"), training = element("section", { "data-training": true });
  const name = element("input", { type: "text", "data-control": "name", value: "mine", maxlength: 40, autocomplete: "off", spellcheck: "false" });
  const begin = element("button", { type: "submit", class: "main", "data-control": "train", text: "Train" });
  const stop = element("button", { type: "button", "data-control": "stop", text: "Stop", disabled: true, onclick: () => halt() });
  const form = element("form", { class: "controls", onsubmit: event => { event.preventDefault(); start(); } },
    element("label", {}, element("span", { text: "Run name" }), name), begin, stop);
  const told = element("p", { "data-told": true, role: "status" }), links = element("p", { class: "examples", "data-links": true }), curves = element("div");
  const why = element("p", { "data-why": true, id: lab.fresh("why"), role: "status" }); // why Train cannot be pressed
  begin.setAttribute("aria-describedby", why.id);
  training.append(element("h2", { text: "Training" }), why, told, links, curves);
  const recipe = element("section", {}, element("h2", { text: "Recipe" })), source = element("pre", { "data-recipe": true, tabindex: 0 });
  const saved = element("a", { text: "Download the recipe", "data-download": true });
  recipe.append(saved, source);
  out.append(size);
  root.append(out, form);
  const draw = drawing(lab, root);
  root.append(training, place, recipe);
  let timer, url = null, latest = null, refusal = "";
  lab.left.signal.addEventListener("abort", () => { clearTimeout(timer); if (url) URL.revokeObjectURL(url); });

  function showRecipe(text) {
    const parts = text.split(/^(text = .{200,})$/m); // a long text is cut off to look at, but not in what is copied or downloaded
    source.replaceChildren(...parts.map((part, n) => (n % 2 ? element("span", { class: "cut", text: part }) : part)));
    if (url) URL.revokeObjectURL(url);
    url = URL.createObjectURL(new Blob([text], { type: "application/toml" }));
    saved.href = url;
    saved.download = `${name.value || "model"}.toml`;
  }

  function tell(facts) {
    why.textContent = facts.running ? `“${facts.name}” is being trained: wait until it ends, or press Stop.` : refusal;
    begin.disabled = Boolean(why.textContent);
    stop.disabled = !facts.running;
    told.textContent = words(facts);
    links.replaceChildren(...openers(facts));
  }

  async function look() {
    clearTimeout(timer);
    const result = await lab.ask("state", {}, { into: curves });
    if (!result) return;
    const was = latest;
    latest = result.facts;
    tell(latest);
    if (result.figures.curves) await lab.figure(curves, result, "curves");
    else curves.replaceChildren();
    if (latest.ready && (was?.running ?? true)) dispatchEvent(new Event("runs-changed")); // the other rooms offer the new run
    if (latest.running && !lab.left.signal.aborted) timer = setTimeout(look, PAUSE);
  }

  async function start() {
    if (begin.disabled) return;
    lab.busy();
    begin.disabled = true;
    const result = await lab.ask("train", { ...lab.state, name: name.value.trim() }, { into: training });
    if (result) await look();
    else begin.disabled = false;
    document.body.dataset.busy = "no";
  }

  async function halt() {
    stop.disabled = true;
    await lab.ask("stop", {}, { into: training });
    await look();
  }

  return async () => {
    const mixes = new Set(lab.chosen("mixer").controls);
    const used = new Set(lab.chosen("kind").controls.filter(part => mixes.has(part) || !OF_MIXER.has(part)));
    for (const part of OF_SOME) lab.show(made[part], used.has(part));
    lab.show(made.span, used.has("mask") && lab.chosen("mask").spans);
    lab.show(made.text, Boolean(lab.chosen("source").controls));
    const result = await lab.ask("count", lab.state, { into: out });
    refusal = result ? result.facts.refusal : "These settings make no model: see the message above.";
    size.textContent = result ? result.facts.about : "";
    recipe.hidden = place.hidden = !result;
    await draw(result && lab.state);
    if (result) {
      showRecipe(result.facts.recipe);
      lab.plainTable(place, result.table, "totals", { heading: "Size" });
      await lab.figure(place, result, "parameters");
    }
    await look();
  };
}
