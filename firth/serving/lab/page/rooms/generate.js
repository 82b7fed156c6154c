// Text, token by token. The generated tokens are in the address as ids, so the settings may change along the way.

const controls = (lab, actions) => [
  { name: "run", label: "Run", kind: "run" },
  { name: "prompt", label: "Prompt", kind: "text", value: lab.example(), wide: true },
  { name: "temperature", label: "Temperature", kind: "range", min: 0, max: 2, step: 0.05, value: 1 },
  { name: "top_k", label: "Top-k (0 for all)", kind: "number", min: 0, step: 1, value: 0 },
  { name: "top_p", label: "Top-p", kind: "range", min: 0.05, max: 1, step: 0.05, value: 1 },
  { name: "seed", label: "Seed", kind: "number", min: 0, step: 1, value: 0 },
  { name: "top", label: "Candidates shown", kind: "number", min: 1, max: 50, step: 1, value: 12 },
  { name: "more", label: "Tokens to generate", kind: "number", min: 1, max: lab.room.facts.most_tokens, step: 1, value: 20 },
  { name: "step", label: "Next token", kind: "button", main: true, press: actions.step },
  { name: "again", label: "Draw again", kind: "button", press: actions.again },
  { name: "write", label: "Generate", kind: "button", front: true, press: actions.write },
  { name: "back", label: "Remove last token", kind: "button", press: actions.back },
  { name: "over", label: "Start over", kind: "button", press: actions.over },
];

// The filters besides those above, each with its settings; an empty box has the usual value.
function furtherFilters(lab) {
  const details = lab.element("details", {}, lab.element("summary", { text: "More sampling filters" }));
  lab.behindMore(details);
  for (const { label, about, settings } of lab.choices("filter")) {
    details.append(lab.element("p", {}, lab.element("strong", { text: `${label}: ` }), about));
    lab.controls(details, settings.map(({ name, meaning, value }) => (
      { name, label: name.replaceAll("_", " "), title: meaning, kind: "number", value: "", placeholder: value })));
    details.open ||= settings.some(({ name }) => lab.state[name]);
  }
}

const STATE = [
  { name: "level", label: "Layer", kind: "select", options: [], value: "" },
  { name: "gate", label: "State or gate", kind: "select", options: [], value: "" },
];

const percent = share => (share === null ? "?" : `${(100 * share).toFixed(1)} %`);

// How uncertain the model is, and how uncertain the draw is, which temperature, top-k and top-p change.
function uncertainty({ entropy, sampling_entropy: sampled }) {
  const model = `The model's probabilities have an entropy of ${entropy.toFixed(2)} bits`;
  return Math.abs(sampled - entropy) < 0.005 ? `${model}.` : `${model}, the sampling probabilities of ${sampled.toFixed(2)} bits.`;
}

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
    type: "button", "data-candidate": one.id, title: `the model's probability: ${percent(one.probability)}`,
    text: `${JSON.stringify(one.token)} ${percent(one.share)}`, onclick: () => press(one.id),
  }));
}

export function mount(root, lab) {
  const { element } = lab;
  let latest = null, before = null;
  const ids = () => (lab.state.tokens ?? "").split(",").filter(Boolean);
  const push = tokens => lab.set({ tokens: tokens.join(",") || null }, { push: true });
  const made = lab.controls(root, controls(lab, {
    step: () => latest && !latest.ended && push([...ids(), latest.drawn.id]),
    // The last token is taken back, and the next seed draws another one in its place, which may be the same.
    async again() {
      lab.busy();
      const fewer = ids().slice(0, -1), seed = Number(lab.state.seed || 0) + 1;
      const result = await lab.ask("next", { ...lab.state, seed, tokens: fewer.join(",") }, { into: working });
      return result ? lab.set({ seed, tokens: [...fewer, result.facts.drawn.id].join(",") }, { push: true }) : lab.draw();
    },
    back: () => push(ids().slice(0, -1)),
    over: () => push([]),
    async write() {
      lab.busy();
      const live = element("span", { "data-live": true });
      writtenText.append(live);
      const result = await lab.ask("write", lab.state, { into: working, bar: true, heard: line => { live.textContent = line.message; } });
      return result ? push([...ids(), ...result.facts.ids]) : lab.draw();
    },
  }));
  furtherFilters(lab);
  const working = element("div"), out = element("div"), writtenText = element("pre", { "data-written": true, "aria-live": "polite" });
  const about = element("p", { "data-about": true }), candidates = element("div", { class: "controls", role: "group", "aria-label": "choose the next token" });
  const hidden = element("section", { hidden: true }, element("h2", { text: "Hidden state and gates" })), states = element("div");
  const choices = lab.controls(hidden, STATE);
  hidden.append(states);
  out.append(writtenText);
  root.append(working, out, about, candidates, hidden);

  // Tokens belong to a run and a prompt: when one of these changes by itself, the text starts over.
  function forget() {
    lab.follow(before?.run, "prompt");
    const { run, prompt, tokens } = lab.state;
    const moved = before && (before.run !== run || before.prompt !== prompt) && before.tokens === tokens;
    if (moved) lab.set({ tokens: null, level: "", gate: "" }, { render: false });
    before = { run, prompt, tokens: lab.state.tokens };
  }

  async function showState() {
    hidden.hidden = !lab.can("show_states") || !(lab.state.prompt || latest.text); // without a token there is no state
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
    made.back.disabled = made.over.disabled = made.again.disabled = !ids().length;
    if (!result) { hidden.hidden = true; return; }
    writtenText.replaceChildren(...text(lab, latest.prompt, latest.written));
    about.textContent = latest.ended ? "The text has ended: the model generated <eos>." : uncertainty(latest);
    const take = id => push([...ids(), id]);
    candidates.replaceChildren(...(latest.ended ? [] : [element("span", { text: "Choose the next token yourself:" }), ...buttons(lab, latest.candidates, take)]));
    const place = await lab.figure(out, result, "next", { heading: null });
    place.removeAllListeners("plotly_click");
    place.on("plotly_click", ({ points: [{ y }] }) => { if (!latest.ended) take(latest.candidates[y].id); });
    await showState();
  };
}
