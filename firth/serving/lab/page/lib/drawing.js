// A drawing of a model: a choice of the kinds that the model has, and the file to download. It is an image, so that nothing in
// it is ever parsed as a part of the page; its text is also the image's description.

import { element } from "./dom.js";

const address = svg => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;

// Returns a function that shows the drawing of the view "draw" with these settings; it is hidden if there are none.
export function drawing(lab, into) {
  const section = element("section", { "data-drawing": true, hidden: true }, element("h2", { text: "Drawing" }));
  const place = element("figure"), saved = element("a", { text: "Download the drawing", "data-testid": "download-drawing" });
  const tools = element("div", { class: "tools" });
  section.append(place);
  const { drawing: choice } = lab.controls(section, [
    { name: "drawing", label: "What to draw", kind: "select", value: "model", options: [{ value: "model", label: "The whole model" }] },
  ]);
  section.append(tools);
  into.append(section);

  return async settings => {
    section.hidden = !settings;
    if (!settings) return;
    const result = await lab.ask("draw", { ...settings, drawing: lab.state.drawing }, { into: section });
    place.hidden = tools.hidden = !result;
    if (!result) return;
    const { kinds, kind, title, description, light, dark, file, name } = result.facts;
    lab.offer(choice, kinds, kind);
    const image = (theme, svg) => element("img", { src: address(svg), "data-on": theme, alt: `${title}. ${description}` });
    place.replaceChildren(image("light", light), image("dark", dark)); // style.css shows that of the page's theme
    saved.href = address(file);
    saved.download = name;
    tools.replaceChildren(saved, ...lab.python(result.python));
  };
}
