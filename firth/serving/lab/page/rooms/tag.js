// The words of each sentence with their tags; the less sure the model is, the fainter the frame.

export function mount(root, lab) {
  const { element } = lab;
  lab.controls(root, [
    { name: "run", label: "Run", kind: "run" },
    { name: "text", label: "Sentences, one per line, with spaces around punctuation", kind: "area", value: lab.example() },
  ]);
  const sentences = element("div"), out = lab.results(sentences);
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
    if (!lab.state.run) return undefined;
    const { run, text } = lab.state;
    if (!text.trim()) return lab.nothing(out, "Type one or more sentences to tag.");
    const result = await lab.ask("tags", { run, text }, { into: out });
    if (!result) return undefined;
    sentences.replaceChildren(...result.facts.sentences.map(words => element("p", { class: "sentence", "data-sentence": true }, ...words.map(word))));
    return lab.plainTable(out, result.table, "tags", { heading: "Tags and their probabilities", code: result.python });
  };
}
