export default {
  name: "describe",
  title: "Describe",
  mount(root, lab) {
    lab.controls(root, [
      { name: "of", label: "Preset, recipe or run", kind: "select", options: lab.room.usable, value: "gpt3" },
      { name: "settings", label: "Settings of a recipe", kind: "text", value: "", placeholder: "model.depth=6 model.width=256", wide: true },
    ]);
    const out = lab.element("div"), summary = lab.element("p", { "data-summary": true });
    root.append(out);
    return async () => {
      const { of, settings } = lab.state;
      const shown = await lab.ask("count", { of, settings }, { into: out });
      if (!shown) return;
      const { summary: text, differs } = shown.facts;
      summary.textContent = [text, differs && `(${differs})`].filter(Boolean).join(" ");
      out.append(summary);
      lab.plainTable(out, shown.table, "totals");
      await lab.figure(out, shown, "parameters", { heading: "Where the parameters are" });
    };
  },
};
