const PAUSE = 2000; // milliseconds between two looks at a log that grows
const MOST = 7; // as many as there are colours

// Curves compare where the runs learned the same thing: those of the first run's objective.
function alike({ runs }) {
  const { objective } = runs[0] ?? {};
  return { objective, names: runs.filter(run => run.objective === objective).map(run => run.name).slice(0, MOST) };
}

export default {
  name: "training",
  title: "Training",
  mount(root, lab) {
    const { objective, names } = alike(lab.info);
    const made = lab.controls(root, [
      { name: "runs", label: "Runs", kind: "many", value: names.join("\n") },
      { name: "metric", label: "What", kind: "select", options: ["loss"] },
      { name: "against", label: "Against", kind: "select", options: [["step", "steps"], ["tokens", "tokens read"], ["seconds", "time"]] },
      { name: "log", label: "Logarithmic", kind: "flag", value: "false" },
    ]);
    const out = lab.element("div"), states = lab.element("ul", { "data-states": true });
    const text = `To begin with: the runs that learn the same as ${names[0]} (${objective}). Choose others above.`;
    const chosen = lab.element("p", { "data-chosen": true, role: "status", text });
    root.append(chosen, states, out);
    let timer;
    lab.left.signal.addEventListener("abort", () => clearTimeout(timer));

    async function render() {
      clearTimeout(timer);
      chosen.hidden = true;
      if (!lab.room.usable.length) return;
      const { runs, metric, against, log } = lab.state;
      chosen.hidden = runs !== lab.first.runs || names.length === lab.room.usable.length;
      const shown = await lab.ask("curves", { runs: runs.split("\n").filter(Boolean), metric, against, log }, { into: out });
      if (!shown) return;
      const { metrics } = shown.facts;
      if (metrics.length) lab.offer(made.metric, metrics.map(name => [name, name.replaceAll("_", " ")]), lab.state.metric);
      states.replaceChildren(...Object.entries(shown.facts.states).map(([name, text]) => lab.element("li", { text: `${name}: ${text}` })));
      await lab.figure(out, shown, "curves");
      if (shown.facts.growing && !lab.left.signal.aborted) timer = setTimeout(() => lab.draw(), PAUSE);
    }
    return render;
  },
};
