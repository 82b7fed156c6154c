"""The lab: a web page on 127.0.0.1 with a room for each way to inspect a model.

A room has views. A view is a function from the settings on the page to figures, and every result carries the Python code that
produces the same figures in a notebook.
"""
