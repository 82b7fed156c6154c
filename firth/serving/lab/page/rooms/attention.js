// Attention: thumbnails of every layer and head first, then the chosen one in full, then what becomes of it by layer.

const controls = lab => [
  { name: "run", label: "Run", kind: "run" },
  { name: "text", label: "Text", kind: "area", value: lab.example() },
  { name: "target", label: "Translation (empty: its own)", kind: "text", value: "", wide: true },
  { name: "context", label: "Context, for a run that finds answers", kind: "text", value: "", wide: true },
  { name: "part", label: "Part", kind: "select", options: [], value: "" },
  { name: "layer", label: "Layer", kind: "select", options: [], value: "0" },
  { name: "head", label: "Head", kind: "select", options: [], value: "0" },
  { name: "words", label: "Merge pieces into words", kind: "flag", value: "false" },
];
const READ = ["run", "text", "target", "context", "part", "words"]; // what another reading or part is needed for

const about = (lab, run) => lab.info.runs.find(one => one.name === run)?.about ?? "";

// What a choice does not use is not to be seen; a layer or head that the new run does not have becomes the first.
function settle(lab, made, { parts, part, layers, heads }) {
  const chosen = { part, layer: layers.includes(Number(lab.state.layer)) ? lab.state.layer : layers[0] };
  const known = lab.state.head === "mean" || Number(lab.state.head) < heads;
  lab.set({ ...chosen, head: known ? lab.state.head : "0" }, { render: false });
  lab.offer(made.part, parts.map(name => [name, name]), lab.state.part);
  lab.offer(made.layer, layers.map(layer => [layer, layer]), lab.state.layer);
  lab.offer(made.head, [...Array.from({ length: heads }, (_, head) => [head, head]), ["mean", "mean of all"]], lab.state.head);
  made.part.closest("label").hidden = parts.length < 2;
}

async function draw(lab, { lastChild: into }, shown, names) {
  for (const [name, heading] of names) {
    let place = into.querySelector(`:scope > [data-place="${name}"]`);
    if (!place) {
      place = lab.element("div", { "data-place": name }, lab.element("h2", { text: heading }), lab.element("div"));
      into.append(place);
    }
    place.hidden = !shown.figures[name];
    if (place.hidden) continue;
    place.lastChild.style.maxWidth = `${shown.figures[name].plot.layout.width}px`; // cells stay square
    await lab.figure(place.lastChild, shown, name);
  }
}

// A click on a thumbnail opens it; the two lists do the same from the keyboard.
function openOnClick(lab, into, { layers, heads, cells: [tall, wide] }) {
  const place = into.querySelector("[data-figure=overview] .plot");
  place.removeAllListeners?.("plotly_click");
  place.on("plotly_click", ({ points: [{ x, y }] }) => lab.set({
    layer: layers[Math.floor(y / ((tall + 1) / layers.length))], head: Math.floor(x / ((wide + 1) / heads)),
  }, { push: true }));
}

export default {
  name: "attention",
  title: "Attention",
  mount(root, lab) {
    const made = lab.controls(root, controls(lab));
    const [all, one, through] = ["all", "one", "through"].map(name => lab.element("div", { "data-look": name }, lab.element("div", { class: "columns" })));
    const without = lab.element("p", { "data-without": true, hidden: true, text: "Lines are drawn between at most 128 tokens: merge pieces into words, or shorten the text." });
    one.prepend(without);
    root.append(all, one, through);
    let before = {}, drawn = null;

    async function overview() {
      const shown = await lab.ask("overview", lab.state, { into: all });
      drawn = shown ? shown.facts : null;
      for (const part of [one, through]) part.hidden = !shown;
      all.querySelectorAll("[data-place]").forEach(place => { place.hidden = !shown; });
      if (!shown) return;
      settle(lab, made, drawn);
      await draw(lab, all, shown, [["overview", "Every layer and head"]]);
      openOnClick(lab, all, drawn);
    }

    return async () => {
      const { run } = lab.state;
      if (!run) return;
      lab.follow(before.run);
      made.target.closest("label").hidden = !about(lab, run).startsWith("seq2seq");
      made.context.closest("label").hidden = !about(lab, run).endsWith("answer");
      const kept = ["part", "target", "context"].every(name => before[name] === lab.state[name]);
      if (before.run !== undefined && before.run !== run && kept) lab.set({ part: "", target: "", context: "" }, { render: false });
      const anew = !drawn || READ.some(name => lab.state[name] !== before[name]);
      before = { ...lab.state };
      if (anew) await overview();
      before = { ...lab.state };
      if (!drawn) return;
      const head = await lab.ask("head", lab.state, { into: one });
      if (head) {
        await draw(lab, one, head, [["map", "One head in full"], ["lines", "Lines between tokens"]]);
        without.hidden = Boolean(head.figures.lines);
      }
      if (!anew) return;
      const layers = await lab.ask("layers", lab.state, { into: through });
      if (layers) await draw(lab, through, layers, [["entropy", "How widely each head looks"], ["rollout", "Through all layers"]]);
    };
  },
};
