// The walk: a text through the whole model. Above, the model as boxes; below, one stage as its matrices; then one number.

import { matrices, named, where } from "../walk/matrices.js";
import { percent, visible } from "../walk/format.js";
import { Picture } from "../walk/picture.js";
import { Player } from "../lib/player.js";
import { spelled } from "../walk/cell.js";

const INPUTS = [
  { name: "run", label: "Run", kind: "run" },
  { name: "text", label: "Text", kind: "text", wide: true },
];

const actions = press => [
  { name: "play", label: "Play", kind: "button", main: true, press: press.play },
  { name: "previous", label: "◀ Previous stage", kind: "button", press: press.previous },
  { name: "following", label: "Next stage ▶", kind: "button", press: press.following },
  { name: "draw", label: "Append drawn token", kind: "button", press: press.draw },
  { name: "undo", label: "Remove last token", kind: "button", press: press.undo },
  { name: "over", label: "Start over", kind: "button", press: press.over },
  { name: "temperature", label: "Temperature", kind: "range", min: 0, max: 2, step: 0.05, value: 1 },
  { name: "top_k", label: "Top-k (0 for all)", kind: "number", min: 0, step: 1, value: 0 },
  { name: "seed", label: "Seed", kind: "number", min: 0, step: 1, value: 0 },
];
const INSIDE = [
  { name: "head", label: "Head", kind: "select", options: [], value: "0" },
  { name: "from", label: "First column shown", kind: "number", min: 0, step: 1, value: 0 },
];

function legend(element) {
  const swatch = (name, text) => {
    const box = element("i");
    box.style.background = `var(${name})`;
    return element("span", {}, box, text);
  };
  return element("p", { class: "walk-legend" }, swatch("--walk-plus", "above zero"), swatch("--walk-minus", "below zero"),
    element("span", { text: "Each strip shows the first numbers of a stage’s output. Lines lead to the tokens that the marked one attends to; the thicker, the larger the weight." }));
}

