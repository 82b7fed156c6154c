// Attention step by step: one picture a step, under its equation.

const OF = [
  ["scores", "112 and 96 over √64"],
  ["roles", "a name and its role"],
  ["sentence", "a sentence"],
  ["table", "a table of keys and values"],
];
const SCORES = ["scaled_dot", "dot", "gaussian", "bilinear", "additive"];
const MASKS = ["full", "causal", "strictly_causal", "all_but_self", "window", "prefix", "lengths", "documents"];
const POSITIONS = ["none", "learned", "sinusoidal", "rotary", "shaw", "t5", "alibi"];
const LIMITED = ["window", "prefix", "lengths", "documents"]; // the masks that take a number
const TITLES = { scores: "Scores", scaled: "Scaled", masked: "Masked", weights: "Softmax", sums: "Weighted sum" };
const STEPS = Object.keys(TITLES);
const TABLE = "Mina → director\nTom → editor\nRavi → camera\nLena → editor";

const choices = (lab, vectors) => [
  { name: "of", label: "Look at", kind: "select", options: OF, value: "scores" },
  { name: "text", label: "Sentence", kind: "text", value: "the FBI is chasing a criminal", wide: true },
  { name: "table", label: "Keys and values, a row a line", kind: "area", value: TABLE },
  { name: "query", label: "Query", kind: "text", value: "Ravi" },
  { name: "score", label: "Score", kind: "select", options: SCORES, value: "scaled_dot" },
  { name: "mask", label: "Mask", kind: "select", options: MASKS, value: "full" },
  { name: "limit", label: "Keys it lets through", kind: "number", min: 1, step: 1, value: 2 },
  { name: "position", label: "Position", kind: "select", options: POSITIONS, value: "none" },
  { name: "scale", label: "Scale (empty: the score's own)", kind: "number", value: "" },
  { name: "heads", label: "Heads", kind: "number", min: 1, step: 1, value: 1 },
  { name: "head", label: "Head shown", kind: "number", min: 0, step: 1, value: 0 },
  { name: "width", label: "Numbers of a vector", kind: "number", min: 1, step: 1, value: 8 },
  { name: "vectors", label: "Vectors", kind: "select", options: [["", "drawn for each word"], ...vectors], value: "" },
  { name: "seed", label: "Seed", kind: "number", min: 0, step: 1, value: 0 },
  { name: "shown", label: "Steps shown", kind: "range", min: 1, max: STEPS.length, step: 1, value: STEPS.length },
  { name: "first", label: "First step", kind: "button", press: () => lab.set({ shown: 1 }, { push: true }) },
  { name: "next", label: "Next step", kind: "button", main: true, press: () => lab.set({ shown: Math.min(STEPS.length, Number(lab.state.shown) + 1) }, { push: true }) },
];

// Only what the choice made uses is to be seen.
function uncover(lab, made) {
  const { of, mask, heads } = lab.state;
  const seen = {
    text: of === "sentence", table: of === "table", query: of === "table", limit: LIMITED.includes(mask), head: Number(heads) > 1,
    width: of !== "scores", vectors: ["sentence", "table"].includes(of) && lab.info.vectors.length,
  };
  for (const [name, needed] of Object.entries(seen)) made[name].closest("label").hidden = !needed;
}

export default {
  name: "playground",
  title: "Playground",
  mount(root, lab) {
    const { element } = lab;
    const made = lab.controls(root, choices(lab, lab.info.vectors));
    const out = element("div"), grid = element("div", { class: "columns" });
    const places = Object.fromEntries(STEPS.map((name, n) => {
      const equation = element("p", { "data-equation": name });
      const cells = element("div");
      const place = element("div", { "data-step": name, hidden: true }, element("h2", { text: `${n + 1}. ${TITLES[name]}` }), equation, cells);
      grid.append(place);
      return [name, { place, equation, cells }];
    }));
    out.append(grid);
    root.append(out);
    return async () => {
      uncover(lab, made);
      const { shown: count, ...asked } = lab.state;
      const shown = await lab.ask("steps", asked, { into: out });
      for (const [n, name] of STEPS.entries()) {
        const { place, equation, cells } = places[name];
        place.hidden = !shown || n >= Number(count);
        if (place.hidden) continue;
        equation.textContent = shown.facts.steps[n].equation;
        cells.style.maxWidth = `${shown.figures[name].plot.layout.width}px`; // cells stay square
        await lab.figure(cells, shown, name);
      }
    };
  },
};
