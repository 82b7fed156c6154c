// Architectures side by side: untrained models, and runs that translate or learn in context.

import { prose } from "../lib/dom.js";

export function mount(root, lab) {
  const first = name => lab.choices(name).slice(0, lab.room.facts.most_runs).map(one => one.value).join("\n");
  const made = lab.controls(root, [
    { name: "look", label: "View", kind: "choice" },
    { name: "length", label: "Text length (tokens)", kind: "number", min: 2, max: 500, step: 1, value: 100 },
    { name: "size", label: "Parameters per model", kind: "number", min: 1000, max: 1000000, step: 1000, value: 40000 },
    { name: "gain", label: "Gain of the recurrent weights U", kind: "number", min: 0, max: 100, value: 1 },
    { name: "seed", label: "Seed", kind: "number", min: 0, step: 1, value: 0 },
    { name: "longest", label: "Longest text n (tokens)", kind: "number", min: 128, max: 8192, step: 1, value: 8192 },
    { name: "widest", label: "Largest width d", kind: "number", min: 64, max: 2048, step: 1, value: 2048 },
    { name: "translators", label: "Runs", kind: "many", options: lab.choices("translators"), value: first("translators") },
    { name: "learners", label: "Runs", kind: "many", options: lab.choices("learners"), value: first("learners") },
    { name: "beam", label: "Beam width", kind: "number", min: 1, max: 32, step: 1, value: 1 },
    { name: "start", label: "Measure", kind: "button", main: true, press: () => lab.set({ measured: key() }, { push: true }) },
  ]);
  const out = lab.element("div"), about = lab.element("p", { "data-about": true });
  root.append(out, about);

  // The settings of a view: its controls by name. The names of runs are sent as a list called runs.
  function params() {
    const { controls, runs } = lab.chosen("look");
    const others = controls.filter(name => name !== runs && name in lab.state).map(name => [name, lab.state[name]]);
    return { ...(runs ? { runs: lab.state[runs].split("\n").filter(Boolean) } : {}), ...Object.fromEntries(others) };
  }

  const key = () => JSON.stringify(params()); // a view that takes minutes waits for the button; its settings are then in the address

  return async () => {
    const view = lab.chosen("look"), none = Boolean(view.runs) && !lab.choices(view.runs).length;
    lab.showOnly(made, none ? [] : view.controls, ["look"]);
    about.replaceChildren(...prose(none ? view.if_none : view.about));
    out.querySelectorAll("[data-figure]").forEach(old => old.remove());
    if (none || (view.runs && lab.state.measured !== key())) return out.replaceChildren();
    const show = async known => { for (const name of Object.keys(known.figures)) await lab.figure(out, known, name); };
    const result = await lab.ask(view.value, params(), { into: out, part: show });
    return result ? show(result) : undefined;
  };
}
