// What a run does not know of a text, marked in the text itself, below the box that it was written in. The reason appears under the
// pointer, for a word that has the keyboard's focus, and as its description.

import { element, fresh } from "./dom.js";

const value = (root, name) => root.querySelector(`[data-control="${CSS.escape(name)}"]`)?.value;
const belongs = (root, name) => JSON.stringify([value(root, "run"), value(root, name)]); // what a marked text belongs to

function marked(root, name, { parts, reason }) {
  const why = element("span", { role: "tooltip", id: fresh("why"), text: reason, hidden: true }), seen = new Set();
  const show = mark => {
    why.hidden = false;
    why.style.left = `${Math.max(0, Math.min(mark.offsetLeft, mark.offsetParent.clientWidth - why.offsetWidth))}px`;
    why.style.top = `${mark.offsetTop + mark.offsetHeight - mark.parentElement.scrollTop}px`;
  };
  const hide = () => { why.hidden = true; };
  function mark(text) {
    const again = seen.has(text); // the keyboard stops once at each word
    seen.add(text);
    const one = element("mark", {
      class: "unknown", text: text.replace(/\n/g, "⏎"), tabindex: again ? null : 0, "aria-describedby": why.id,
      onmouseenter: () => show(one), onmouseleave: hide, onfocus: () => show(one), onblur: hide,
      onkeydown: event => { if (event.key === "Escape") hide(); },
    });
    return one;
  }
  const text = element("span", { class: "text" }, ...parts.map(([part, strange]) => (strange ? mark(part) : part)));
  return element("div", { class: "unknown-text", "data-unknown-in": name, "data-of": belongs(root, name), role: "group", "aria-label": "text with unknown words marked" },
    element("p", { role: "status", text: "The marked parts of your text are unknown to this run:" }), text, why);
}

// Removes what was marked in a text that is no longer there, or that another run reads.
export function forget(root) {
  root?.querySelectorAll("[data-unknown-in]").forEach(old => { if (old.dataset.of !== belongs(root, old.dataset.unknownIn)) old.remove(); });
}

// Marks the texts of a result: `unknown` has the parts of each, or null for a text that is known throughout.
export function markUnknown(root, unknown) {
  forget(root);
  for (const [name, one] of Object.entries(unknown)) {
    const label = root?.querySelector(`[data-control="${CSS.escape(name)}"]`)?.closest("label");
    const old = root?.querySelector(`[data-unknown-in="${CSS.escape(name)}"]`);
    if (!label || (one && old)) continue; // several views of a room read the same text
    old?.remove();
    if (one) label.after(marked(root, name, one));
  }
}
