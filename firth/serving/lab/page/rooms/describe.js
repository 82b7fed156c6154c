// The size of a preset, recipe or run: totals as a table, the parameters of each part, and a drawing of the model.

import { drawing } from "../lib/drawing.js";

export function mount(root, lab) {
  lab.controls(root, [
    { name: "of", label: "Preset, recipe or run", kind: "choice", value: lab.room.facts.first },
    { name: "settings", label: "Settings to change (of a preset or recipe)", kind: "text", value: "", placeholder: "model.depth=6 model.width=256", wide: true },
  ]);
  const out = lab.element("div"), summary = lab.element("p", { "data-summary": true }), numbers = lab.element("div");
  root.append(out, summary, numbers);
  const draw = drawing(lab, root);
  return async () => {
    const { of, settings } = lab.state;
    // The drawing is there at once; to count a recipe may mean to read its data.
    const [result] = await Promise.all([lab.ask("count", { of, settings }, { into: out }), draw({ of, settings })]);
    if (!result) { await draw(null); return; }
    const { summary: text, differs } = result.facts;
    summary.textContent = [text, differs && `(${differs})`].filter(Boolean).join(" ");
    lab.plainTable(numbers, result.table, "totals");
    await lab.figure(out, result, "parameters");
  };
}
