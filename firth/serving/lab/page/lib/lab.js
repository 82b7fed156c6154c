// What a room gets: its state, which is also its address; requests to the server; figures; controls.
//
//   #/attention?run=gpt&text=…      the room and its state: strings, each bound to a control
//   #/lesson/gates?step=2            a room with one of its settings in the path

import * as request from "./request.js";
import { controls, options } from "./controls.js";
import { element, fresh, prose, table } from "./dom.js";
import { figure, plainTable, python, tools } from "./plot.js";

export function readAddress() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [name, within = ""] = path.split(/\/(.*)/s);
  return { name, within: decodeURIComponent(within), state: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

// A room may have one of its settings in the path: #/lesson/gates?step=2
export function address({ name, in_path: inPath }, state) {
  const within = state.find(([key, value]) => inPath && key === inPath && value);
  const query = new URLSearchParams(state.filter(one => one !== within));
  return `#/${name}${within ? `/${encodeURIComponent(within[1])}` : ""}?${query}`;
}

export class Lab {
  constructor(info, room, state) {
    this.info = info; // from /api/lab: runs with their facts, vectors, rooms
    this.room = room; // from /api/lab: name, title, about, usable, if_none, choices, facts
    this.state = { ...state };
    this.first = {}; // the controls' values for what the address does not mention
    this.arrange = () => {}; // puts the controls of the bar in view, or behind "More"
    this.rest = null; // what is behind "More"
    this.defaults = () => ({}); // those of them that depend on what it does mention
    this.refreshers = [];
    this.left = new AbortController(); // aborted when the user leaves the room: pending requests end
    this.render = async () => {};
    this.element = element;
    this.table = table;
    this.fresh = fresh;
    this.python = python;
    this.tools = tools;
  }

  // Changes the state, the address and the figures. With push, the Back button undoes it.
  set(changes, { push = false, render = true } = {}) {
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === undefined) delete this.state[name];
      else this.state[name] = String(value);
    }
    this.remember(push);
    this.refreshers.forEach(refresh => refresh());
    return render ? this.draw() : Promise.resolve();
  }

  remember(push = false) {
    // An empty value that is also the default is left out; a default that starts empty may be filled later, by another run.
    const told = Object.entries(this.state).filter(([name, value]) => value !== "" || this.first[name] !== "");
    const here = address(this.room, told);
    if (here !== location.hash) history[push ? "pushState" : "replaceState"](null, "", here);
  }

  busy() {
    document.body.dataset.busy = "yes";
  }

  // Renders the room. Tests wait for data-busy = "no", which the latest of several renderings sets.
  async draw() {
    this.busy();
    const turn = (this.turn = (this.turn ?? 0) + 1);
    try {
      const rendering = this.render();
      this.arrange(); // the room has hidden the controls that it does not need now
      await rendering;
      this.arrange();
    } catch (error) {
      if (!this.left.signal.aborted) this.alert(this.root, `${error.name}: ${error.message}`);
      console.error(error);
    }
    if (turn === this.turn && !this.left.signal.aborted) {
      this.remember();
      document.body.dataset.busy = "no";
      document.body.dataset.ready = this.room.name;
    }
  }

  // The facts of a run: its task, its family, its abilities, …
  run(name = this.state.run ?? this.room.usable[0]) {
    return this.info.runs.find(one => one.name === name) ?? {};
  }

  can(ability) {
    return new Set(this.run().abilities).has(ability);
  }

  // The options that the server offers for a control, and the one that is chosen.
  choices(name) {
    return this.room.choices[name];
  }

  chosen(name) {
    const offered = this.choices(name);
    return offered.find(one => one.value === this.state[name]) ?? offered[0];
  }

  // A starting text for a run. While the user has not written another, choosing a new run changes it.
  example(run) {
    return this.run(run).example ?? "";
  }

  follow(before, name = "text") {
    if (before && before !== this.state.run && this.state[name] === this.example(before)) {
      this.set({ [name]: this.example() }, { render: false });
    }
  }

  // A room's own style sheet, which is loaded once.
  style(href) {
    if (!document.querySelector(`link[href="${href}"]`)) document.head.append(element("link", { rel: "stylesheet", href }));
  }

  ask(view, params, { into = this.root, ...options } = {}) {
    return request.ask(`/api/${this.room.name}/${view}`, params, into, this.left.signal, options);
  }

  // The place of a view's results: after an error, or while a box is empty, none of another text stay on the page.
  results(...children) {
    return request.results(...children);
  }

  nothing(into, hint) {
    request.nothing(into, hint);
  }

  alert(into, message) {
    request.alert(into, message);
  }

  figure(into, result, name, options) {
    return figure(into, result, name, options);
  }

  plainTable(into, numbers, name, options) {
    return plainTable(into, numbers, name, options);
  }

  // Replaces what the room says is worth noticing.
  notice(text) {
    const place = document.querySelector("[data-notice]");
    place?.replaceChildren(place.firstChild, ...prose(text));
  }

  // What the colours mean: [[a custom property of style.css, its meaning], …].
  legend(colours, more = "") {
    const swatches = colours.map(([name, text]) => element("span", {}, element("i", { style: `background: var(${name})` }), text));
    return element("p", { class: "legend", "data-legend": true }, ...swatches, more);
  }

  // Fills a select with choices that came with a result.
  offer(select, choices, chosen) {
    options(select, choices);
    select.value = chosen;
  }

  controls(into, specs, settings) {
    return controls(into, specs, this, settings);
  }

  // Puts something else behind "More".
  behindMore(node) {
    this.rest.append(node);
    this.arrange();
  }

  // Shows the named controls and hides the others, which keep their values.
  showOnly(made, names, always = []) {
    const shown = new Set([...names, ...always]);
    for (const [name, box] of Object.entries(made)) this.show(box, shown.has(name));
  }

  show(box, visible) {
    (box.closest("label") ?? box).hidden = !visible;
  }
}
