// A conversation. Its messages are in the address, so the Back button takes back a round; an answer is shown as it is written.

const controls = (lab, actions) => [
  { name: "run", label: "Run", kind: "run" },
  { name: "system", label: "System message", kind: "text", value: "", wide: true, placeholder: "optional" },
  { name: "temperature", label: "Temperature (default: the run's own)", kind: "number", min: 0, max: 10, step: "any", value: "" },
  { name: "tokens", label: "Longest answer (tokens)", kind: "number", min: 1, max: lab.room.facts.most_tokens, step: 1, value: "" },
  { name: "seed", label: "Seed", kind: "number", min: 0, step: 1, value: 0 },
  { name: "over", label: "New conversation", kind: "button", press: actions.over },
];

const WHO = { user: "You", assistant: "Model" };

export function mount(root, lab) {
  const { element } = lab;
  let before = null, answering = null; // the AbortController of the answer that is being written
  const said = () => { try { return JSON.parse(lab.state.messages || "[]"); } catch { return []; } };
  const say = messages => lab.set({ messages: messages.length ? JSON.stringify(messages) : null }, { push: true });

  const made = lab.controls(root, controls(lab, { over: () => { answering?.abort(); return say([]); } }));
  const talk = element("div", { class: "talk", role: "log", "aria-label": "messages", "data-talk": true }), working = element("div");
  const box = element("input", { type: "text", "data-control": "message", autocomplete: "off", maxlength: 10000, "aria-label": "your message", placeholder: "Write a message" });
  const send = element("button", { type: "submit", class: "main", "data-control": "send", text: "Send" });
  const stop = element("button", { type: "button", "data-control": "stop", text: "Stop", disabled: true, onclick: () => answering?.abort() });
  root.append(talk, working, element("form", { class: "controls say", onsubmit: event => { event.preventDefault(); ask(); } }, box, send, stop));

  const bubble = (role, text) => element("div", { class: `message ${role}`, "data-role": role }, element("span", { class: "who", text: WHO[role] ?? role }), element("p", { text }));

  function free(is) {
    send.disabled = box.disabled = !is || !lab.state.run;
    stop.disabled = is;
  }

  async function ask() {
    const question = box.value.trim();
    if (!question || answering || !lab.state.run) return;
    const messages = [...said(), ["user", question]], live = bubble("assistant", "…"), text = live.querySelector("p");
    let written = "";
    lab.busy();
    talk.append(bubble("user", question), live);
    answering = new AbortController();
    free(false);
    const heard = line => { written = line.message; text.textContent = written || "…"; };
    const params = { ...lab.state, messages: JSON.stringify(messages) };
    const result = await lab.ask("reply", params, { into: working, heard: line => line.progress > 0 && heard(line), stopped: answering.signal });
    const stopped = answering.signal.aborted;
    answering = null;
    free(true);
    if (result || (stopped && written.trim())) { // an answer that was stopped before its first word leaves no round behind
      box.value = "";
      await say([...messages, ["assistant", result ? result.facts.answer : written]]);
    } else await lab.draw();
    box.focus();
  }

  // An example fills in the message; Send or Enter asks it.
  function fill() {
    if (!lab.state.message) return;
    box.value = lab.state.message;
    lab.set({ message: null }, { render: false });
    box.focus();
  }

  return async () => {
    fill();
    const { run } = lab.state;
    if (before && before !== run && said().length) lab.set({ messages: null }, { render: false }); // a conversation belongs to a run
    before = run;
    if (answering) return;
    talk.replaceChildren(...said().map(([role, content]) => bubble(role, content)));
    made.over.disabled = !said().length;
    free(true);
  };
}
