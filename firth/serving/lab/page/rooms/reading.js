// What goes on in a model while it reads, one look at a time.

const LOOKS = [["predictions", "what it expects"], ["states", "what its units hold"], ["flow", "how far a gradient reaches"], ["senses", "one word in several sentences"]];

// The controls that belong to each look; the others are hidden, and keep what they hold.
const USED = {
  predictions: ["text", "top"],
  states: ["text", "level", "gate", "units"],
  flow: ["text"],
  senses: ["word", "sentences"],
};
const SENTENCES = "the list is empty\nreturns the list of names\nlist the files of a folder";
const SAID = {
  flow: "How much of the last token's loss reaches each token before it: ‖∂loss/∂h‖ and ‖∂loss/∂e‖ by distance.",
  states: "A row is a unit, those first that move most from token to token.",
  senses: "In context a word has a vector for each sentence; its embedding, layer 0, is the same in all of them.",
};

export default {
  name: "reading",
  title: "Reading",
  mount(root, lab) {
    const made = lab.controls(root, [
      { name: "run", label: "Run", kind: "run" },
      { name: "look", label: "Look at", kind: "select", options: LOOKS },
      { name: "text", label: "Text", kind: "area", value: lab.example() },
      { name: "word", label: "Word", kind: "text", value: "list" },
      { name: "sentences", label: "Sentences that have it, each on a line", kind: "area", value: SENTENCES },
      { name: "top", label: "How many are told", kind: "number", min: 1, max: 20, step: 1, value: 5 },
      { name: "level", label: "Level", kind: "select", options: [], value: "" },
      { name: "gate", label: "State or gate", kind: "select", options: ["h"], value: "h" },
      { name: "units", label: "Units", kind: "number", min: 1, max: 256, step: 1, value: 32 },
    ]);
    const out = lab.element("div"), said = lab.element("p", { "data-said": true });
    root.append(said, out);
    let before = {};

    const looks = {
      async predictions({ run, text, top }) {
        const shown = await lab.ask("predictions", { run, text, top }, { into: out });
        if (!shown) return null;
        const { tokens, perplexity } = shown.facts;
        said.textContent = `${tokens} tokens, perplexity ${perplexity?.toFixed(2) ?? "not defined"}. The darker a token, the less it was expected.`;
        return [shown, [["predictions", null]]];
      },
      async states({ run, text, level, gate, units }) {
        const shown = await lab.ask("states", { run, text, gate, units, ...(level ? { level } : {}) }, { into: out });
        if (!shown) return null;
        const { levels, gates, ...at } = shown.facts;
        lab.set({ level: at.level, gate: at.gate }, { render: false });
        lab.offer(made.level, levels.map((name, n) => [n, name]), at.level);
        lab.offer(made.gate, gates.map(name => [name, name]), at.gate);
        return [shown, [["states", null]]];
      },
      async flow({ run, text }) {
        const shown = await lab.ask("flow", { run, text }, { into: out });
        const clipped = shown?.figures.clipped ? [["clipped", `Clipped at ${shown.facts.clip}, as in training: lower where it was too high, and no less steep`]] : [];
        return shown && [shown, [["flow", "The gradient, by distance"], ...clipped]];
      },
      async senses({ run, word, sentences }) {
        const shown = await lab.ask("senses", { run, word, sentences }, { into: out });
        return shown && [shown, [["senses", null]]];
      },
    };

    return async () => {
      lab.follow(before.run);
      if (before.run && before.run !== lab.state.run && before.level === lab.state.level) lab.set({ level: "", gate: "h" }, { render: false });
      const look = lab.state.look in looks ? lab.state.look : "predictions";
      for (const [name, box] of Object.entries(made)) {
        if (name !== "look" && name !== "run") box.closest("label").hidden = !USED[look].includes(name);
      }
      if (!lab.state.run) return;
      said.textContent = SAID[look] ?? "";
      const drawn = await looks[look](lab.state);
      before = { ...lab.state };
      if (!drawn) { out.querySelectorAll("[data-figure]").forEach(old => old.remove()); return; }
      out.replaceChildren();
      for (const [name, heading] of drawn[1]) await lab.figure(out, drawn[0], name, { heading });
    };
  },
};
