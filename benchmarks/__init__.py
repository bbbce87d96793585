"""`make bench`: what Retain costs, measured against the figures it promises and two baselines in the same run.

docs/benchmarks.md says how to run it and how to read it. Not part of the wheel.
"""
