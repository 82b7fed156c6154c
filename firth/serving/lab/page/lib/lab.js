// What a room is handed: its state, which is its address; questions to the server; figures; controls.
//
//   #/attention?run=gpt&text=…      the room, and its state: strings, each bound to a control

import * as asking from "./asking.js";
import { controls, options } from "./controls.js";
import { element, fresh, table } from "./dom.js";
import { figure, plainTable, python } from "./plot.js";

export function readAddress() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { name: path, state: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

const address = (name, state) => `#/${name}?${new URLSearchParams(state)}`;

export class Lab {
  constructor(info, room, state) {
    this.info = info; // of /api/lab: runs, vectors, rooms
    this.room = room; // of /api/lab: name, title, about, usable, otherwise
    this.state = { ...state };
    this.first = {}; // what the controls say where the address says nothing
    this.refreshers = [];
    this.left = new AbortController(); // of the room: whatever is under way ends
    this.render = async () => {};
    this.element = element;
    this.table = table;
    this.fresh = fresh;
    this.python = python;
  }

  // Changes the state, the address and the picture. With push, Back undoes it.
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
    // What is empty, and is so by itself, need not be said; what begins empty may be filled later, by a new run.
    const told = Object.entries(this.state).filter(([name, value]) => value !== "" || this.first[name] !== "");
    const here = address(this.room.name, told);
    if (here !== location.hash) history[push ? "pushState" : "replaceState"](null, "", here);
  }

  busy() {
    document.body.dataset.busy = "yes";
  }

  // Renders the room. Tests wait for data-busy = "no"; the newest of several renderings ends it.
  async draw() {
    this.busy();
    const turn = (this.turn = (this.turn ?? 0) + 1);
    try {
      await this.render();
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

  // A text that suits a run: what a room opens with. Where nobody has written another, a new run brings its own.
  example(run = this.state.run ?? this.room.usable[0]) {
    return this.info.runs.find(one => one.name === run)?.example ?? "";
  }

  follow(before, name = "text") {
    if (before && before !== this.state.run && this.state[name] === this.example(before)) {
      this.set({ [name]: this.example() }, { render: false });
    }
  }

  ask(view, params, { into = this.root } = {}) {
    return asking.ask(`/api/${this.room.name}/${view}`, params, into, this.left.signal);
  }

  alert(into, message) {
    asking.alert(into, message);
  }

  figure(into, shown, name, options) {
    return figure(into, shown, name, options);
  }

  plainTable(into, shown, name, options) {
    return plainTable(into, shown, name, options);
  }

  // Gives a select its choices, which only an answer could tell.
  offer(select, choices, chosen) {
    options(select, choices);
    select.value = chosen;
  }

  controls(into, specs) {
    return controls(into, specs, this);
  }
}
