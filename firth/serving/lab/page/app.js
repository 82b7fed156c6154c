// The page: navigation between the rooms, the open room, and the light or dark theme.

import { home } from "./home.js";
import { LACK } from "./lib/controls.js";
import { element, prose } from "./lib/dom.js";
import { Lab, readAddress } from "./lib/lab.js";
import { loadPlotly, redrawAll } from "./lib/plot.js";
import { maker, opening, Workshop } from "./lib/workshop.js";

const main = document.getElementById("room");
let open = null; // the Lab of the open room
let away = new AbortController(); // aborted when the first page is left
let known = null; // what /api/lab answered: asked once, and again whenever the first page is shown

async function contents(again) {
  if (known && !again) return known;
  const response = await fetch("/api/lab");
  if (response.status === 401) throw new Error("The lab was started again. Open the address that it printed in its terminal.");
  if (!response.ok) throw new Error(`The lab responded with status ${response.status}.`);
  return (known = await response.json());
}

function navigation(info, name) {
  document.getElementById("rooms").replaceChildren(...info.rooms.map(room => element("li", {}, element("a", {
    href: `#/${room.name}`, text: room.title, "aria-current": room.name === name ? "page" : null,
  }))));
  document.querySelector("#rooms [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); // on a phone, the list scrolls
}

// What to notice in a room, and settings that show it: texts that suit the chosen run first.
function guide(lab, { notice, examples, works, texts_into: into }) {
  if (!works) return [];
  const buttons = element("p", { class: "examples", role: "group", "aria-label": "examples" });
  const button = ({ label, settings }) => element("button", {
    type: "button", "data-example": label, text: label, onclick: () => lab.set(settings, { push: true }),
  });
  let shown = null;
  function offer() {
    const { name = "", texts = [] } = lab.run();
    if (shown === name) return;
    shown = name;
    const own = into ? texts.map(([label, text, context]) => ({ label, settings: { [into]: text, ...(context && { context }) } })) : [];
    buttons.replaceChildren(element("span", { text: "Try:" }), ...[...own, ...examples].map(button));
    buttons.hidden = buttons.childElementCount < 2;
  }
  lab.refreshers.push(offer);
  offer();
  return [element("div", { class: "guide" },
    ...(notice ? [element("p", { class: "notice", "data-notice": true }, element("strong", { text: "What to notice: " }), ...prose(notice))] : []),
    buttons,
  )];
}

// A room without what it needs says how to make it, and opens anew on it when it is there.
function lacking(lab, room) {
  const workshop = new Workshop(lab.left.signal, async facts => {
    dispatchEvent(new Event("runs-changed"));
    history.replaceState(null, "", opening(facts, room.name));
    leave();
    await follow();
  });
  lab.root.append(workshop.node, maker(room, starter => workshop.make(starter), LACK));
  workshop.look();
}

async function enter(info, room, state) {
  const lab = new Lab(info, room, state);
  open = lab;
  lab.root = element("div", { "data-room": room.name });
  document.title = `${room.title} · ${info.title}`;
  main.replaceChildren(element("h1", { text: room.title }), element("p", { class: "about", text: room.about }), ...guide(lab, room), lab.root);
  const { mount } = await import(`./${room.module}`);
  if (open !== lab) return;
  if (!room.works) lacking(lab, room);
  lab.render = (await mount(lab.root, lab)) ?? lab.render;
  await lab.draw();
}

function leave() {
  open?.left.abort("left");
  away.abort("left");
  away = new AbortController();
  open = null;
}

let turns = 0; // addresses opened so far

async function follow() {
  const { name, within, state } = readAddress();
  const inPath = room => (room?.in_path && within ? { [room.in_path]: within } : {});
  if (open && open.room.name === name) {
    open.state = { ...open.first, ...state, ...inPath(open.room) }; // from which the room finds its defaults
    open.state = { ...open.first, ...open.defaults(), ...state, ...inPath(open.room) };
    open.refreshers.forEach(refresh => refresh());
    return open.draw();
  }
  document.body.dataset.busy = "yes";
  delete document.body.dataset.ready;
  leave();
  const turn = (turns += 1);
  let info;
  try {
    info = await contents(!name);
  } catch (error) {
    const lost = error instanceof TypeError; // fetch throws it if the server does not respond
    const text = lost ? "The lab does not respond. Is it still running in its terminal?" : error.message;
    main.replaceChildren(element("p", { role: "alert", text }));
    document.body.dataset.busy = "no";
    return undefined;
  }
  if (turn !== turns) return undefined; // another address was opened in the meantime
  const room = info.rooms.find(one => [one.name, ...one.old_names].some(known => known === name));
  navigation(info, room?.name);
  if (room) return enter(info, room, { ...state, ...inPath(room) });
  document.title = info.title;
  home(main, info, away.signal, () => contents(true));
  if (name) main.prepend(element("p", { role: "alert", text: `There is no room "${name}".` }));
  return undefined;
}

function theme() {
  const button = document.getElementById("theme"), root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => { button.textContent = dark() ? "Light" : "Dark"; redrawAll(); };
  const saved = localStorage.getItem("theme");
  if (saved) root.dataset.theme = saved;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  show();
}

document.querySelector(".skip").addEventListener("click", event => { event.preventDefault(); main.focus(); });
addEventListener("hashchange", follow);
addEventListener("runs-changed", () => { known = null; });
theme();
follow().finally(() => loadPlotly()); // several megabytes: after the first room has its controls
