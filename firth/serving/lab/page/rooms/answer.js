// The answer, marked in its context.

// The first question that suits a run, and its text.
function start(lab, run) {
  const [, question, context] = lab.run(run).texts?.[0] ?? [];
  return context ? { question, context } : lab.room.facts;
}

// While the user has not written anything else, choosing a new run changes both.
function follow(lab, before) {
  if (!before || before === lab.state.run) return;
  const untouched = Object.entries(start(lab, before)).every(([name, value]) => lab.state[name] === value);
  if (untouched) lab.set(start(lab), { render: false });
}

export function mount(root, lab) {
  const { element } = lab, { question, context } = start(lab);
  lab.controls(root, [
    { name: "run", label: "Run", kind: "run" },
    { name: "question", label: "Question", kind: "text", value: question, wide: true },
    { name: "context", label: "Text that contains the answer", kind: "area", value: context },
  ]);
  const found = element("div"), out = lab.results(found);
  root.append(out);
  let last = "";
  return async () => {
    if (!lab.state.run) return undefined;
    follow(lab, last);
    last = lab.state.run;
    const { run, question: asked, context: given } = lab.state;
    if (!asked.trim() || !given.trim()) return lab.nothing(out, "Type a question, and a text that contains its answer.");
    const result = await lab.ask("span", { run, question: asked, context: given }, { into: out });
    if (!result) return undefined;
    const { answer, probability, parts: [before, span, after] } = result.facts;
    return found.replaceChildren(
      element("p", { "data-summary": true, "aria-live": "polite", text: `“${answer}”, with a probability of ${(100 * probability).toFixed(1)} %` }),
      element("p", { "data-answered": true }, before, element("mark", { text: span }), after),
      element("div", { class: "tools" }, ...lab.python(result.python)));
  };
}
