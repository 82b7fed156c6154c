// A run on a text, one view at a time.

// The tokens that the model reads before the text, although nobody typed them: a newline, for example.
const after = tokens => (tokens.length ? ` (after ${tokens.join(" ")}, which the model reads before every text)` : "");

export function mount(root, lab) {
  const made = lab.controls(root, [
    { name: "run", label: "Run", kind: "run" },
    { name: "look", label: "View", kind: "choice" },
    { name: "text", label: "Text", kind: "area", value: lab.example() },
    { name: "word", label: "Word", kind: "text", value: lab.room.facts.word },
    { name: "sentences", label: "Sentences with the word, one per line", kind: "area", value: lab.room.facts.sentences },
    { name: "top", label: "Candidates shown", kind: "number", min: 1, max: 20, step: 1, value: 5 },
    { name: "level", label: "Layer", kind: "select", options: [], value: "" },
    { name: "gate", label: "State or gate", kind: "select", options: [], value: "" },
    { name: "units", label: "Units shown", kind: "number", min: 1, max: 256, step: 1, value: 32 },
  ]);
  const out = lab.element("div"), about = lab.element("p", { "data-about": true });
  root.append(out, about);
  let before = {};

  // The settings of the view: its controls by name. A layer is sent only once there is one to choose.
  function params({ controls }) {
    const settings = { run: lab.state.run, ...Object.fromEntries(controls.map(name => [name, lab.state[name]])) };
    if (!settings.level) delete settings.level;
    return settings;
  }

  // What some views add to their figures: layers and gates to choose from, or the perplexity of the text.
  const additions = {
    predictions({ tokens, perplexity, before: first }, text) {
      about.textContent = `${tokens} tokens${after(first)}, perplexity ${perplexity?.toFixed(2) ?? "undefined"}. ${text}`;
    },
    flow({ tokens, before: first }, text) {
      about.textContent = `${tokens} tokens${after(first)}. ${text}`;
    },
    states({ choices, level, gate }) {
      lab.set({ level, gate }, { render: false });
      lab.offer(made.level, choices.level, String(level));
      lab.offer(made.gate, choices.gate, gate);
    },
  };

  return async () => {
    lab.follow(before.run);
    if (before.run && before.run !== lab.state.run && before.level === lab.state.level) lab.set({ level: "", gate: "" }, { render: false });
    const view = lab.chosen("look");
    lab.showOnly(made, view.controls, ["run", "look"]);
    if (!lab.state.run) return;
    about.textContent = view.about;
    const result = await lab.ask(view.value, params(view), { into: out });
    if (result) additions[view.value]?.(result.facts, view.about);
    before = { ...lab.state };
    if (!result) { out.querySelectorAll("[data-figure]").forEach(old => old.remove()); return; }
    out.replaceChildren();
    for (const name of Object.keys(result.figures)) await lab.figure(out, result, name);
  };
}
