const USUAL = { lecture: { n: 64, p: -0.01 }, clusters: { n: 40, p: 0.1 } };

export default {
  name: "dynamics",
  title: "Dynamics",
  mount(root, lab) {
    const usual = USUAL[lab.state.preset] ?? USUAL.lecture;
    const made = lab.controls(root, [
      { name: "preset", label: "Preset", kind: "select", options: [["lecture", "the lecture's"], ["clusters", "Geshkovski et al. 2023"]] },
      { name: "n", label: "n, tokens", kind: "number", min: 2, max: 256, step: 1, value: usual.n },
      { name: "d", label: "d, numbers of each", kind: "number", min: 1, max: 64, step: 1, value: 2 },
      { name: "p", label: "P = … · I", kind: "number", value: usual.p },
      { name: "q", label: "Q times", kind: "number", value: 1 },
      { name: "depth", label: "Depth", kind: "number", min: 1, max: 1000, step: 1, value: 200 },
      { name: "seed", label: "Seed", kind: "number", min: 0, step: 1, value: 0 },
      { name: "beside", label: "the other preset beside it", kind: "flag", value: "true" },
      { name: "layer", label: "Layer", kind: "range", min: 0, max: lab.state.depth ?? 200, step: 1, value: 0 },
      { name: "play", label: "Play", kind: "button", press: play },
    ]);
    made.preset.addEventListener("change", () => lab.set(USUAL[made.preset.value])); // after the control's own: its usual n and P
    const out = lab.element("div"), pictures = lab.element("div", { class: "columns" }), trained = lab.element("section");
    root.append(out, trained);
    if (lab.room.usable.length) {
      trained.append(lab.element("h2", { text: "The layers of a trained model" }));
      lab.controls(trained, [
        { name: "run", label: "Run", kind: "run", options: [["", "none"], ...lab.room.usable], value: "" },
        { name: "text", label: "What it reads", kind: "text", value: "the list is empty.", wide: true },
      ]);
    }
    const model = lab.element("div");
    trained.append(model);
    let asked = "", shown = null, places = [];

    const nearest = layer => shown.facts.frames.reduce((best, one) => (Math.abs(one - layer) < Math.abs(best - layer) ? one : best));
    const still = { mode: "immediate", transition: { duration: 0 }, frame: { duration: 0, redraw: true } };

    async function at(layer) {
      await Promise.all(places.map(place => Plotly.animate(place, [String(nearest(layer))], still)));
    }

    async function play() {
      if (!shown) return;
      const names = shown.facts.frames.map(String), moving = { ...still, frame: { duration: 60, redraw: true } };
      await Promise.all(places.map(place => Plotly.animate(place, names, moving).catch(() => {}))); // stopped by another move
      await lab.set({ layer: names.at(-1) });
    }

    async function points() {
      const { preset, n, d, p, q, depth, seed, beside, layer } = lab.state;
      const params = { preset, n, d, p, q, depth, seed, beside }, key = JSON.stringify(params);
      made.layer.max = depth;
      if (key !== asked) { // another layer is a matter of the page alone
        asked = "";
        shown = await lab.ask("path", params, { into: out });
        if (!shown) return;
        asked = key;
        out.append(pictures);
        pictures.replaceChildren();
        places = [];
        for (const name of shown.facts.systems) {
          delete shown.figures[name].plot.layout.sliders; // the room has its own, which is part of the address
          places.push(await lab.figure(pictures, shown, name, { heading: name === "lecture" ? "The lecture's" : "Geshkovski et al. 2023" }));
        }
        await lab.figure(out, shown, "curves", { heading: "Over depth" });
      }
      await at(Number(layer));
    }

    async function layers() {
      const { run, text } = lab.state;
      if (!run) return model.replaceChildren();
      const found = await lab.ask("model", { run, text }, { into: model });
      if (found) await lab.figure(model, found, "model");
    }

    return () => Promise.all([points(), layers()]);
  },
};
