// A button that copies a text, which `source` shows.

import { element } from "./dom.js";

async function copy(text, button, source, label) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch { // no clipboard: select the text, so that the user can copy it with the keyboard
    getSelection().selectAllChildren(source);
    button.textContent = "Selected: press Ctrl+C";
  }
  setTimeout(() => { button.textContent = label; }, 2000);
}

export function copyButton(label, text, source, id) {
  const button = element("button", { type: "button", text: label, "data-testid": id });
  button.addEventListener("click", () => copy(text, button, source, label));
  return button;
}
