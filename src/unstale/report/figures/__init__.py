"""The figures of a report: one data model per chart, computed once from the run.

`html` turns a model into the JSON that the page's script draws, `png` draws the same
model with matplotlib. Neither looks into the run for a chart's data, so the page and
the PNGs cannot differ.
"""
