// Tokens as points that attention moves from layer to layer, and the layers of a trained run.

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
    { name: "preset", label: "Preset", kind: "choice" },
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
    { name: "beside", label: "Compare with the other presets", kind: "flag", value: "true" },
    { name: "layer", label: "Layer shown", kind: "range", min: 0, max: lab.state.depth ?? 200, step: 1, value: 0 },
    { name: "play", label: "Play", kind: "button", press: play },
  ]);
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

  const nearest = layer => result.facts.frames.reduce((best, one) => (Math.abs(one - layer) < Math.abs(best - layer) ? one : best));
  const still = { mode: "immediate", transition: { duration: 0 }, frame: { duration: 0, redraw: true } };

  async function at(layer) {
    await Promise.all(places.map(place => Plotly.animate(place, [String(nearest(layer))], still)));
  }

  // From the layer that is shown, or from the first again; a second press stops, and the address keeps the layer reached.
  let playing = false;
  async function play() {
    if (!result) return;
    if (playing) { playing = false; return; }
    const { frames } = result.facts, from = nearest(Number(lab.state.layer));
    playing = true;
    made.play.textContent = "Pause";
    let reached = from === frames.at(-1) ? frames[0] : from;
    for (const frame of frames.filter(one => one >= reached)) {
      if (!playing || lab.left.signal.aborted) break;
      reached = frame;
      await at(frame);
      made.layer.value = frame;
      await new Promise(done => setTimeout(done, 60));
    }
    playing = false;
    made.play.textContent = "Play";
    if (!lab.left.signal.aborted) await lab.set({ layer: reached });
  }

  async function points() {
    const { layer, run, text, ...params } = lab.state, { depth } = params, key = JSON.stringify(params);
    showUsed(lab, made);
    made.layer.max = depth;
    if (key !== drawn) { // the page shows another layer without asking the server
      drawn = "";
      result = await lab.ask("path", params, { into: out });
      if (!result) return;
      drawn = key;
      pictures.replaceChildren();
      places = [];
      for (const name of result.facts.systems) {
        delete result.figures[name].plot.layout.sliders; // the room has its own slider, which is part of the address
        const place = lab.element("div"), text = result.facts.captions[name];
        pictures.append(place);
        places.push(await lab.figure(place, result, name));
        place.append(lab.element("p", { "data-caption": name, text }));
      }
      await lab.figure(out, result, "curves");
    }
    await at(Number(layer));
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
