// Controls bound to the state of a room, and thereby to its address.

import { element } from "./dom.js";

const WAIT = 150; // milliseconds to wait after the last move of a slider

const named = names => names.map(name => ({ value: name, label: name }));

// Runs with the family that they belong to.
const families = (choices, lab) => choices.map(one => ({ ...one, group: lab.info.runs.find(run => run.name === one.value)?.group }));

// The options of a control, { value, label } each: those of the spec, or those that the server offers for it.
const offered = (spec, lab) => {
  switch (spec.kind) {
    case "run": case "many": return families(spec.options ?? named(lab.room.usable), lab);
    case "vectors": return spec.options ?? named(lab.info.vectors);
    case "choice": return spec.name === "run" ? families(lab.choices("run"), lab) : lab.choices(spec.name);
    default: return spec.options ?? [];
  }
};

// The choices by their group, in the order in which the groups appear. A single group needs no heading.
function groups(choices) {
  const found = new Map();
  for (const one of choices) found.set(one.group ?? "", [...(found.get(one.group ?? "") ?? []), one]);
  return found.size > 1 ? [...found] : [["", choices]];
}

export function options(select, choices) {
  const option = ({ value, label }) => element("option", { value, text: label });
  select.replaceChildren(...groups(choices).flatMap(([label, members]) => (
    label ? [element("optgroup", { label }, ...members.map(option))] : members.map(option))));
}

function input(spec, lab) {
  const limits = { min: spec.min, max: spec.max, step: spec.step };
  switch (spec.kind) {
    case "select": case "choice": case "run": case "vectors": {
      const select = element("select");
      options(select, offered(spec, lab));
      return select;
    }
    case "number": return element("input", { type: "number", ...limits, step: spec.step ?? "any", placeholder: spec.placeholder });
    case "range": return element("input", { type: "range", ...limits });
    case "flag": return element("input", { type: "checkbox" });
    case "area": return element("textarea", { placeholder: spec.placeholder, maxlength: spec.longest });
    case "text": return element("input", { type: "text", placeholder: spec.placeholder, autocomplete: "off", spellcheck: "false", list: spec.list });
    default: throw new Error(`there is no control of kind "${spec.kind}"`);
  }
}

// A checkbox for each of several options; the state lists the checked ones, one per line.
function many(spec, lab) {
  const boxes = [];
  const chosen = () => boxes.filter(one => one.checked).map(one => one.value).join("\n");
  const labelled = ({ value, label }) => {
    const box = element("input", { type: "checkbox", value, onchange: () => lab.set({ [spec.name]: chosen() }, { push: true }) });
    boxes.push(box);
    return element("label", { class: "flag" }, box, element("span", { text: label }));
  };
  const parts = groups(offered(spec, lab)).map(([heading, members]) => element("div", { class: "group", role: "group", "aria-label": heading || null },
    heading ? element("span", { text: heading }) : null, ...members.map(labelled)));
  const refresh = () => {
    const checked = new Set((lab.state[spec.name] ?? "").split("\n"));
    boxes.forEach(box => { box.checked = checked.has(box.value); });
  };
  lab.refreshers.push(refresh);
  refresh();
  return element("fieldset", { "data-control": spec.name }, element("legend", { text: spec.label }), ...parts);
}

const read = (spec, box) => (spec.kind === "flag" ? String(box.checked) : box.value);

function write(spec, box, value) {
  if (spec.kind === "flag") box.checked = value === "true";
  else if (box.value !== value) {
    // A value that is not offered (a deleted run) stays visible, and the server explains what is wrong with it.
    if (box.tagName === "SELECT" && ![...box.options].some(one => one.value === value)) box.append(element("option", { value, text: value }));
    box.value = spec.kind === "number" && !Number.isFinite(Number(value)) ? "" : value; // the server explains what is wrong with it
  }
}

function bound(spec, lab) {
  const box = input(spec, lab);
  box.name = spec.name;
  box.dataset.control = spec.name;
  const told = spec.kind === "range" ? element("span") : null; // not <output>, which the label would refer to
  let timer;
  // The Back button undoes a change, except for the many small moves of a slider.
  const changed = () => { clearTimeout(timer); lab.set({ [spec.name]: read(spec, box) }, { push: spec.kind !== "range" }); };
  box.addEventListener("change", changed);
  if (spec.kind === "range") {
    box.addEventListener("shown", () => { told.textContent = box.value; }); // the room has moved the slider, without a change of its state
    box.addEventListener("input", () => {
      told.textContent = box.value;
      lab.busy();
      clearTimeout(timer);
      timer = setTimeout(changed, WAIT);
    });
  }
  if (spec.kind === "area") {
    box.addEventListener("keydown", event => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return; // Shift+Enter is a new line
      event.preventDefault();
      box.form.requestSubmit();
    });
  }
  const refresh = () => {
    write(spec, box, lab.state[spec.name] ?? "");
    if (told) told.textContent = box.value;
  };
  lab.refreshers.push(refresh);
  refresh();
  const label = element("label", { class: spec.kind === "flag" ? "flag" : spec.wide || spec.kind === "area" ? "wide" : null, title: spec.title });
  const words = element("span", { text: spec.label });
  if (told) words.append(" ", told);
  label.append(...(spec.kind === "flag" ? [box, words] : [words, box]));
  return label;
}

