// Translations, best first, and the alignment of one of them, or of the reader's own.

const controls = lab => [
  { name: "run", label: "Run", kind: "run" },
  { name: "text", label: "Text", kind: "area", value: lab.example() },
  { name: "beam", label: "Beam", kind: "number", min: 1, max: 32, step: 1, value: 5 },
  { name: "penalty", label: "Length penalty", kind: "range", min: 0, max: 2, step: 0.1, value: 0.6 },
];
const CHOICES = [
  { name: "pick", label: "Look at", kind: "select", options: [], value: "0" },
  { name: "target", label: "Or at a translation of your own", kind: "text", value: "", wide: true },
  { name: "map", label: "Attention of", kind: "select", options: [], value: "" },
];

export default {
  name: "translate",
  title: "Translate",
  mount(root, lab) {
    const { element } = lab;
    lab.controls(root, controls(lab));
    const out = element("div"), below = element("section", { hidden: true }, element("h2", { text: "Which words it was made from" }));
    const made = lab.controls(below, CHOICES);
    const aligned = element("div"), cells = element("div");
    aligned.append(cells);
    below.append(aligned);
    root.append(out, below);
    let before = null, known = { of: "", shown: null }; // the newest translations, and what of: another pick needs no new ones

    // The choice of a translation and of a map belongs to a run and a text.
    function forget() {
      lab.follow(before?.run);
      const { run, text, pick, map } = lab.state;
      if (before && (before.run !== run || before.text !== text) && before.pick === pick && before.map === map) {
        lab.set({ pick: "0", map: "", target: "" }, { render: false });
      }
      before = { run, text, pick: lab.state.pick, map: lab.state.map };
    }

    async function align(found) {
      const { run, text, target: own, map } = lab.state;
      lab.offer(made.pick, found.map((one, n) => [n, `${n + 1}. ${one.text}`]), lab.state.pick);
      const target = own || (found[Number(lab.state.pick)] ?? found[0]).text;
      const shown = await lab.ask("alignment", { run, text, target, map }, { into: aligned });
      cells.hidden = !shown;
      made.map.closest("label").hidden = !shown || shown.facts.maps.length < 2;
      if (!shown) return;
      lab.offer(made.map, shown.facts.maps.map(name => [name, name]), shown.facts.map);
      cells.style.maxWidth = `${shown.figures.alignment.plot.layout.width}px`; // cells stay square
      await lab.figure(cells, shown, "alignment");
    }

    return async () => {
      forget();
      if (!lab.state.run) return;
      if (!lab.state.text) {
        out.replaceChildren(element("p", { "data-hint": true, text: "Type a sentence to translate." }));
        below.hidden = true;
        return;
      }
      out.querySelector("[data-hint]")?.remove();
      const { run, text, beam, penalty } = lab.state, of = JSON.stringify([run, text, beam, penalty]);
      if (known.of !== of || !known.shown) known = { of, shown: await lab.ask("translations", { run, text, beam, penalty }, { into: out }) };
      const { shown } = known;
      below.hidden = !shown;
      out.querySelector(":scope > [data-plain]")?.remove();
      if (!shown) return;
      lab.plainTable(out, shown.table, "translations", { heading: "Translations, best first", code: shown.python });
      await align(shown.facts.found);
    };
  },
};
