// Attention: thumbnails of every layer and head, then the chosen head in full, then all layers together.

const controls = lab => [
  { name: "run", label: "Run", kind: "run" },
  { name: "text", label: "Text", kind: "area", value: lab.example() },
  { name: "target", label: "Translation (default: the model's own)", kind: "text", value: "", wide: true },
  { name: "context", label: "Text that contains the answer", kind: "text", value: "", wide: true },
  { name: "part", label: "Kind of attention", kind: "select", options: [], value: "" },
  { name: "layer", label: "Layer", kind: "select", options: [], value: "0" },
  { name: "head", label: "Head", kind: "select", options: [], value: "0" },
  { name: "words", label: "Merge subwords into words", kind: "flag", value: "false" },
];
const INPUTS = ["run", "text", "target", "context", "part", "words"]; // a change of these needs a new overview

const has = (choices, value) => choices.some(one => one.value === value);

// Offers the parts, layers and heads of the run; a layer or head that the run does not have becomes the first.
function settle(lab, made, { choices, part }) {
  const { layer, head } = lab.state;
  lab.set({
    part,
    layer: has(choices.layer, layer) ? layer : choices.layer[0].value,
    head: has(choices.head, head) ? head : choices.head[0].value,
  }, { render: false });
  for (const name of ["part", "layer", "head"]) lab.offer(made[name], choices[name], lab.state[name]);
  lab.show(made.part, choices.part.length > 1);
}

async function draw(lab, { lastChild: into }, result, names) {
  for (const name of names) {
    let place = into.querySelector(`:scope > [data-place="${name}"]`);
    if (!place) {
      place = lab.element("div", { "data-place": name }, lab.element("h2", { text: result.headings[name] }), lab.element("div"));
      into.append(place);
    }
    place.hidden = !result.figures[name];
    if (place.hidden) continue;
    place.lastChild.style.maxWidth = `${result.figures[name].plot.layout.width}px`; // cells stay square
    await lab.figure(place.lastChild, result, name, { heading: null });
  }
}

// A click on a thumbnail opens it; the lists of layers and heads do the same from the keyboard.
function openOnClick(lab, into, { layers, heads, cells: [tall, wide] }) {
  const place = into.querySelector("[data-figure=overview] .plot");
  place.removeAllListeners?.("plotly_click");
  place.on("plotly_click", ({ points: [{ x, y }] }) => lab.set({
    layer: layers[Math.floor(y / ((tall + 1) / layers.length))], head: Math.floor(x / ((wide + 1) / heads)),
  }, { push: true }));
}

// A frame around the thumbnail of the chosen head, or around a layer's if the mean of its heads is shown.
function frame(lab, into, { layers, heads, cells: [tall, wide] }) {
  const place = into.querySelector("[data-figure=overview] .plot"), down = (tall + 1) / layers.length, across = (wide + 1) / heads;
  const row = layers.findIndex(one => one === Number(lab.state.layer)), head = Number(lab.state.head), one = Number.isInteger(head);
  const x0 = one ? head * across : 0, x1 = one ? x0 + across - 1 : wide;
  const line = { color: getComputedStyle(document.documentElement).getPropertyValue("--mark").trim(), width: 3 };
  return Plotly.relayout(place, { shapes: [{ type: "rect", line, x0: x0 - 0.5, x1: x1 - 0.5, y0: row * down - 0.5, y1: (row + 1) * down - 1.5 }] });
}

export function mount(root, lab) {
  const made = lab.controls(root, controls(lab));
  const [all, one, through] = ["all", "one", "through"].map(name => lab.element("div", { "data-look": name }, lab.element("div", { class: "columns" })));
  const noLines = lab.element("p", { "data-no-lines": true, hidden: true });
  one.prepend(noLines);
  root.append(all, one, through);
  let before = {}, drawn = null;

  async function overview() {
    const result = await lab.ask("overview", lab.state, { into: all });
    drawn = result ? result.facts : null;
    for (const part of [one, through]) part.hidden = !result;
    all.querySelectorAll("[data-place]").forEach(place => { place.hidden = !result; });
    if (!result) return;
    settle(lab, made, drawn);
    lab.notice(drawn.notice);
    await draw(lab, all, result, ["overview"]);
    openOnClick(lab, all, drawn);
  }

  return async () => {
    const { run } = lab.state;
    if (!run) return;
    lab.follow(before.run);
    const inputs = new Set(lab.run().inputs);
    for (const name of ["target", "context"]) lab.show(made[name], inputs.has(name));
    const kept = ["part", "target", "context"].every(name => before[name] === lab.state[name]);
    if (before.run !== undefined && before.run !== run && kept) lab.set({ part: "", target: "", context: "" }, { render: false });
    const changed = !drawn || INPUTS.some(name => lab.state[name] !== before[name]);
    before = { ...lab.state };
    if (changed) await overview();
    before = { ...lab.state };
    if (!drawn) return;
    await frame(lab, all, drawn);
    const head = await lab.ask("head", lab.state, { into: one });
    if (head) {
      await draw(lab, one, head, ["map", "lines"]);
      noLines.textContent = head.facts.no_lines ?? "";
      noLines.hidden = !head.facts.no_lines;
    }
    if (!changed) return;
    const layers = await lab.ask("layers", lab.state, { into: through });
    if (layers) await draw(lab, through, layers, ["entropy", "rollout"]);
  };
}
