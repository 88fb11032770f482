"""Figures that pages quote, compared with the result files that they are from.

A figure on a page is a number with two or more decimals, a number with a unit (%, s, ms,
×, MB, …), or in a table any decimal number. Each one has to say where it is from, in a
comment that nobody sees on the rendered page:

```markdown
The fives end at 0.928<!-- from: results/summary.json methods/convert/affected_accuracy -->.

Within 0.014 and 0.034<!-- from: tables.py gaps digits 40 100 --> of no delay.

<!-- made by: tables.py digits -->

| the whole table | is written by `python docs/quoted --write` |

<!-- end -->
```

`<!-- found in: results/log.txt "seed 3" -->` covers the figures before it that a line of a log has.
Figures that are not ours to measure are named one by one: `<!-- paper: 0.28 -->`,
`<!-- setting: 256 -->`, `<!-- arithmetic: 87 -->`. `markers` finds all of this on a page,
`sources` reads values from result files, and `check` compares the two.
"""
