"""The course: lessons in Markdown, which jupytext turns into notebooks.

`NN-name.md` is lesson NN. Its title is its first heading, its summary the paragraph below it. The drawings and texts that
belong to it are the files of this folder that it links to.
"""
