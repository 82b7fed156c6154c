// The probabilities of the classes as bars.

export function mount(root, lab) {
  lab.controls(root, [
    { name: "run", label: "Run", kind: "run" },
    { name: "text", label: "Text", kind: "area", value: lab.room.facts.text },
  ]);
  const out = lab.element("div"), summary = lab.element("p", { "data-summary": true, "aria-live": "polite" });
  out.append(summary);
  root.append(out);
  return async () => {
    if (!lab.state.run) return;
    const { run, text } = lab.state, result = await lab.ask("classes", { run, text }, { into: out });
    summary.textContent = result ? `${result.facts.label}, with a probability of ${(100 * result.facts.probability).toFixed(1)} %` : "";
    if (result) await lab.figure(out, result, "classes");
  };
}
