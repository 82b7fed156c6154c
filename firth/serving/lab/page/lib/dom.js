// Creates elements. Text is always set as text: nothing from a user or a model is ever parsed as HTML.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") made.textContent = value;
    else if (typeof value === "function") made.addEventListener(name.slice(2), value); // onclick: a listener for "click"
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

export function drawing(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export function table(numbers, name) {
  const head = element("tr", {}, ...numbers.headings.map(heading => element("th", { scope: "col", text: heading })));
  const rows = numbers.rows.map(row => element("tr", {}, ...row.map(cell => element("td", { text: cell }))));
  return element("table", { "data-table": name }, element("thead", {}, head), element("tbody", {}, ...rows));
}

let count = 0;
export const fresh = prefix => `${prefix}-${++count}`;
