"""From the settings of a run to its encoded data, one module per kind: running text, labelled texts, tagged words, questions,
sentence pairs, prompts."""
