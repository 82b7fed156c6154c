"""The mathematics: knows no text and no files. Tensor names end in their axes; docs/notation.md lists the letters."""
