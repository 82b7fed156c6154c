// Attention step by step: one figure per step, under its equation.

const WEIGHTS = "weights"; // the step that is compared with and without scaling

const controls = lab => {
  const { usual, text, table, query } = lab.room.facts, steps = lab.choices("steps").length;
  return [
    { name: "of", label: "Input", kind: "choice" },
    { name: "text", label: "Sentence", kind: "text", value: text, wide: true },
    { name: "table", label: "Keys and values, one row per line", kind: "area", value: table },
    { name: "query", label: "Query", kind: "text", value: query },
    { name: "score", label: "Attention score", kind: "choice", value: usual.score },
    { name: "mask", label: "Mask", kind: "choice", value: usual.mask },
    { name: "limit", label: "Mask size (keys)", kind: "number", min: 1, step: 1, value: usual.limit },
    { name: "position", label: "Position encoding", kind: "choice", value: usual.position },
    { name: "scale", label: "Scale (default: the score's own)", kind: "number", value: "" },
    { name: "heads", label: "Heads", kind: "number", min: 1, step: 1, value: usual.heads },
    { name: "head", label: "Head shown", kind: "number", min: 1, step: 1, value: 1 },
    { name: "width", label: "Dimension of the vectors", kind: "number", min: 1, step: 1, value: usual.width },
    { name: "vectors", label: "Word vectors", kind: "choice", value: "" },
    { name: "seed", label: "Seed", kind: "number", min: 0, step: 1, value: usual.seed },
    { name: "projected", label: "Project the words to q, k and v", kind: "flag", value: "false" },
    { name: "matrices", label: "Your own matrices, one per line: X, W_q, W_k, W_v, W_o, Q or P (W_q = 1 0; 0 1)", kind: "area", value: "" },
    { name: "inputs", label: "Show the vectors", kind: "flag", value: "false" },
    { name: "beside", label: "Compare with the unscaled softmax", kind: "flag", value: "false" },
    { name: "shown", label: "Steps shown", kind: "range", min: 1, max: steps, step: 1, value: 1 },
    { name: "first", label: "First step", kind: "button", press: () => lab.set({ shown: 1 }, { push: true }) },
    { name: "next", label: "Next step", kind: "button", main: true, press: () => lab.set({ shown: Math.min(steps, Number(lab.state.shown) + 1) }, { push: true }) },
  ];
};

// Hides the controls that the chosen input, mask and number of heads do not use.
function showUsed(lab, made) {
  const used = new Set(lab.chosen("of").controls);
  for (const name of ["text", "table", "query", "width", "projected", "matrices"]) lab.show(made[name], used.has(name));
  lab.show(made.vectors, used.has("vectors") && lab.info.vectors.length);
  lab.show(made.limit, lab.chosen("mask").limited);
  lab.show(made.head, Number(lab.state.heads) > 1);
}

export function mount(root, lab) {
  const { element } = lab;
  const made = lab.controls(root, controls(lab), { plays: true });
  const vectors = element("section", { "data-vectors": true, hidden: true }, element("h2", { text: "The vectors" }));
  const out = element("div"), grid = element("div", { class: "columns" });
  const places = lab.choices("steps").map(({ value, label }, n) => {
    const equation = element("p", { "data-equation": value });
    const cells = element("div");
    const place = element("div", { "data-step": value, hidden: true }, element("h2", { text: `${n + 1}. ${label}` }), equation, cells);
    grid.append(place);
    return { place, equation, cells };
  });
  const caption = element("p", { "data-caption": "steps" });
  const legend = lab.legend([["--positive", "above zero"], ["--negative", "below zero"]], "The deeper the colour, the farther from zero; −∞ is hidden by the mask.");
  const other = element("section", { "data-unscaled": true, hidden: true }, element("h2", { text: "Softmax of the unscaled scores" }));
  out.append(vectors, grid, legend, caption, other);
  root.append(out);

  // What the steps begin with: q, k and v, and how they come from the words.
  async function begin(result, wanted) {
    vectors.hidden = !wanted;
    if (!wanted) return;
    const names = result.facts.vectors, places = names.map(name => element("div", { "data-vector": name }));
    vectors.replaceChildren(vectors.firstChild, element("div", { class: "columns" }, ...places));
    for (const [n, name] of names.entries()) {
      places[n].style.maxWidth = `${result.figures[name].plot.layout.width}px`; // cells stay square
      places[n].append(element("h3", { text: name }));
      await lab.figure(places[n], result, name);
    }
  }

  // The same weights with a scale of 1, to compare.
  async function unscaled(settings, wanted) {
    const result = wanted ? await lab.ask("steps", { ...settings, scale: "1" }, { into: other }) : null;
    other.hidden = !result;
    if (!result) return;
    other.style.maxWidth = `${result.figures[WEIGHTS].plot.layout.width}px`; // cells stay square
    await lab.figure(other, result, WEIGHTS);
  }

  return async () => {
    showUsed(lab, made);
    const { shown: count, beside, inputs, ...settings } = lab.state;
    const result = await lab.ask("steps", settings, { into: out });
    await begin(result, result && inputs === "true");
    caption.textContent = result?.facts.caption ?? "";
    const steps = result?.facts.steps ?? [];
    made.next.disabled = Number(count) >= (steps.length || places.length);
    made.first.disabled = Number(count) <= 1;
    for (const [n, { place, equation, cells }] of places.entries()) {
      const step = steps[n];
      place.hidden = !step || n >= Number(count);
      if (place.hidden) continue;
      equation.textContent = step.equation;
      cells.style.maxWidth = `${result.figures[step.name].plot.layout.width}px`; // cells stay square
      await lab.figure(cells, result, step.name);
    }
    await unscaled(settings, result && beside === "true");
  };
}
