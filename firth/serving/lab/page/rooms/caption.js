// An image, its captions, and for each word the part of the image that it attends to.

export function mount(root, lab) {
  const { element } = lab, most = lab.room.facts.most_scenes;
  const next = () => lab.set({ number: (Number(lab.state.number) % most) + 1 }, { push: true });
  lab.controls(root, [
    { name: "run", label: "Run", kind: "run" },
    { name: "part", label: "Images", kind: "choice" },
    { name: "number", label: "Image number", kind: "number", min: 1, max: most, step: 1, value: 1 },
    { name: "beam", label: "Beam width", kind: "number", min: 1, max: 12, step: 1, value: 3 },
    { name: "next", label: "Next image", kind: "button", main: true, press: next },
  ]);
  const out = element("div"), shown = element("div", { class: "scene" });
  out.append(shown);
  root.append(out);
  return async () => {
    if (!lab.state.run) return;
    const { run, part, number, beam } = lab.state, result = await lab.ask("captions", { run, part, number, beam }, { into: out });
    shown.hidden = !result;
    if (!result) return;
    const { image, truth, captions } = result.facts;
    shown.replaceChildren(
      element("img", { src: image, alt: `an image: ${truth}`, width: 192, height: 192 }),
      element("div", {},
        element("p", { "data-summary": true, "aria-live": "polite", text: `The model’s caption: ${captions[0] || "(nothing)"}` }),
        element("p", { "data-truth": true, text: `The correct caption: ${truth}` })));
    lab.plainTable(out, result.table, "captions", { heading: "Captions, best first", code: result.python });
    if (result.figures.overlay) await lab.figure(out, result, "overlay");
    else out.querySelector(":scope > [data-figure]")?.remove();
  };
}
