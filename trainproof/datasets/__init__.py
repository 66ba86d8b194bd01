"""Training data as rows of text: read once, streaming, in bounded memory."""
