// Architectures side by side: fresh ones, and runs that translate or learn in context.

const LOOKS = [["flow", "gradient against distance"], ["cost", "time against n and d"], ["lengths", "quality by length"], ["examples", "learning in context"]];
const USED = { flow: ["length", "size", "gain", "seed"], cost: ["longest", "widest"], lengths: ["translators", "beam", "start"], examples: ["learners", "start"] };
const SAID = {
  flow: "Fresh models of equal size, before any training. A gain above 1 multiplies what leads from state to state: an RNN's gradient may then explode.",
  cost: "One layer reads one text, on this machine: O(n·d²) in n steps for a recurrent layer, O(n²·d) in one for attention.",
  lengths: "Each run translates its held-out pairs, which may take minutes.",
  examples: "Each run answers prompts with more and more examples of a task that is new in each.",
};
const NONE = {
  lengths: "No run here translates: `firth train dates-rnnsearch --out runs/dates`.",
  examples: "No run here learns in context: `firth train icl-swap --out runs/icl`.",
};
const HEADINGS = { bleu: "BLEU", exact: "Exactly right" };
const MOST = 7; // as many as there are colours

export default {
  name: "compare",
  title: "Compare",
  mount(root, lab) {
    const of = kind => lab.info.runs.filter(run => run.objective?.startsWith(kind)).map(run => run.name);
    const translators = of("translation"), learners = of("in-context");
    const made = lab.controls(root, [
      { name: "look", label: "Look at", kind: "select", options: LOOKS },
      { name: "length", label: "Tokens", kind: "number", min: 2, max: 500, step: 1, value: 100 },
      { name: "size", label: "Parameters", kind: "number", min: 1000, max: 1000000, step: 1000, value: 40000 },
      { name: "gain", label: "Gain of U", kind: "number", min: 0, max: 100, value: 1 },
      { name: "seed", label: "Seed", kind: "number", min: 0, step: 1, value: 0 },
      { name: "longest", label: "n up to", kind: "number", min: 128, max: 8192, step: 1, value: 1024 },
      { name: "widest", label: "d up to", kind: "number", min: 64, max: 2048, step: 1, value: 512 },
      { name: "translators", label: "Runs", kind: "many", options: translators, value: translators.slice(0, MOST).join("\n") },
      { name: "learners", label: "Runs", kind: "many", options: learners, value: learners.slice(0, MOST).join("\n") },
      { name: "beam", label: "Beam", kind: "number", min: 1, max: 32, step: 1, value: 1 },
      { name: "start", label: "Measure", kind: "button", main: true, press: () => lab.set({ measured: key() }, { push: true }) },
    ]);
    const out = lab.element("div"), said = lab.element("p", { "data-said": true });
    root.append(said, out);
    const key = () => JSON.stringify(asked[lab.state.look](lab.state)); // what takes minutes waits for the button, and is then part of the address
    const runs = text => text.split("\n").filter(Boolean);

    const asked = {
      flow: ({ length, size, gain, seed }) => ({ length, size, gain, seed }),
      cost: ({ longest, widest }) => ({ longest, widest }),
      lengths: state => ({ runs: runs(state.translators), beam: state.beam }),
      examples: state => ({ runs: runs(state.learners) }),
    };

    return async () => {
      const look = lab.state.look in asked ? lab.state.look : "flow";
      const waits = USED[look].includes("start"), none = NONE[look] && !{ lengths: translators, examples: learners }[look].length;
      for (const [name, box] of Object.entries(made)) {
        if (name !== "look") (box.closest("label") ?? box).hidden = none || !USED[look].includes(name);
      }
      said.textContent = none ? NONE[look] : SAID[look];
      const go = !none && (!waits || lab.state.measured === key());
      out.querySelectorAll("[data-figure]").forEach(old => old.remove());
      if (!go) return out.replaceChildren();
      const shown = await lab.ask(look, asked[look](lab.state), { into: out });
      if (!shown) return undefined;
      out.replaceChildren();
      for (const name of Object.keys(shown.figures)) await lab.figure(out, shown, name, { heading: HEADINGS[name] });
      return undefined;
    };
  },
};
