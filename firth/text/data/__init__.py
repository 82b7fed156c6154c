"""One module per kind of data: running text, labelled texts, tagged words, questions, sentence pairs, prompts."""
