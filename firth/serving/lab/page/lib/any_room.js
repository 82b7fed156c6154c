// A room without a module of its own: a run, a text and the room's choices go in, and the results of its views come out.

export function mount(root, lab) {
  const { usable, choices, facts, views } = lab.room;
  lab.controls(root, [
    ...(usable.length || !lab.room.works ? [{ name: "run", label: "Run", kind: "run" }] : []),
    ...Object.keys(choices).map(name => ({ name, label: name, kind: "choice" })),
    { name: "text", label: "Text", kind: "area", value: facts.text ?? lab.example() },
  ]);
  const parts = views.map(() => lab.element("div"));
  root.append(...parts);
  let before = null;

  return async () => {
    lab.follow(before);
    before = lab.state.run;
    if (!lab.room.works) return;
    for (const [n, into] of parts.entries()) {
      const result = await lab.ask(views[n], lab.state, { into });
      if (!result) continue;
      for (const name of Object.keys(result.figures)) await lab.figure(into, result, name);
      if (result.table) lab.plainTable(into, result.table, views[n], { heading: lab.room.title, code: result.python });
    }
  };
}
