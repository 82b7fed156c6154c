// The answer, marked in its context.

export function mount(root, lab) {
  const { element } = lab, { question, context } = lab.room.facts;
  lab.controls(root, [
    { name: "run", label: "Run", kind: "run" },
    { name: "question", label: "Question", kind: "text", value: question, wide: true },
    { name: "context", label: "Text that contains the answer", kind: "area", value: context },
  ]);
  const out = element("div"), found = element("div");
  out.append(found);
  root.append(out);
  return async () => {
    if (!lab.state.run) return;
    const { run, question: asked, context: given } = lab.state;
    const result = await lab.ask("span", { run, question: asked, context: given }, { into: out });
    found.hidden = !result;
    if (!result) return;
    const { answer, probability, parts: [before, span, after] } = result.facts;
    found.replaceChildren(
      element("p", { "data-summary": true, "aria-live": "polite", text: `“${answer}”, with a probability of ${(100 * probability).toFixed(1)} %` }),
      element("p", { "data-answered": true }, before, element("mark", { text: span }), after),
      element("div", { class: "tools" }, ...lab.python(result.python)));
  };
}
