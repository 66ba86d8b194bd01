"""The machine a training is going to run on."""
