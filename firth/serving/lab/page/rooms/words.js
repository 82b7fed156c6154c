// Word vectors, and the contexts of words in a text.

import { showNeighbours } from "../words/neighbours.js";
import { writeWords } from "../words/labels.js";

export function mount(root, lab) {
  const none = !lab.room.usable.length;
  const first = lab.choices("look").find(view => !none || view.without_vectors);
  const made = lab.controls(root, [
    { name: "look", label: "View", kind: "choice", value: first.value },
    { name: "vectors", label: "Word vectors", kind: "vectors" },
    { name: "word", label: "Word", kind: "text", value: "", placeholder: "one word" },
    { name: "sum", label: "Sum of words", kind: "text", value: "", placeholder: "king - man + woman", wide: true },
    { name: "words", label: "Words", kind: "text", value: "", wide: true },
    { name: "drawn", label: "Words to draw (default: the first in the file)", kind: "text", value: "", wide: true },
    { name: "corpus", label: "Text", kind: "choice" },
    { name: "method", label: "Method", kind: "choice" },
    { name: "projection", label: "Projection", kind: "choice" },
    { name: "dimensions", label: "Dimensions", kind: "choice" },
    { name: "top", label: "Words shown", kind: "number", min: 1, max: 100, step: 1, value: 10 },
    { name: "most", label: "Number of words", kind: "number", min: 3, max: lab.room.facts.most_words, step: 1, value: 100 },
    { name: "find", label: "Find a word", kind: "text", value: "", placeholder: "part of a word" },
    { name: "window", label: "Words on each side", kind: "number", min: 1, max: 50, step: 1, value: 5 },
    { name: "lower", label: "Ignore case", kind: "flag", value: "true" },
  ]);
  const out = lab.element("div"), summary = lab.element("p", { "data-summary": true });
  root.append(out);

  // If the user entered nothing, the lab chose words itself; the address then names them.
  const fill = (name, chosen) => lab.set({ [name]: chosen }, { render: false });

  let latest = { key: "", result: null }; // the latest map: finding a word in it needs no request
  async function drawnMap(params) {
    const key = JSON.stringify(params);
    if (key !== latest.key) {
      const result = await lab.ask("map", params, { into: out });
      latest = { key: result ? key : "", result };
    }
    return latest.result;
  }

  const views = {
    async neighbours({ vectors, word, top }) {
      const result = await lab.ask("neighbours", { vectors, word, top }, { into: out });
      if (!result) return;
      fill("word", result.facts.word);
      out.replaceChildren();
      const place = await lab.figure(out, result, "neighbours");
      // A click on a bar shows the neighbours of that word.
      place.removeAllListeners?.("plotly_click");
      place.on("plotly_click", event => lab.set({ word: event.points[0].customdata }, { push: true }));
    },
    async analogy({ vectors, sum, method, top }) {
      const result = await lab.ask("analogy", { vectors, sum, method, top }, { into: out });
      if (!result) return;
      out.replaceChildren(summary);
      const { plus, minus, first: nearest } = result.facts;
      fill("sum", result.facts.sum);
      summary.textContent = `${plus.join(" + ")}${minus.map(word => ` − ${word}`).join("")} ≈ ${nearest ?? "no word"}`;
      await lab.figure(out, result, "analogy");
    },
    async similarity({ vectors, words }) {
      const result = await lab.ask("similarity", { vectors, words }, { into: out });
      if (!result) return;
      fill("words", result.facts.words.join(" "));
      out.replaceChildren();
      lab.plainTable(out, result.table, "similarity", { code: result.python });
    },
    async map({ vectors, drawn, projection, dimensions, most, find }) {
      const result = await drawnMap({ vectors, words: drawn, projection, dimensions, top: most });
      if (!result) return;
      out.replaceChildren();
      const place = await lab.figure(out, result, "map");
      place.removeAllListeners?.("plotly_click");
      const choose = word => lab.set({ look: "neighbours", word }, { push: true });
      place.on("plotly_click", ({ points: [{ customdata }] }) => choose(customdata));
      showNeighbours(place, result.facts.neighbours, choose);
      await writeWords(place, find);
    },
    async contexts({ corpus, words, window, lower }) {
      const result = await lab.ask("contexts", { corpus, words, window, lower }, { into: out });
      if (!result) return;
      fill("words", result.facts.words.map(one => one.word).join(" "));
      out.replaceChildren(summary);
      const counts = result.facts.words.map(one => `${one.word}: ${one.count.toLocaleString("en")} occurrences`).join(", ");
      summary.textContent = counts + (result.facts.shared.length ? `. Shared context words: ${result.facts.shared.join(", ")}` : "");
      const columns = lab.element("div", { class: "columns" });
      out.append(columns);
      for (const name of Object.keys(result.figures)) await lab.figure(columns, result, name, { heading: name });
      lab.plainTable(out, result.table, "contexts", { heading: "Occurrences in the text", code: result.python }).classList.add("kwic");
    },
  };

  return async () => {
    const view = lab.chosen("look");
    lab.showOnly(made, view.controls, ["look"]);
    if (none && !view.without_vectors) return out.replaceChildren();
    await views[view.value](lab.state);
  };
}
