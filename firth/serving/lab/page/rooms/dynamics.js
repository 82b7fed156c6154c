// Tokens as points that attention moves from layer to layer, and the layers of a trained run.

import { Player } from "../lib/player.js";
import { Trails } from "../dynamics/trails.js";

const factors = { P: "p", Q: "q" }; // the controls of the factors

// Hides the rank and the eigenvalues of matrices that have none.
function showUsed(lab, made) {
  for (const letter of Object.keys(factors)) {
    const { needs } = lab.chosen(letter);
    for (const name of ["rank", "eigenvalues"]) lab.show(made[`${letter}_${name}`], needs === name);
  }
}

export function mount(root, lab) {
  const { usual } = lab.chosen("preset");
  const made = lab.controls(root, [
    { name: "play", label: "Play", kind: "button", main: true, press: toggle },
    { name: "preset", label: "Preset", kind: "choice" },
    { name: "layer", label: "V⁽ℓ⁾ after layer", kind: "range", min: 0, max: lab.state.depth ?? 200, step: 1, value: 0 },
    { name: "rescale", label: "Factor ρ of each layer", kind: "range", min: 0.8, max: 1.05, step: 0.005, value: usual.rescale },
    { name: "n", label: "Number of tokens n", kind: "number", min: 2, max: 256, step: 1, value: usual.n },
    { name: "d", label: "Dimension d", kind: "number", min: 1, max: 64, step: 1, value: usual.d },
    ...["P", "Q"].flatMap(letter => [
      { name: letter, label: `Matrix ${letter}`, kind: "choice", value: usual[letter] },
      { name: `${letter}_rank`, label: `Rank of ${letter}`, kind: "number", min: 1, max: 64, step: 1, value: usual[`${letter}_rank`] },
      { name: `${letter}_eigenvalues`, label: `Eigenvalues of ${letter}`, kind: "text", value: usual[`${letter}_eigenvalues`] },
      { name: factors[letter], label: `Factor of ${letter}`, kind: "number", value: usual[factors[letter]] },
    ]),
    { name: "depth", label: "Layers", kind: "number", min: 1, max: 1000, step: 1, value: 200 },
    { name: "seed", label: "Seed", kind: "number", min: 0, step: 1, value: 0 },
    { name: "beside", label: "Compare with the other presets", kind: "flag", value: "false" },
    { name: "trails", label: "Trails", kind: "flag", value: "true" },
  ], { plays: true });
  lab.defaults = () => lab.chosen("preset").usual; // of the preset that an address names
  made.preset.addEventListener("change", () => lab.set(lab.chosen("preset").usual)); // runs after the control's own listener
  const out = lab.element("div"), pictures = lab.element("div", { class: "columns" }), trained = lab.element("section");
  out.append(pictures);
  root.append(out, trained);
  if (lab.room.usable.length) {
    trained.append(lab.element("h2", { text: "The layers of a trained model" }));
    const runs = lab.room.usable.map(name => ({ value: name, label: name }));
    lab.controls(trained, [
      { name: "run", label: "Run", kind: "run", options: [{ value: "", label: "no run" }, ...runs], value: "" },
      { name: "text", label: "Text", kind: "text", value: "the list is empty.", wide: true },
    ]);
  }
  const model = lab.element("div"), measured = lab.element("p", { "data-caption": "model" });
  trained.append(model, measured);
  let drawn = "", result = null, places = [];

  // The number of the frame whose layer is nearest; only some of many layers are drawn.
  const nearest = layer => {
    const far = result.facts.frames.map(one => Math.abs(one - layer));
    const least = Math.min(...far);
    return far.findIndex(one => one === least);
  };

  const put = n => Promise.all(places.map(({ place, trails }) => {
    const moved = trails.at(n, lab.state.trails === "true");
    return Plotly.restyle(place, moved, moved.x.map((_, trace) => trace));
  }));

  // From the layer that is shown, or from the first again. When the playing ends, the address keeps the layer reached.
  const player = new Player(() => result.facts.frames.length, {
    seconds: 0.06,
    moved: at => {
      const layer = result.facts.frames[Math.floor(at)];
      if (Number(made.layer.value) === layer) return undefined;
      made.layer.value = layer;
      made.layer.dispatchEvent(new Event("shown"));
      return put(Math.floor(at));
    },
    ended: () => pause(),
  });
  lab.left.signal.addEventListener("abort", () => player.pause());

  function halt() {
    player.pause();
    made.play.textContent = "Play";
  }

  function pause() {
    halt();
    return lab.set({ layer: made.layer.value });
  }

  function toggle() {
    if (!result) return undefined;
    if (player.playing) return pause();
    player.at = nearest(Number(made.layer.value));
    made.play.textContent = "Pause";
    return player.play();
  }

  // Moving the slider pauses, and shows each layer at once; the space bar plays and pauses there, too.
  made.layer.addEventListener("input", () => {
    halt();
    if (result) put(nearest(Number(made.layer.value)));
  });
  made.layer.addEventListener("keydown", event => {
    if (event.key !== " ") return;
    event.preventDefault();
    toggle();
  });

  // The formula, figure and caption of a preset, each in its place.
  function pictureOf(name) {
    let picture = [...pictures.children].find(one => one.dataset.system === name);
    if (!picture) {
      picture = lab.element("div", { "data-system": name },
        lab.element("h2", { "data-formula": name }), lab.element("div"), lab.element("p", { "data-caption": name }));
      pictures.append(picture);
    }
    const [formula, figure, caption] = picture.children;
    return { formula, figure, caption };
  }

  // Draws the presets that are computed and not yet on the page.
  async function systems(known) {
    const all = new Set(known.facts.systems), computed = known.facts.systems.filter(name => known.figures[name]);
    result = known;
    [...pictures.children].filter(one => !all.has(one.dataset.system)).forEach(one => one.remove());
    for (const name of computed.slice(places.length)) {
      const trails = new Trails(known.figures[name].plot), { formula, figure, caption } = pictureOf(name);
      trails.at(nearest(Number(lab.state.layer)), lab.state.trails === "true");
      formula.textContent = `${known.headings[name]}: ${known.facts.formulas[name]}`;
      caption.textContent = known.facts.captions[name];
      places.push({ place: await lab.figure(figure, known, name, { heading: null }), trails });
    }
  }

  async function points() {
    const { layer, trails, run, text, ...params } = lab.state, { depth } = params, key = JSON.stringify(params);
    showUsed(lab, made);
    made.layer.max = depth;
    if (key !== drawn) { // the page shows another layer without asking the server
      drawn = "";
      halt();
      result = null;
      places = [];
      const found = await lab.ask("path", params, { into: out, part: systems });
      if (!found) return;
      await systems(found);
      drawn = key;
      await lab.figure(out, found, "curves");
    }
    if (!player.playing) await put(nearest(Number(layer)));
  }

  async function layers() {
    const { run, text } = lab.state;
    measured.textContent = "";
    if (!run) return model.replaceChildren();
    const found = await lab.ask("model", { run, text }, { into: model });
    if (!found) return undefined;
    measured.textContent = found.facts.caption;
    return lab.figure(model, found, "model");
  }

  return () => Promise.all([points(), layers()]);
}
