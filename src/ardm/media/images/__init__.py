"""Images: files, gaps, samples, and how the codec places pixels."""
