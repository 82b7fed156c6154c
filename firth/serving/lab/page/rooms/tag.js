// The words of each sentence with their tags; the less sure the model is, the fainter the frame.

export function mount(root, lab) {
  const { element } = lab;
  lab.controls(root, [
    { name: "run", label: "Run", kind: "run" },
    { name: "text", label: "Sentences, one per line, with spaces around punctuation", kind: "area", value: lab.example() },
  ]);
  const out = element("div"), sentences = element("div");
  out.append(sentences);
  root.append(out);

  function word({ word: text, tag, probability }) {
    const box = element("span", { class: "tagged", "data-tag": tag, title: `${tag}: ${(100 * probability).toFixed(1)} %` },
      element("span", { text }), element("b", { text: tag }));
    box.style.setProperty("--sure", probability);
    return box;
  }

  let before = null;

  return async () => {
    lab.follow(before);
    before = lab.state.run;
    if (!lab.state.run) return;
    const { run, text } = lab.state, result = await lab.ask("tags", { run, text }, { into: out });
    sentences.hidden = !result;
    if (!result) { out.querySelector(":scope > [data-plain]")?.remove(); return; }
    sentences.replaceChildren(...result.facts.sentences.map(words => element("p", { class: "sentence", "data-sentence": true }, ...words.map(word))));
    lab.plainTable(out, result.table, "tags", { heading: "Tags and their probabilities", code: result.python });
  };
}
