// The walk: a text through the whole model. A click opens a stage in its place: its matrices as cards, one as a grid, one number as a sum.

import { Opened, firstOf } from "../walk/opened.js";
import { percent, visible, named } from "../walk/format.js";
import { Picture } from "../walk/picture.js";
import { Player } from "../lib/player.js";

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
    element("span", { text: "Each strip shows the first numbers of a stage’s output. Lines lead to the tokens that the marked one attends to; the thicker, the larger the weight. Click a stage to open it." }));
}

export function mount(root, lab) {
  const { element } = lab;
  lab.style("/page/walk/walk.css");
  lab.controls(root, INPUTS.map(spec => (spec.name === "text" ? { ...spec, value: lab.example() } : spec)));
  const out = element("div", { "data-look": "whole", "data-results": true });
  root.append(out);
  let facts = null, keys = {}, before = null, matrices = [];

  const opened = new Opened({
    close: () => close(),
    choose: matrix => lab.set({ matrix, cell: null }),
    spell: (at, column) => lab.set({ matrix: matrix(), cell: [matrix(), at, column].join(",") }),
    unspell: () => { opened.grid.focus(); return lab.set({ cell: null }); },
  });
  const picture = new Picture(out, opened.node, {
    open: (stage, row) => { pause(); return stage === chosen() && row === undefined ? close() : open(stage, row, true); },
    token: row => lab.set({ token: row === Number(lab.state.token ?? -1) ? null : row, cell: null }),
    retype: text => lab.set({ last: text, ids: ids().join(",") || "-", cell: null, token: null }, { push: true }),
    take: (id, row) => grow([...ids().slice(0, ids().length - (facts.stages.at(-1).tokens.length - 1 - row)), id]),
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
    over: () => { pause(); lab.set({ ids: null, last: null, cell: null, token: null }, { push: true }); },
  }));
  out.append(code);
  const inside = lab.controls(opened.settings, INSIDE);
  const themes = new MutationObserver(() => opened.redraw());
  themes.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => opened.redraw(), { signal: lab.left.signal });
  lab.left.signal.addEventListener("abort", () => { player.pause(); themes.disconnect(); picture.leave(); });
  document.addEventListener("keydown", event => {
    if (event.key !== "Escape" || event.defaultPrevented || chosen() === null) return;
    event.preventDefault();
    if (opened.beside.hidden) close();
    else opened.actions.unspell();
  }, { signal: lab.left.signal });

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
  const most = () => facts.stages.length - 1;
  const chosen = () => (lab.state.stage === undefined || !facts ? null : Math.max(0, Math.min(Number(lab.state.stage) || 0, most())));
  const row = () => Math.min(Number(lab.state.token ?? Infinity), facts.stages[chosen()].tokens.length - 1);
  const matrix = () => Math.min(Number(lab.state.matrix ?? lab.state.cell?.split(",")[0] ?? firstOf(matrices)), matrices.length - 1);

  function pause() {
    player.pause();
    made.play.textContent = "Play";
  }

  // Opens a stage; `enter`: the keyboard is then in its grid.
  async function open(stage, token, enter = false) {
    const at = token === undefined ? {} : { token };
    await lab.set({ stage, ...(stage === chosen() ? {} : { matrix: null }), cell: null, ...at });
    if (enter && chosen() === stage && opened.matrices) opened.grid.focus();
  }

  function close() {
    picture.headings[chosen()]?.focus({ preventScroll: true });
    picture.at = Infinity;
    return lab.set({ stage: null, matrix: null, cell: null });
  }

  function start() {
    made.play.textContent = "Pause";
    lab.set({ stage: null, matrix: null, cell: null }, { render: false });
    picture.open(null);
    player.play();
  }

  function stop() {
    pause();
    return lab.draw();
  }

  function step(by) {
    pause();
    const here = chosen() ?? (Number.isFinite(picture.at) ? Math.floor(player.at) : by > 0 ? -1 : most() + 1);
    const stage = Math.max(0, Math.min(most(), here + by));
    player.jump(stage);
    return open(stage);
  }

  scrub.addEventListener("input", () => { pause(); player.jump(Number(scrub.value)); tell(Math.floor(player.at)); });

  function tell(stage) {
    const { name, equation, axes, shape } = facts.stages[stage];
    caption.replaceChildren(`${stage + 1} of ${facts.stages.length}: ${name}, `, named("out", axes), ` ${shape.join(" × ")}. `, element("span", { class: "walk-equation", text: equation }));
  }

  const pinned = () => (lab.state.token === undefined ? null : Number(lab.state.token));

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
      picture.show(facts, pinned());
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
    const stage = chosen(), { heads } = facts.stages[stage], { head = "0", from } = lab.state;
    const wanted = String(Math.min(Number(head) || 0, Math.max(0, heads - 1)));
    const key = JSON.stringify([keys.whole, stage, wanted, from]);
    if (keys.stage !== key) {
      const result = await lab.ask("stage", { ...lab.state, stage, head: wanted }, { into: opened.node });
      if (!result) return false;
      matrices = result.facts.matrices;
      keys.stage = key;
      lab.offer(inside.head, Array.from({ length: heads }, (_, n) => ({ value: String(n), label: String(n + 1) })), wanted);
      lab.show(inside.head, heads > 1);
      lab.show(inside.from, matrices.some(one => one.shape[1] > lab.room.facts.window));
    }
    opened.show(facts.stages[stage], matrices, row(), matrix(), cell());
    return true;
  }

  // The open cell of the chosen matrix.
  function cell() {
    const [of, at, column] = (lab.state.cell ?? "").split(",").map(Number), { shape } = matrices[of] ?? {};
    return lab.state.cell && of === matrix() && at < shape[0] && column < shape[1] ? { row: at, column } : null;
  }

  async function showCell() {
    const at = cell();
    const result = at && await lab.ask("cell", { ...lab.state, stage: chosen(), matrix: matrix(), ...at }, { into: opened.beside });
    opened.spell(result?.facts ?? null);
  }

  // The tokens and the chosen cell belong to a run and a text.
  function forget() {
    lab.follow(before?.run);
    const { run, text } = lab.state;
    if (before && (before.run !== run || before.text !== text)) {
      pause();
      const first = { ids: null, last: null, cell: null, token: null, ...(before.run === run ? {} : { stage: null, matrix: null, head: "0", from: "0" }) };
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
    if (!there) return;
    const { next } = facts, writes = facts.stages.at(-1).tokens;
    for (const name of ["draw", "play"]) made[name].disabled = next.ended && name === "draw";
    made.undo.disabled = ids().length < (facts.stages.at(-1).side ? 1 : 2);
    made.draw.textContent = next.ended ? "The text has ended" : `Append ${JSON.stringify(visible(next.drawn.token))} (${percent(next.drawn.share)})`;
    made.draw.title = `drawn after ${writes.length} tokens; the distribution has an entropy of ${next.entropy.toFixed(2)} bits`;
    if (player.playing) return;
    picture.mark(pinned());
    const stage = chosen();
    if (stage === null) {
      picture.open(null);
      caption.textContent = `${facts.stages.length} stages. Click one, or press Enter on its name, to see what it computes.`;
      return;
    }
    if (Number.isFinite(picture.at)) player.jump(stage);
    else { scrub.value = stage; player.at = stage; }
    tell(stage);
    picture.open(stage);
    if (await showStage()) await showCell();
  };
}