function first(spec, lab) {
  if (spec.value !== undefined) return String(spec.value);
  return String(offered(spec, lab)[0]?.value ?? "");
}

const written = spec => spec.kind === "text" || spec.kind === "area";

// Enter or Go: what was written takes effect. A view that failed or was cancelled is asked for again.
function submit(specs, made, lab) {
  const changed = specs.filter(spec => written(spec) && made[spec.name].value !== (lab.state[spec.name] ?? ""));
  if (changed.length) return lab.set(Object.fromEntries(changed.map(spec => [spec.name, made[spec.name].value])), { push: true });
  return document.body.dataset.busy === "no" ? lab.draw() : undefined; // the change of a box is already on its way
}

export const LACK = "what-lacks"; // the id of the part of the page that says what a room lacks, and how to make it

// Without a run there is nothing to press: the buttons say so, and the list of runs says that it has none.
function lacking(panel, made, lab) {
  if (made.run) made.run.replaceChildren(element("option", { value: "", text: `no ${lab.room.needs.replace(/^an? /, "")} yet` }));
  for (const box of [made.run, ...panel.querySelectorAll("button")]) {
    if (!box) continue;
    box.disabled = true;
    box.title = lab.room.if_none;
    box.setAttribute("aria-describedby", LACK);
  }
}

const FRONT = 3; // fields of a room that are always in view

// A <details> for the rest of a room's controls. It remembers being open, for each room by itself.
export function more(lab, summary = "More") {
  const key = `more-${lab.room.name}`, details = element("details", { class: "more" }, element("summary", { text: summary }));
  details.open = localStorage.getItem(key) === "open";
  details.addEventListener("toggle", () => localStorage.setItem(key, details.open ? "open" : "closed"));
  return details;
}

// Puts the controls that stay in view before More, and the rest into it: those that say so stay in view, or else the first few
// fields that are not hidden; and the main button, in any case.
function arrange(panel, rest, entries) {
  const fields = entries.filter(({ spec, node }) => spec.kind !== "button" && !node.hidden), told = fields.some(({ spec }) => spec.front);
  const first = new Set(told ? [] : fields.slice(0, FRONT));
  const isFirst = entry => entry.spec.main || entry.spec.front || first.has(entry);
  // From the last to the first, and only what is not in its place yet: a control that is moved loses the focus.
  const put = (place, before, nodes) => nodes.reduceRight((next, node) => {
    if (node.parentElement !== place || node.nextElementSibling !== next) place.insertBefore(node, next);
    return node;
  }, before);
  const split = front => entries.filter(entry => Boolean(isFirst(entry)) === front).map(({ node }) => node);
  const nodes = new Set(entries.map(({ node }) => node));
  put(panel, [...panel.children].find(node => !nodes.has(node)), split(true));
  put(rest, [...rest.children].find((node, n) => n && !nodes.has(node)) ?? null, split(false));
  rest.hidden = ![...rest.children].slice(1).some(node => !node.hidden);
}

// Adds a labelled control for each of `specs`, fills in what the address does not mention, and returns the controls by name. Of the
// first panel of a room, which is its bar, most are behind "More"; a room that plays keeps its bar in view.
export function controls(into, specs, lab, { plays = false } = {}) {
  const made = {}, entries = [], bar = into === lab.root && !into.querySelector(":scope > .bar");
  const kind = into.closest("form") ? "div" : "form"; // a form cannot hold another
  const panel = element(kind, { class: "controls", onsubmit: event => { event.preventDefault(); submit(specs, made, lab); } });
  panel.classList.toggle("bar", bar);
  panel.classList.toggle("plays", plays);
  for (const spec of specs) {
    let node;
    if (spec.kind === "button") {
      node = made[spec.name] = element("button", {
        type: "button", text: spec.label, class: spec.main ? "main" : null, "data-control": spec.name, onclick: () => spec.press(),
      });
    } else {
      lab.first[spec.name] = first(spec, lab);
      if (lab.state[spec.name] === undefined) lab.state[spec.name] = lab.first[spec.name];
      node = spec.kind === "many" ? many(spec, lab) : bound(spec, lab);
      made[spec.name] = spec.kind === "many" ? node : node.querySelector("[data-control]");
    }
    entries.push({ spec, node });
    panel.append(node);
  }
  if (specs.some(written) && !specs.some(spec => spec.main)) panel.append(element("button", { type: "submit", class: "main", "data-testid": "go", text: "Go" }));
  if (!lab.room.works && lab.first.run === "") lacking(panel, made, lab);
  if (bar) {
    lab.rest = more(lab);
    panel.append(lab.rest);
    lab.arrange = () => arrange(panel, lab.rest, entries);
    lab.arrange();
  }
  into.append(panel);
  return made;
}
