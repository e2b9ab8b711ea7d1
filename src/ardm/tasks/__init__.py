"""What users do with a model, once each: load, score, draw, fill, plan."""
