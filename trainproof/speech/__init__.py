"""Speech corpora: manifests, transcripts and the headers of audio files."""
