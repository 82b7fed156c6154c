"""The lab: a page on 127.0.0.1 with a room for each way to look at a model.

A room has views; a view is a function from what the page asked for to figures, and what it answers is the same in a notebook:
every answer carries the Python that makes it.
"""
