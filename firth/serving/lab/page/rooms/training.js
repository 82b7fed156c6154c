// Learning curves of several runs, drawn again while a run is still training.

const PAUSE = 2000; // milliseconds between two requests while a log grows

// Curves are comparable between runs of the same task: the room starts with those of the first run's task.
function comparable({ runs }, most) {
  const { task } = runs[0] ?? {};
  return { task, names: runs.filter(run => run.task === task).map(run => run.name).slice(0, most) };
}

export function mount(root, lab) {
  const { task, names } = comparable(lab.info, lab.room.facts.most_runs);
  const made = lab.controls(root, [
    { name: "runs", label: "Runs", kind: "many", value: names.join("\n") },
    { name: "metric", label: "Metric", kind: "select", options: [{ value: "loss", label: "loss" }] },
    { name: "against", label: "Horizontal axis", kind: "choice" },
    { name: "log", label: "Logarithmic scale", kind: "flag", value: "false" },
  ]);
  const out = lab.element("div"), states = lab.element("ul", { "data-states": true });
  const text = `These are the runs with the same task as ${names[0]} (${task}). Select others under Runs.`;
  const chosen = lab.element("p", { "data-chosen": true, role: "status", text });
  root.append(out, chosen, states);
  let timer;
  lab.left.signal.addEventListener("abort", () => clearTimeout(timer));

  return async () => {
    clearTimeout(timer);
    chosen.hidden = true;
    if (!lab.room.usable.length) return;
    const { runs, metric, against, log } = lab.state;
    chosen.hidden = runs !== lab.first.runs || names.length === lab.room.usable.length;
    const result = await lab.ask("curves", { runs: runs.split("\n").filter(Boolean), metric, against, log }, { into: out });
    if (!result) return;
    const { metrics, states: texts, growing } = result.facts;
    if (metrics.length) lab.offer(made.metric, metrics, lab.state.metric);
    states.replaceChildren(...Object.entries(texts).map(([name, state]) => lab.element("li", { text: `${name}: ${state}` })));
    await lab.figure(out, result, "curves");
    if (growing && !lab.left.signal.aborted) timer = setTimeout(() => lab.draw(), PAUSE);
  };
}
