// Lessons: one step at a time. A question comes first; its figure appears once it is answered.
// The view for a projector has larger type, and shows how many students of a class chose each answer.

import { prose } from "../lib/dom.js";
import { address } from "../lib/lab.js";

const answered = new Map(); // "gates/2" → { answer, right }, for as long as the page is open

const EVERY = 1500; // milliseconds between two counts of the answers of a class

const place = ({ lesson, step }) => `${lesson}/${step}`;

function score(lesson, steps) {
  const asked = Array.from({ length: steps }, (_, n) => answered.get(`${lesson}/${n + 1}`)).filter(Boolean);
  return asked.length ? `${asked.filter(one => one.right).length} of ${asked.length} right` : "";
}

// All lessons, with what was answered so far.
function list(lab) {
  const { element } = lab;
  const entry = ({ value, label, about, steps }) => element("li", { "data-lesson": value },
    element("a", { href: `#/lesson/${encodeURIComponent(value)}?step=1`, text: label }),
    element("p", { text: about }),
    element("p", { class: "quiet", text: [`${steps} steps`, score(value, steps)].filter(Boolean).join(" · ") }));
  return element("ol", { class: "lessons" }, ...lab.choices("lesson").map(entry));
}

export function mount(root, lab) {
  const { element } = lab;
  Object.assign(lab.first, { lesson: "", step: "1" });
  lab.state.step ??= "1";
  const head = element("div"), out = element("div", { "data-lesson-step": true }), picture = element("div", { class: "truth" });
  const live = element("p", { class: "verdict", role: "status", "data-verdict": true });
  const way = element("p", { class: "way" });
  const joined = element("p", { class: "joined", "data-classroom": true, hidden: true }), hidden = element("div", { hidden: true });
  root.append(joined, head, out, live, picture, way, hidden);
  let facts = null; // of the step that is shown

  const projected = () => lab.state.projector === "true";
  lab.left.signal.addEventListener("abort", () => { delete document.body.dataset.projector; });

  // The answers of the class: how many before the figure is shown, and which ones after it.
  async function count() {
    if (!projected() || !facts?.question || !facts.classroom.code || document.hidden) return;
    const { question, options, right } = facts;
    const result = await lab.ask("answers", { question, options }, { into: hidden, bar: false });
    if (!result || facts.question !== question) return;
    const { counts } = result.facts, all = counts.reduce((sum, one) => sum + one, 0);
    joined.querySelector("[data-answers]").textContent = ` ${all} answer${all === 1 ? "" : "s"}`;
    out.querySelectorAll("[data-option]").forEach((button, n) => { if (right !== undefined) button.dataset.count = counts[n] ?? 0; });
  }
  const timer = setInterval(count, EVERY);
  lab.left.signal.addEventListener("abort", () => clearInterval(timer));

  const at = () => Number(lab.state.step) || 1;
  const turn = by => {
    if (!facts) return;
    const asks = facts.question && facts.right === undefined;
    const next = { answer: null, shown: null };
    if (by > 0 && asks) lab.set({ shown: true }, { push: true });
    else if (at() + by >= 1 && at() + by <= facts.steps) lab.set({ ...next, step: at() + by }, { push: true });
    else if (by > 0) lab.set({ ...next, lesson: "", step: 1 }, { push: true });
  };

  addEventListener("keydown", event => {
    if (!lab.state.lesson || event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea, summary, .scroll")) return;
    if (event.key === "ArrowRight") turn(1);
    else if (event.key === "ArrowLeft") turn(-1);
    else if (Number(event.key) >= 1) out.querySelectorAll("[data-option]:not(:disabled)")[Number(event.key) - 1]?.click();
    else return;
    event.preventDefault();
  }, { signal: lab.left.signal });

  function question() {
    const { options, right, given } = facts;
    const button = text => element("button", {
      type: "button", "data-option": text, disabled: right !== undefined, text,
      "data-right": right !== undefined && text === right, "data-wrong": right !== undefined && text === given && text !== right,
      onclick: () => lab.set({ answer: text }, { push: true }),
    });
    return [
      element("p", { class: "question", id: "question" }, ...prose(facts.question)),
      element("div", { class: "options", role: "group", "aria-labelledby": "question" }, ...options.map(button)),
    ];
  }

  function draw() {
    const steps = Array.from({ length: facts.steps }, (_, n) => n + 1);
    const mark = n => { const one = answered.get(`${lab.state.lesson}/${n}`); return one && (one.right ? "right" : "wrong"); };
    head.replaceChildren(
      element("nav", { class: "steps", "aria-label": "Steps" },
        element("a", { href: "#/lesson", text: "All lessons" }),
        ...steps.map(n => element("a", {
          href: address(lab.room, [["lesson", lab.state.lesson], ["step", n], ...(projected() ? [["projector", "true"]] : [])]), text: String(n), "aria-current": n === at() ? "step" : null,
          "aria-label": `Step ${n}${mark(n) ? `, ${mark(n)}` : ""}`, "data-mark": mark(n),
        })),
        element("span", { class: "quiet", "data-score": true, text: score(lab.state.lesson, facts.steps) }),
        element("button", { type: "button", class: "project", "aria-pressed": String(projected()), text: "Projector", onclick: () => lab.set({ projector: projected() ? null : true }) })),
      element("h2", { text: facts.title }));
    out.replaceChildren(element("p", { class: "says" }, ...prose(facts.says)), ...(facts.question ? question() : []),
      ...(facts.lacking ? [element("p", { "data-lacking": true }, ...prose(`This step needs ${facts.lacking.what}. \`${facts.lacking.command}\` makes one.`))] : []));
    const asks = facts.question && facts.right === undefined;
    const last = at() === facts.steps;
    document.body.toggleAttribute("data-projector", projected());
    const { address: where, code } = facts.classroom;
    joined.hidden = !projected() || !code;
    joined.replaceChildren(...(code ? [`Join at ${where} with the code `, element("strong", { text: code }), element("span", { class: "quiet", "data-answers": true })] : []));
    way.replaceChildren(
      element("button", { type: "button", text: "Back", disabled: at() === 1, onclick: () => turn(-1) }), " ",
      element("button", { type: "button", class: asks ? null : "main", "data-next": true, text: asks ? "Show the answer" : last ? "All lessons" : "Next", onclick: () => turn(1) }),
      ...(facts.open ? [" ", element("a", { href: address({ name: facts.open.room }, Object.entries(facts.open.settings)), text: `Open in ${facts.open.title}` })] : []),
      ...(last && facts.read ? [element("span", { class: "quiet" }, ...prose(` Read on: \`docs/${facts.read}\`${facts.course ? `, and lesson ${facts.course} of the course: \`firth lesson ${facts.course}\`` : ""}.`))] : []));
  }

  async function reveal(result) {
    facts = result.facts;
    draw();
    const { given, right, because } = facts, told = right !== undefined;
    const said = !given ? "" : given === right ? "Right. " : `You said: ${given}. `;
    live.replaceChildren(...(told ? prose(`${said}${given === right ? "" : `The answer is: ${right}. `}${because}`) : []));
    live.dataset.verdict = !given ? "" : given === right ? "right" : "wrong";
    picture.replaceChildren();
    for (const name of Object.keys(result.figures)) await lab.figure(picture, result, name);
    count();
  }

  return async () => {
    if (!lab.state.lesson) {
      facts = null;
      head.replaceChildren(list(lab));
      [out, live, picture, way].forEach(one => one.replaceChildren());
      return;
    }
    const here = place(lab.state), answer = lab.state.answer ?? answered.get(here)?.answer;
    const result = await lab.ask("step", { ...lab.state, answer }, { into: out });
    if (!result) { // an alert in `out` says why
      facts = null;
      out.querySelectorAll(":scope > :not([role=alert])").forEach(one => one.remove());
      [live, picture, way].forEach(one => one.replaceChildren());
      return;
    }
    const { right } = result.facts;
    if (answer && right !== undefined && !answered.has(here)) answered.set(here, { answer, right: answer === right }); // the first one counts
    await reveal(result);
  };
}