export function mount(root, lab) {
  const { element } = lab;
  lab.style("/page/walk/walk.css");
  lab.controls(root, INPUTS.map(spec => (spec.name === "text" ? { ...spec, value: lab.example() } : spec)));
  const out = element("div", { "data-look": "whole", "data-results": true }), stageLook = element("section", { "data-look": "stage", hidden: true }), cellLook = element("section", { "data-look": "cell", hidden: true });
  root.append(out);
  let facts = null, keys = {}, before = null, shownMatrices = [], redraw = null;

  const picture = new Picture(out, {
    choose: (stage, row) => { player.pause(); lab.set({ stage, cell: null, ...(row === undefined ? {} : { token: row }) }); },
    token: row => lab.set({ token: row === Number(lab.state.token ?? -1) ? null : row }),
    retype: text => lab.set({ last: text, ids: ids().join(",") || "-", cell: null, token: null }, { push: true }),
    take: id => grow([...ids(), id]),
  });
  const scrub = element("input", { type: "range", min: 0, max: 1, step: 0.01, value: 0, "data-scrub": true, "aria-label": "position in the model" });
  const caption = element("p", { "data-caption": true, "aria-live": "polite" }), code = element("div");
  out.append(element("label", { class: "walk-scrub" }, scrub), caption, legend(element));
  scrub.style.width = "100%";
  const made = lab.controls(out, actions({
    play: () => (player.playing ? stop() : start()),
    previous: () => step(-1), following: () => step(1),
    draw: () => drawn(),
    undo: () => grow(ids().slice(0, -1)),
    over: () => { player.pause(); lab.set({ ids: null, last: null, cell: null, token: null }, { push: true }); },
  }));
  out.append(code);
  const heading = element("h2"), about = element("div", { class: "walk-about" }), grid = element("div", { class: "walk-matrices" });
  stageLook.append(heading, about);
  const inside = lab.controls(stageLook, INSIDE);
  stageLook.append(grid);
  const sum = element("div");
  cellLook.append(element("h2", { text: "One number, spelled out" }), sum);
  root.append(stageLook, cellLook);
  const themes = new MutationObserver(() => redraw?.());
  themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  lab.left.signal.addEventListener("abort", () => { player.pause(); themes.disconnect(); picture.themes.disconnect(); });

  const player = new Player(() => facts?.stages.length ?? 1, {
    moved: at => { picture.at = at; picture.frame(); picture.follow(); scrub.value = at; },
    arrived: stage => tell(stage),
    ended: async () => {
      if (facts.next.ended || facts.stages.at(-1).tokens.length >= lab.room.facts.most_tokens) return stop();
      await drawn();
      return facts && !facts.next.ended ? start() : stop();
    },
  });

  const ids = () => facts?.ids ?? [];
  const grow = now => lab.set({ ids: now.join(",") || "-", last: null, cell: null, token: null }, { push: true });
  const drawn = () => (facts.next.ended ? undefined : grow([...ids(), facts.next.drawn.id]));
  const chosen = () => Math.min(Number(lab.state.stage ?? 1), facts.stages.length - 1);
  const row = () => Math.min(Number(lab.state.token ?? Infinity), facts.stages[chosen()].tokens.length - 1);

  function start() {
    made.play.textContent = "Pause";
    player.play();
  }

  function stop() {
    player.pause();
    made.play.textContent = "Play";
    return lab.set({ stage: Math.floor(player.at), cell: null });
  }

  function step(by) {
    player.pause();
    made.play.textContent = "Play";
    const stage = Math.max(0, Math.min(facts.stages.length - 1, chosen() + by));
    player.jump(stage);
    return lab.set({ stage, cell: null });
  }

  scrub.addEventListener("input", () => { player.pause(); made.play.textContent = "Play"; player.jump(Number(scrub.value)); tell(Math.floor(player.at)); });
  scrub.addEventListener("change", () => lab.set({ stage: Math.floor(player.at), cell: null }));

  function tell(stage) {
    const { name, equation, axes, shape } = facts.stages[stage];
    caption.replaceChildren(`${stage + 1} of ${facts.stages.length}: ${name}, `, named("out", axes), ` ${shape.join(" × ")}. `, element("span", { class: "walk-equation", text: equation }));
  }

  async function whole() {
    const { run, text, ids: given, last } = lab.state, key = JSON.stringify([run, text, given, last]);
    const sampling = JSON.stringify(["temperature", "top_k", "seed"].map(name => lab.state[name]));
    if (keys.whole !== key || !facts) {
      const result = await lab.ask("whole", lab.state, { into: out });
      facts = result?.facts ?? null;
      if (!facts) return false;
      if (last) lab.set({ last: null, ids: facts.ids.join(",") || "-" }, { render: false });
      keys = { whole: JSON.stringify([run, text, lab.state.ids, lab.state.last]), sampling };
      scrub.max = facts.stages.length - 1;
      picture.at = player.playing ? player.at : Infinity;
      picture.show(facts, chosen(), lab.state.token === undefined ? null : Number(lab.state.token));
      code.replaceChildren(element("div", { class: "tools" }, ...lab.python(result.python)));
    } else if (keys.sampling !== sampling) {
      const result = await lab.ask("next", lab.state, { into: out });
      if (!result) return false;
      keys.sampling = sampling;
      facts.next = result.facts.next;
      picture.next(facts.next);
    }
    return true;
  }

  async function showStage() {
    const stage = chosen(), { heads, tokens, source } = facts.stages[stage], { head = "0", from } = lab.state;
    const wanted = String(Math.min(Number(head) || 0, Math.max(0, heads - 1)));
    const key = JSON.stringify([keys.whole, stage, wanted, from]);
    if (keys.stage !== key) {
      const result = await lab.ask("stage", { ...lab.state, stage, head: wanted }, { into: stageLook });
      if (!result) return;
      shownMatrices = result.facts.matrices;
      keys.stage = key;
      heading.textContent = `Inside ${result.facts.name}`;
      about.replaceChildren(element("p", { class: "walk-equation", text: facts.stages[stage].equation }), where(source));
      lab.offer(inside.head, Array.from({ length: heads }, (_, n) => ({ value: String(n), label: String(n + 1) })), wanted);
      lab.show(inside.head, heads > 1);
      lab.show(inside.from, shownMatrices.some(one => one.shape[1] > lab.room.facts.window));
    }
    redraw = matrices(grid, { tokens }, shownMatrices, row(), { open: (matrix, at, column) => lab.set({ cell: [matrix, at, column].join(",") }) });
    stageLook.hidden = false;
  }

  async function showCell() {
    const [matrix, at, column] = (lab.state.cell ?? "").split(",").map(Number), one = shownMatrices[matrix];
    cellLook.hidden = !lab.state.cell || !one;
    if (cellLook.hidden) return;
    const result = await lab.ask("cell", { ...lab.state, stage: chosen(), matrix, row: at, column }, { into: cellLook });
    if (!result) return;
    spelled(sum, result.facts, one);
    cellLook.scrollIntoView({ block: "nearest" });
  }

  // The tokens and the chosen cell belong to a run and a text.
  function forget() {
    lab.follow(before?.run);
    const { run, text } = lab.state;
    if (before && (before.run !== run || before.text !== text)) {
      player.pause();
      made.play.textContent = "Play";
      const first = { ids: null, last: null, cell: null, token: null, ...(before.run === run ? {} : { stage: null, head: "0", from: "0" }) };
      const kept = Object.keys(first).filter(name => before[name] === lab.state[name]); // an address that names others brings them
      lab.set(Object.fromEntries(kept.map(name => [name, first[name]])), { render: false });
    }
    before = { ...lab.state };
  }

  return async () => {
    forget();
    if (!lab.state.run) return;
    const there = await whole();
    before = { ...lab.state };
    for (const part of [stageLook, cellLook]) part.hidden = part.hidden || !there;
    if (!there) return;
    const { next } = facts, writes = facts.stages.at(-1).tokens;
    for (const name of ["draw", "play"]) made[name].disabled = next.ended && name === "draw";
    made.undo.disabled = ids().length < (facts.stages.at(-1).side ? 1 : 2);
    made.draw.textContent = next.ended ? "The text has ended" : `Append ${JSON.stringify(visible(next.drawn.token))} (${percent(next.drawn.share)})`;
    made.draw.title = `drawn after ${writes.length} tokens; the distribution has an entropy of ${next.entropy.toFixed(2)} bits`;
    if (player.playing) return;
    picture.choose(chosen(), lab.state.token === undefined ? null : Number(lab.state.token));
    if (Number.isFinite(picture.at)) player.jump(chosen());
    else { scrub.value = chosen(); player.at = chosen(); }
    tell(chosen());
    await showStage();
    await showCell();
  };
}
