// The first page: a card for each room, with what it shows and whether it works with the runs that there are.

import { element, prose } from "./lib/dom.js";
import { maker, Workshop } from "./lib/workshop.js";
import { thumbnail } from "./thumbnails.js";

function list(heading, rows) {
  return rows.length ? [element("h2", { text: heading }), element("ul", {}, ...rows.map(text => element("li", { text })))] : [];
}

function card(room, make) {
  const link = element("a", { href: `#/${room.name}`, text: room.title });
  const state = element("p", { class: "card-state", "data-works": String(room.works), text: room.works ? "Works now" : `Needs ${room.needs}` });
  return element("li", { "data-card": room.name }, thumbnail(room.name), element("h2", {}, link), element("p", { text: room.about }), state,
    room.works ? null : maker(room, make));
}

// Shows the first page in `main` until `signal` aborts. `again` asks what there is, after a run was trained.
export function home(main, info, signal, again) {
  const workshop = new Workshop(signal, async () => {
    const now = await again(), focused = workshop.node.contains(document.activeElement);
    if (signal.aborted) return;
    show(now);
    if (focused) workshop.links.querySelector("a")?.focus();
  });

  function show({ no_runs: none, rooms, runs, vectors }) {
    main.replaceChildren(
      element("h1", { text: "Explore your models" }),
      ...(none ? [element("p", { "data-no-runs": true }, ...prose(none))] : []),
      workshop.node,
      element("ul", { class: "cards" }, ...rooms.map(room => card(room, starter => workshop.make(starter)))),
      ...list("Runs", runs.map(run => `${run.name}: ${run.about}`)),
      ...list("Word vectors", vectors));
    document.body.dataset.busy = "no";
    document.body.dataset.ready = "home";
  }

  show(info);
  return workshop.look();
}
