"""The verbs, one per module: load, score, draw, fill and plan are what users do with models."""
