"""What users do with models, each in one place: load, score, draw, fill, plan."""
