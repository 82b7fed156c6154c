// Translations, best first, the alignment of one of them or of the user's own translation, and the beam search as a tree.

import { Tree } from "../beam/tree.js";

const controls = lab => [
  { name: "run", label: "Run", kind: "run" },
  { name: "text", label: "Text", kind: "area", value: lab.example() },
  { name: "beam", label: "Beam width", kind: "number", min: 1, max: lab.room.facts.most_beam, step: 1, value: 5 },
  { name: "penalty", label: "Length penalty", kind: "range", min: 0, max: 2, step: 0.1, value: 0.6 },
];
const ALIGNMENT = [
  { name: "pick", label: "Translation", kind: "select", options: [], value: "0" },
  { name: "target", label: "Or your own translation", kind: "text", value: "", wide: true },
  { name: "map", label: "Attention map", kind: "select", options: [], value: "" },
];

export function mount(root, lab) {
  const { element } = lab;
  lab.controls(root, controls(lab));
  const best = element("div"), below = element("section", {}, element("h2", { text: "Which source tokens each target token attends to" }));
  const made = lab.controls(below, ALIGNMENT);
  const cells = element("div"), aligned = lab.results(cells);
  below.append(aligned);
  lab.style("/page/beam/tree.css");
  const search = element("section", { "data-search": true }, element("h2", { text: "The beam search as a tree" }));
  const grown = element("div"), greedy = element("p", { text: "A beam of 1 is greedy decoding, which keeps a single hypothesis. Choose a wider beam to see a tree." });
  const tree = new Tree(grown, () => {
    lab.set({ branches: tree.branches }, { push: true, render: false });
    before.branches = lab.state.branches;
  });
  search.append(greedy, grown);
  const out = lab.results(best, below, search);
  root.append(out);
  let shown = ""; // what the tree on the page belongs to
  let before = null, latest = { key: "", result: null }; // another alignment needs no new translations

  // The chosen translation and map belong to a run and a text, the open branches to a search.
  function forget() {
    lab.follow(before?.run);
    const { run, text, beam, penalty, pick, map, branches } = lab.state;
    if (before && (before.run !== run || before.text !== text) && before.pick === pick && before.map === map) {
      lab.set({ pick: "0", map: "", target: "" }, { render: false });
    }
    const other = before && [run, text, beam, penalty].some((value, n) => value !== before.search[n]);
    if (other && branches && before.branches === branches) lab.set({ branches: null }, { render: false });
    before = { run, text, search: [run, text, beam, penalty], pick: lab.state.pick, map: lab.state.map, branches: lab.state.branches };
  }

  async function align(translations) {
    const { run, text, target: own, map } = lab.state;
    lab.offer(made.pick, translations.map((one, n) => ({ value: n, label: `${n + 1}. ${one.text}` })), lab.state.pick);
    const target = own || (translations[Number(lab.state.pick)] ?? translations[0]).text;
    const result = await lab.ask("alignment", { run, text, target, map }, { into: aligned });
    lab.show(made.map, result && result.facts.maps.length > 1);
    if (!result) return;
    lab.offer(made.map, result.facts.maps, result.facts.map);
    cells.style.maxWidth = `${result.figures.alignment.plot.layout.width}px`; // cells stay square
    await lab.figure(cells, result, "alignment");
  }

  async function grow(params, key) {
    const one = Number(params.beam) === 1;
    greedy.hidden = !one;
    grown.hidden = one;
    if (shown === key) tree.restore(lab.state.branches);
    if (one || shown === key) return;
    shown = "";
    const result = await lab.ask("beam_tree", params, { into: grown });
    if (!result) return;
    tree.show(result.facts, lab.state.branches);
    lab.tools(grown, result.table, "beam_tree", result.python);
    shown = key;
  }

  return async () => {
    forget();
    if (!lab.state.run) return;
    if (!lab.state.text.trim()) {
      latest = { key: "", result: null };
      lab.nothing(out, "Type a sentence to translate.");
      return;
    }
    const { run, text, beam, penalty } = lab.state, key = JSON.stringify([run, text, beam, penalty]);
    if (latest.key !== key || !latest.result) latest = { key, result: await lab.ask("translations", { run, text, beam, penalty }, { into: out }) };
    const { result } = latest;
    if (!result) return;
    lab.plainTable(best, result.table, "translations", { heading: "Translations, best first", code: result.python });
    await Promise.all([align(result.facts.translations), grow({ run, text, beam, penalty }, key)]);
  };
}
