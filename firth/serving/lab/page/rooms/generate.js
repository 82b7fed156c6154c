// Text, token by token. The generated tokens are in the address as ids, so the settings may change along the way.

const controls = (lab, actions) => [
  { name: "run", label: "Run", kind: "run" },
  { name: "prompt", label: "Prompt", kind: "text", value: "", wide: true },
  { name: "temperature", label: "Temperature", kind: "range", min: 0, max: 2, step: 0.05, value: 1 },
  { name: "top_k", label: "Top-k (0 for all)", kind: "number", min: 0, step: 1, value: 0 },
  { name: "top_p", label: "Top-p", kind: "range", min: 0.05, max: 1, step: 0.05, value: 1 },
  { name: "seed", label: "Seed", kind: "number", min: 0, step: 1, value: 0 },
  { name: "top", label: "Candidates shown", kind: "number", min: 1, max: 50, step: 1, value: 12 },
  { name: "more", label: "Tokens to generate", kind: "number", min: 1, max: lab.room.facts.most_tokens, step: 1, value: 20 },
  { name: "step", label: "One token", kind: "button", main: true, press: actions.step },
  { name: "write", label: "Generate", kind: "button", press: actions.write },
  { name: "back", label: "Undo token", kind: "button", press: actions.back },
  { name: "over", label: "Start over", kind: "button", press: actions.over },
];

const STATE = [
  { name: "level", label: "Layer", kind: "select", options: [], value: "" },
  { name: "gate", label: "State or gate", kind: "select", options: [], value: "" },
];

const percent = share => (share === null ? "?" : `${(100 * share).toFixed(1)} %`);

// The text, each token with a background that is stronger the more probable the token was.
function text(lab, prompt, written) {
  return [lab.element("span", { class: "prompt", text: prompt }), ...written.map(({ piece, token, probability }) => {
    const mark = lab.element("span", { "data-token": token, title: `${token}: ${percent(probability)}`, text: piece });
    mark.style.background = `rgba(0, 114, 178, ${0.5 * (probability ?? 0)})`;
    return mark;
  })];
}

function buttons(lab, candidates, press) {
  return candidates.map(one => lab.element("button", {
    type: "button", "data-candidate": one.id, title: percent(one.probability), text: JSON.stringify(one.token), onclick: () => press(one.id),
  }));
}

export function mount(root, lab) {
  const { element } = lab;
  let latest = null, before = null;
  const ids = () => (lab.state.tokens ?? "").split(",").filter(Boolean);
  const push = tokens => lab.set({ tokens: tokens.join(",") || null }, { push: true });
  const made = lab.controls(root, controls(lab, {
    step: () => latest && !latest.ended && push([...ids(), latest.drawn.id]),
    back: () => push(ids().slice(0, -1)),
    over: () => push([]),
    async write() {
      lab.busy();
      const result = await lab.ask("write", lab.state, { into: working });
      return result ? push([...ids(), ...result.facts.ids]) : lab.draw();
    },
  }));
  const working = element("div"), out = element("div"), writtenText = element("pre", { "data-written": true, "aria-live": "polite" });
  const about = element("p", { "data-about": true }), candidates = element("div", { class: "controls", role: "group", "aria-label": "choose the next token" });
  const hidden = element("section", { hidden: true }, element("h2", { text: "The hidden state of the network" })), states = element("div");
  const choices = lab.controls(hidden, STATE);
  hidden.append(states);
  out.append(writtenText, about, candidates);
  root.append(working, out, hidden);

  // Tokens belong to a run and a prompt: when one of these changes by itself, the text starts over.
  function forget() {
    const { run, prompt, tokens } = lab.state;
    const moved = before && (before.run !== run || before.prompt !== prompt) && before.tokens === tokens;
    if (moved) lab.set({ tokens: null, level: "", gate: "" }, { render: false });
    before = { run, prompt, tokens: lab.state.tokens };
  }

  async function showState() {
    hidden.hidden = !lab.run().recurrent || !(lab.state.prompt || latest.text); // without a token there is no state
    if (hidden.hidden) return;
    const result = await lab.ask("state", lab.state, { into: states });
    if (!result) return;
    for (const name of ["level", "gate"]) lab.offer(choices[name], result.facts.choices[name], String(result.facts[name]));
    await lab.figure(states, result, "state");
  }

  return async () => {
    forget();
    if (!lab.state.run) return;
    const result = await lab.ask("next", lab.state, { into: out });
    latest = result?.facts ?? null;
    for (const part of [writtenText, about, candidates]) part.hidden = !result;
    for (const name of ["step", "write"]) made[name].disabled = !latest || latest.ended;
    made.back.disabled = made.over.disabled = !ids().length;
    if (!result) { hidden.hidden = true; return; }
    writtenText.replaceChildren(...text(lab, lab.state.prompt, latest.written));
    const { drawn, entropy } = latest;
    about.textContent = latest.ended
      ? "The text has ended: the model generated <eos>."
      : `With this seed, the next token is ${JSON.stringify(drawn.token)} (${percent(drawn.probability)}). The distribution has an entropy of ${entropy.toFixed(2)} bits.`;
    candidates.replaceChildren(...(latest.ended ? [] : [element("span", { text: "Or choose the next token:" }), ...buttons(lab, latest.candidates, id => push([...ids(), id]))]));
    await lab.figure(out, result, "next");
    await showState();
  };
}
