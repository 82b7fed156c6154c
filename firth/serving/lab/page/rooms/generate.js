// A text, token by token. What was written is in the address as ids, so that settings may change on the way.

const controls = actions => [
  { name: "run", label: "Run", kind: "run" },
  { name: "prompt", label: "Prompt", kind: "text", value: "", wide: true },
  { name: "temperature", label: "Temperature", kind: "range", min: 0, max: 2, step: 0.05, value: 1 },
  { name: "top_k", label: "Top k (0: all)", kind: "number", min: 0, step: 1, value: 0 },
  { name: "top_p", label: "Top p", kind: "range", min: 0.05, max: 1, step: 0.05, value: 1 },
  { name: "seed", label: "Seed", kind: "number", min: 0, step: 1, value: 0 },
  { name: "top", label: "Bars", kind: "number", min: 1, max: 50, step: 1, value: 12 },
  { name: "more", label: "Tokens of a run", kind: "number", min: 1, max: 500, step: 1, value: 20 },
  { name: "step", label: "Step", kind: "button", main: true, press: actions.step },
  { name: "write", label: "Run on", kind: "button", press: actions.write },
  { name: "back", label: "Take back", kind: "button", press: actions.back },
  { name: "over", label: "Start over", kind: "button", press: actions.over },
];

const STATE = [
  { name: "level", label: "Level", kind: "select", options: [], value: "" },
  { name: "gate", label: "State or gate", kind: "select", options: ["h"], value: "h" },
];

const percent = share => (share === null ? "?" : `${(100 * share).toFixed(1)} %`);

// The text with a mark under each token, the fuller the more probable it was.
function text(lab, prompt, written) {
  return [lab.element("span", { class: "prompt", text: prompt }), ...written.map(({ piece, token, probability }) => {
    const mark = lab.element("span", { "data-token": token, title: `${token}: ${percent(probability)}`, text: piece });
    mark.style.background = `rgba(0, 114, 178, ${0.5 * (probability ?? 0)})`;
    return mark;
  })];
}

function choose(lab, candidates, press) {
  return candidates.map(one => lab.element("button", {
    type: "button", "data-candidate": one.id, title: percent(one.probability), text: JSON.stringify(one.token), onclick: () => press(one.id),
  }));
}

export default {
  name: "generate",
  title: "Generate",
  mount(root, lab) {
    const { element } = lab;
    let latest = null, before = null;
    const ids = () => (lab.state.tokens ?? "").split(",").filter(Boolean);
    const push = tokens => lab.set({ tokens: tokens.join(",") || null }, { push: true });
    const made = lab.controls(root, controls({
      step: () => latest && !latest.ended && push([...ids(), latest.drawn.id]),
      back: () => push(ids().slice(0, -1)),
      over: () => push([]),
      async write() {
        lab.busy();
        const shown = await lab.ask("write", lab.state, { into: working });
        return shown ? push([...ids(), ...shown.facts.ids]) : lab.draw();
      },
    }));
    const working = element("div"), out = element("div"), writtenText = element("pre", { "data-written": true, "aria-live": "polite" });
    const said = element("p", { "data-said": true }), candidates = element("div", { class: "controls", role: "group", "aria-label": "write one of these next" });
    const mind = element("section", { hidden: true }, element("h2", { text: "What the network has in mind" })), states = element("div");
    const choices = lab.controls(mind, STATE);
    mind.append(states);
    out.append(writtenText, said, candidates);
    root.append(working, out, mind);

    // Tokens belong to a run and a prompt: where these change alone, the text begins anew.
    function forget() {
      const { run, prompt, tokens } = lab.state;
      const moved = before && (before.run !== run || before.prompt !== prompt) && before.tokens === tokens;
      if (moved) lab.set({ tokens: null, level: "", gate: "h" }, { render: false });
      before = { run, prompt, tokens: lab.state.tokens };
    }

    async function showState() {
      mind.hidden = !latest.recurrent || !(lab.state.prompt || latest.text); // it has read nothing yet
      if (mind.hidden) return;
      const shown = await lab.ask("state", lab.state, { into: states });
      if (!shown) return;
      const { levels, gates } = shown.facts;
      lab.offer(choices.level, levels.map((name, n) => [n, name]), lab.state.level || levels.length - 1);
      lab.offer(choices.gate, gates.map(name => [name, name]), lab.state.gate);
      await lab.figure(states, shown, "state");
    }

    return async () => {
      forget();
      if (!lab.state.run) return;
      const shown = await lab.ask("next", lab.state, { into: out });
      latest = shown?.facts ?? null;
      for (const part of [writtenText, said, candidates]) part.hidden = !shown;
      for (const name of ["step", "write"]) made[name].disabled = !latest || latest.ended;
      made.back.disabled = made.over.disabled = !ids().length;
      if (!shown) { mind.hidden = true; return; }
      writtenText.replaceChildren(...text(lab, lab.state.prompt, latest.written));
      const { drawn, entropy } = latest;
      said.textContent = latest.ended
        ? "The text is over: <eos> was written."
        : `A step writes ${JSON.stringify(drawn.token)} (${percent(drawn.probability)}); the entropy of what may come is ${entropy.toFixed(2)} bits.`;
      candidates.replaceChildren(...(latest.ended ? [] : [element("span", { text: "Or choose:" })]), ...(latest.ended ? [] : choose(lab, latest.candidates, id => push([...ids(), id]))));
      await lab.figure(out, shown, "next", { heading: "What may come next" });
      await showState();
    };
  },
};
