"""What a job would do on cards one has not rented yet: does it fit, what crosses the links, what will N cards give.

Pure: values in, values out. Formulas and their sources are in docs/plan.md and beside each function.
"""
