"""Text: files, gaps, samples, and how the codec places characters and bytes."""
