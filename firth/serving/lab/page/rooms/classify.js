// The probabilities of the classes as bars, and the effect of each word.

export function mount(root, lab) {
  lab.controls(root, [
    { name: "run", label: "Run", kind: "run" },
    { name: "text", label: "Text", kind: "area", value: lab.room.facts.text },
  ]);
  const summary = lab.element("p", { "data-summary": true, "aria-live": "polite" });
  const why = lab.element("p", { "data-why": true }), out = lab.results(summary, why);
  root.append(out);
  return async () => {
    if (!lab.state.run) return undefined;
    const { run, text } = lab.state;
    if (!text.trim()) return lab.nothing(out, "Type a text to classify.");
    const result = await lab.ask("classes", { run, text }, { into: out });
    if (!result) return undefined;
    summary.textContent = `${result.facts.label}, with a probability of ${(100 * result.facts.probability).toFixed(1)} %`;
    why.textContent = result.facts.why;
    await lab.figure(out, result, "classes");
    if (result.figures.effects) return lab.figure(out, result, "effects");
    return out.querySelector(":scope > [data-figure=effects]")?.remove();
  };
}
