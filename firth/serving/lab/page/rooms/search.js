// Documents for a query by several methods side by side, with the words of the query marked.

export function mount(root, lab) {
  let given = lab.state.documents !== undefined;
  let opens = lab.state.query === undefined, models = null; // the lab chooses a query that suits its models, and the address then names it
  const made = lab.controls(root, [
    { name: "look", label: "View", kind: "choice" },
    { name: "query", label: "Query", kind: "text", value: "", wide: true },
    { name: "documents", label: "Documents", kind: "choice" },
    { name: "vectors", label: "Word vectors", kind: "choice" },
    { name: "run", label: "Run", kind: "choice" },
    { name: "top", label: "Documents shown", kind: "number", min: 1, max: 50, step: 1, value: 5 },
  ]);
  const out = lab.results();
  root.append(out);

  const part = ({ text, mark }) => lab.element(mark ? "mark" : "span", { text });
  const hit = one => lab.element("li", {},
    lab.element("span", { class: "score", text: one.score.toFixed(4) }), " ",
    lab.element("span", { class: "document", text: one.document }),
    lab.element("p", {}, ...one.parts.map(part)));
  const column = method => lab.element("section", { "data-method": method.name },
    lab.element("h3", { text: method.label }),
    method.unknown ? lab.element("p", { "data-unknown": true, text: method.unknown }) : null,
    method.hits.length ? lab.element("ol", { class: "hits" }, ...method.hits.map(hit)) : lab.element("p", { text: "Nothing found." }));

  const note = result => lab.element("p", { "data-note": true, hidden: !result.facts.note, text: result.facts.note });

  const views = {
    async ranking({ query, documents, vectors, run, top }) {
      if (!opens && !query.trim()) return lab.nothing(out, "Type a query: one or more words.");
      const now = JSON.stringify([vectors, run]);
      if (models && models !== now && query && query === lab.first.query) opens = true; // nobody has written another
      models = now;
      if (opens) given ||= lab.first.documents !== documents;
      const searched = { ...(opens ? {} : { query }), ...(opens && !given ? {} : { documents }) };
      const result = await lab.ask("ranking", { ...searched, vectors, run, top }, { into: out });
      if (!result) return undefined;
      if (opens) lab.first.query = result.facts.query;
      if (opens && !given) lab.first.documents = result.facts.name;
      opens = false;
      lab.set({ query: result.facts.query, documents: result.facts.name }, { render: false });
      const summary = lab.element("p", { "data-summary": true });
      summary.textContent = `${result.facts.documents.toLocaleString("en")} documents, searched for "${result.facts.query}"`;
      out.replaceChildren(summary, note(result), lab.element("div", { class: "columns" }, ...result.facts.methods.map(column)));
      return lab.plainTable(out, result.table, "ranking", { heading: "All scores", code: result.python });
    },
    async recall({ documents, vectors, run }) {
      const result = await lab.ask("recall", { documents, vectors, run }, { into: out });
      if (!result) return;
      out.replaceChildren(note(result));
      lab.plainTable(out, result.table, "recall", { code: result.python });
    },
  };

  return async () => {
    const view = lab.chosen("look");
    lab.showOnly(made, view.controls, ["look"]);
    await views[view.value](lab.state);
  };
}
