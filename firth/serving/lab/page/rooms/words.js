const LOOKS = [["neighbours", "neighbours"], ["analogy", "sum of words"], ["similarity", "similarity"], ["map", "map"], ["contexts", "contexts"]];

// The controls that belong to each look; the others are hidden, and keep what they hold.
const USED = {
  neighbours: ["vectors", "word", "top"],
  analogy: ["vectors", "sum", "method", "top"],
  similarity: ["vectors", "words"],
  map: ["vectors", "drawn", "projection", "dimensions", "most", "find"],
  contexts: ["corpus", "words", "window", "lower"],
};

export default {
  name: "words",
  title: "Words",
  mount(root, lab) {
    const none = !lab.room.usable.length;
    const made = lab.controls(root, [
      { name: "look", label: "Look at", kind: "select", options: LOOKS, value: none ? "contexts" : "neighbours" },
      { name: "vectors", label: "Vectors", kind: "vectors" },
      { name: "word", label: "Word", kind: "text", value: "", placeholder: "one word" },
      { name: "sum", label: "Sum", kind: "text", value: "", placeholder: "king - man + woman", wide: true },
      { name: "words", label: "Words", kind: "text", value: "", wide: true },
      { name: "drawn", label: "Words to draw (the first, if none)", kind: "text", value: "", wide: true },
      { name: "corpus", label: "Text", kind: "select", options: lab.info.corpora },
      { name: "method", label: "Method", kind: "select", options: [["add", "3CosAdd"], ["mul", "3CosMul"]] },
      { name: "projection", label: "Projection", kind: "select", options: [["pca", "PCA"], ["tsne", "t-SNE"]] },
      { name: "dimensions", label: "Dimensions", kind: "select", options: ["2", "3"] },
      { name: "top", label: "How many", kind: "number", min: 1, max: 100, step: 1, value: 10 },
      { name: "most", label: "How many of the first", kind: "number", min: 3, max: 2000, step: 1, value: 200 },
      { name: "find", label: "Find", kind: "text", value: "", placeholder: "part of a word" },
      { name: "window", label: "Words on each side", kind: "number", min: 1, max: 50, step: 1, value: 5 },
      { name: "lower", label: "in lower case", kind: "flag", value: "true" },
    ]);
    const out = lab.element("div"), told = lab.element("p", { "data-told": true });
    root.append(out);

    // Where nothing was asked for, the lab chose something; the address says what.
    const fill = (name, chosen) => lab.set({ [name]: chosen }, { render: false });

    let known = { key: "", shown: null }; // the last map: to find a word in it, the server need not draw it again
    async function mapped(params) {
      const key = JSON.stringify(params);
      if (key !== known.key) {
        const shown = await lab.ask("map", params, { into: out });
        known = { key: shown ? key : "", shown };
      }
      return known.shown;
    }

    async function point(place, find) {
      const [{ customdata, hovertext, text }] = place.data, part = find.trim().toLowerCase();
      if (!part) return;
      const hits = customdata.map(word => word.toLowerCase().includes(part));
      await Plotly.restyle(place, {
        text: [hovertext.map((label, n) => (hits[n] ? label : hits.some(Boolean) ? "" : text[n]))],
        "marker.size": [hits.map(hit => (hit ? 13 : 6))],
        "marker.color": [hits.map(hit => (hit ? "#D55E00" : "#0072B2"))],
      }, [0]);
    }

    const looks = {
      async neighbours({ vectors, word: asked, top }) {
        const shown = await lab.ask("neighbours", { vectors, word: asked, top }, { into: out });
        if (!shown) return;
        const { word } = shown.facts;
        fill("word", word);
        out.replaceChildren();
        const place = await lab.figure(out, shown, "neighbours", { heading: `Nearest to ${word}` });
        // A click on a bar goes on to that word.
        place.removeAllListeners?.("plotly_click");
        place.on("plotly_click", event => lab.set({ word: event.points[0].customdata }, { push: true }));
      },
      async analogy({ vectors, sum, method, top }) {
        const shown = await lab.ask("analogy", { vectors, sum, method, top }, { into: out });
        if (!shown) return;
        out.replaceChildren(told);
        const { plus, minus, first } = shown.facts;
        fill("sum", shown.facts.sum);
        told.textContent = `${plus.join(" + ")}${minus.map(word => ` − ${word}`).join("")} ≈ ${first ?? "nothing"}`;
        await lab.figure(out, shown, "analogy");
      },
      async similarity({ vectors, words }) {
        const shown = await lab.ask("similarity", { vectors, words }, { into: out });
        if (!shown) return;
        fill("words", shown.facts.words.join(" "));
        out.replaceChildren();
        lab.plainTable(out, shown.table, "similarity", { code: shown.python });
      },
      async map({ vectors, drawn, projection, dimensions, most, find }) {
        const shown = await mapped({ vectors, words: drawn, projection, dimensions, top: most });
        if (!shown) return;
        out.replaceChildren();
        await point(await lab.figure(out, shown, "map"), find);
      },
      async contexts({ corpus, words, window, lower }) {
        const shown = await lab.ask("contexts", { corpus, words, window, lower }, { into: out });
        if (!shown) return;
        fill("words", shown.facts.words.map(one => one.word).join(" "));
        out.replaceChildren(told);
        const counts = shown.facts.words.map(one => `${one.word}: ${one.count.toLocaleString("en")} times`).join(", ");
        told.textContent = counts + (shown.facts.shared.length ? `. Near more than one of them: ${shown.facts.shared.join(", ")}` : "");
        const columns = lab.element("div", { class: "columns" });
        out.append(columns);
        for (const name of Object.keys(shown.figures)) await lab.figure(columns, shown, name, { heading: name });
        lab.plainTable(out, shown.table, "contexts", { heading: "Where they stand", code: shown.python }).classList.add("kwic");
      },
    };

    return async () => {
      const look = lab.state.look in looks ? lab.state.look : "neighbours";
      for (const [name, box] of Object.entries(made)) {
        if (name !== "look") box.closest("label").hidden = !USED[look].includes(name);
      }
      if (none && look !== "contexts") return out.replaceChildren();
      await looks[look](lab.state);
    };
  },
};
